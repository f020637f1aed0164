package manifest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/testenv/fakes3"
)

const week = 7 * 24 * time.Hour

func TestAbandoned(t *testing.T) {
	old := started.Add(-time.Second)
	got := abandoned([]contents{
		{run: "stopped", newest: old}, {run: "own", newest: old}, {run: "complete", newest: old, complete: true}, {run: "active", newest: started},
		{run: "gone"},
	}, "own", started)
	if !slices.Equal(got, []string{"stopped"}) {
		t.Errorf("%v", got)
	}
}

// TestDeleteAbandoned: the store keeps complete backups, also damaged ones, and what a run may still write to. One clock counts, that of the
// store.
func TestDeleteAbandoned(t *testing.T) {
	server := fakes3.Start(t)
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	old := now.Add(-week - time.Hour)
	for key, at := range map[string]time.Time{
		"runs/own/manifest.json": now, "runs/own/a.dump": old,
		"runs/stopped/a.dump": old, "runs/stopped/b.dump": old,
		"runs/active/a.dump": old, "runs/active/b.dump": now.Add(-week + time.Hour),
		"runs/damaged/manifest.json": old, "runs/damaged/a.dump": old,
		"runs/Not_a_run/a.dump": old, "runs/file": old, "wal/1/x": old,
	} {
		server.PutAt("shop/nightly/"+key, "x", at)
	}
	server.PutAt("shop/nightly-2/runs/stopped/a.dump", "x", old)
	server.BeginUpload("shop/nightly/runs/killed/a.dump", old)
	server.BeginUpload("shop/nightly/runs/active/c.dump", now)
	before := server.Keys()
	deleted, err := DeleteAbandoned(t.Context(), openFake(t, server), "own", week)
	if err != nil || !slices.Equal(deleted, []string{"stopped"}) {
		t.Errorf("%v, %v", deleted, err)
	}
	want := slices.DeleteFunc(before, func(key string) bool { return strings.HasPrefix(key, "shop/nightly/runs/stopped/") })
	if left := server.Keys(); !slices.Equal(left, want) {
		t.Errorf("%v remain, want %v", left, want)
	}
	if left := server.Uploads(); !slices.Equal(left, []string{"shop/nightly/runs/active/c.dump"}) {
		t.Errorf("uploads %v remain", left)
	}
}

// TestDeleteAbandoned_lateList: a manifest that the list lacks, and that can be read.
func TestDeleteAbandoned_lateList(t *testing.T) {
	server := fakes3.Start(t)
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	raw, err := logical("late", now.Add(-2*week)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	server.Unlisted = "/manifest.json"
	server.PutAt("shop/nightly/runs/own/manifest.json", "x", now)
	server.PutAt("shop/nightly/runs/late/manifest.json", string(raw), now.Add(-2*week))
	server.PutAt("shop/nightly/runs/late/a.dump", "x", now.Add(-2*week))
	if deleted, err := DeleteAbandoned(t.Context(), openFake(t, server), "own", week); err != nil || len(deleted) > 0 || len(server.Keys()) != 3 {
		t.Errorf("deleted %v, %v, %v remain", deleted, err, server.Keys())
	}
}
