package store_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/testenv/fakes3"
)

// TestWrite_faults: a store that has not what was sent, or that fails after it has taken it, is a failure that leaves no object of its
// own.
func TestWrite_faults(t *testing.T) {
	for name, c := range map[string]struct {
		stored func(string, *fakes3.Object) int
		reason string
		left   int
	}{
		"complete":       {nil, "", 1},
		"truncated":      {func(_ string, o *fakes3.Object) int { o.Content = o.Content[:2]; return 0 }, backupv1alpha1.ReasonStoredDiffers, 0},
		"another writer": {func(_ string, o *fakes3.Object) int { o.Metadata = nil; return 0 }, backupv1alpha1.ReasonStoredDiffers, 1},
		"fails after it": {func(string, *fakes3.Object) int { return http.StatusInternalServerError }, backupv1alpha1.ReasonStoreFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := fakes3.Start(t)
			server.Stored = c.stored
			s := openFake(t, server)
			if _, err := s.Write(t.Context(), "runs/a/x", nil, from(strings.NewReader("a dump"))); reason(err) != c.reason {
				t.Errorf("%v, want %q", err, c.reason)
			}
			if left := server.Keys(); len(left) != c.left {
				t.Errorf("%v remain, want %d", left, c.left)
			}
		})
	}
}

func openFake(t *testing.T, server *fakes3.Server) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), server.Destination(), store.Keys{Files: fakes3.Files()}, folder, store.PermitLoopback(), store.Impatient())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestList_strangeAnswers: what is no store of this type, or one with a mistake, is named in an error, and ends no process.
func TestList_strangeAnswers(t *testing.T) {
	const entry = "<Contents><Key>shop/nightly/runs/a/x</Key><Size>1</Size><LastModified>2026-11-23T02:00:00Z</LastModified></Contents>"
	for name, c := range map[string]struct {
		answer string
		bad    bool
		names  int
	}{
		"a list":              {entry, false, 1},
		"no times":            {"<Contents><Key>shop/nightly/runs/a/x</Key><Size>1</Size></Contents>", true, 0},
		"no names":            {"<Contents><LastModified>2026-11-23T02:00:00Z</LastModified></Contents>", false, 0},
		"others' objects":     {strings.ReplaceAll(entry, "nightly", "other"), false, 0},
		"a time of no format": {strings.ReplaceAll(entry, "2026-11-23T02:00:00Z", "yesterday"), true, 0},
		"no pages":            {entry + "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>", true, 1000},
		"a page for people":   {"<html><body>Welcome<br></body></html>", true, 0},
		"cut":                 {entry[:20], true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := fakes3.Start(t)
			server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				text := c.answer
				if !strings.HasPrefix(text, "<html>") {
					text = "<ListBucketResult>" + text + "</ListBucketResult>"
				}
				_, _ = io.WriteString(w, text)
				return true
			}
			names := 0
			err := openFake(t, server).List(t.Context(), "runs/", func(string, int64) error { names++; return nil })
			if known, ok := errors.AsType[*store.Error](err); ok != c.bad || err != nil && (!strings.Contains(known.Message, server.URL) || !known.Permanent) {
				t.Errorf("%v", err)
			}
			if names != c.names {
				t.Errorf("%d names, want %d", names, c.names)
			}
		})
	}
}

// TestAbortUploads: those of the Backup's own folder that were begun before a time.
func TestAbortUploads(t *testing.T) {
	server, now := fakes3.Start(t), time.Now()
	old := now.Add(-time.Hour)
	for key, begun := range map[string]time.Time{"runs/a/x": old, "runs/b/x": now, "wal/1/x": old} {
		server.BeginUpload(folder+"/"+key, begun)
	}
	server.BeginUpload(folder+"-2/runs/a/x", old)
	openFake(t, server).AbortUploads(t.Context(), "runs/", now.Add(-time.Minute))
	if left := strings.Join(server.Uploads(), " "); left != "shop/nightly-2/runs/a/x shop/nightly/runs/b/x shop/nightly/wal/1/x" {
		t.Errorf("%s remain", left)
	}
}

// TestRead_slowStore: a store may take any time as long as it sends something. One that stops in the middle is given up.
func TestRead_slowStore(t *testing.T) {
	const silence, bytes = 2 * time.Second, 30 // slower than the machine of the test, and longer than silence together
	for name, stops := range map[string]bool{"slow": false, "stops": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := fakes3.Start(t)
			server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Content-Length", strconv.Itoa(bytes))
				for range bytes {
					_, _ = io.WriteString(w, "x")
					_ = http.NewResponseController(w).Flush()
					if stops {
						<-r.Context().Done()
						return true
					}
					time.Sleep(silence / 20)
				}
				return true
			}
			s, err := store.Open(t.Context(), server.Destination(), store.Keys{Files: fakes3.Files()}, folder, store.PermitLoopback(), store.Impatient(), store.Silence(silence))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			body, err := s.Read(t.Context(), "runs/a/x")
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			content, err := io.ReadAll(body)
			if stops != (reason(err) == backupv1alpha1.ReasonStoreUnreachable) || !stops && (err != nil || len(content) != bytes) {
				t.Errorf("%d bytes, %v", len(content), err)
			}
		})
	}
}
