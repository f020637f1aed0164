package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob/fileblob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

const testSystem = "7312345678901234567"

var testDestination = backupv1alpha1.Destination{Type: backupv1alpha1.StoreS3, Bucket: "backups"}

// testBucket is a bucket in a folder that can be away.
type testBucket struct {
	dir string

	mutex sync.Mutex
	away  bool
	opens int
}

func newTestBucket(t *testing.T) *testBucket {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bucket")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &testBucket{dir: dir}
}

func (b *testBucket) connect() (*store.Store, error) {
	bucket, err := fileblob.OpenBucket(b.dir, &fileblob.Options{NoTempDir: true})
	if err != nil {
		return nil, err
	}
	return store.New(bucket, testDestination, "shop/db")
}

// setAway makes an open store fail too: a file takes the place of the folder.
func (b *testBucket) setAway(t *testing.T, away bool) {
	t.Helper()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if away == b.away {
		return
	}
	b.away = away
	var err error
	if away {
		err = errors.Join(os.Rename(b.dir, b.dir+".away"), os.WriteFile(b.dir, nil, 0o600))
	} else {
		err = errors.Join(os.Remove(b.dir), os.Rename(b.dir+".away", b.dir))
	}
	if err != nil {
		t.Error(err)
	}
}

// open returns a store that fails at once while the bucket is away.
func (b *testBucket) open(context.Context, backupv1alpha1.Destination) (*store.Store, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.opens++
	if b.away {
		return nil, &store.Error{Reason: backupv1alpha1.ReasonStoreUnreachable, Message: "the store does not answer"}
	}
	return b.connect()
}

func (b *testBucket) has(t *testing.T, name string) bool {
	t.Helper()
	s, err := b.connect()
	if err != nil {
		t.Fatal(err)
	}
	has, err := walarchive.New(s, testSystem).Has(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return has
}

func segmentName(n int) string { return fmt.Sprintf("%08X%08X%08X", 1, 0, n) }

// newTestArchiver returns an archiver of a pg_wal with n segments that wait.
func newTestArchiver(t *testing.T, b *testBucket, n int) *archiver {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "archive_status"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		content := make([]byte, 64<<10)
		_, _ = rand.Read(content)
		for path, content := range map[string][]byte{segmentName(i + 1): content, "archive_status/" + segmentName(i+1) + readySuffix: nil} {
			if err := os.WriteFile(filepath.Join(dir, path), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return newArchiver(t.Context(), slog.New(slog.DiscardHandler), dir, b.open)
}

func primaryView() archiveView {
	return archiveView{known: true, destination: &testDestination, systemID: testSystem, primary: true}
}

func TestNextArchiveStep(t *testing.T) {
	at := time.Now()
	primary, standby := primaryView(), primaryView()
	standby.primary = false
	stopping := func(v archiveView, ago time.Duration) archiveView {
		v.stoppingSince = at.Add(-ago)
		return v
	}
	noBackups := archiveView{known: true, primary: true}
	noID := primaryView()
	noID.systemID = ""
	for what, c := range map[string]struct {
		view              archiveView
		archived, failing bool
		missing           time.Duration
		want              archiveStep
	}{
		"object unknown":                 {view: archiveView{systemID: testSystem, primary: true}, want: archiveWait},
		"object unknown, stopping":       {view: stopping(archiveView{}, 0), want: archiveStopping},
		"backups not enabled":            {view: noBackups, want: archiveDone},
		"backups not enabled, stopping":  {view: stopping(noBackups, time.Minute), want: archiveDone},
		"system identifier unknown":      {view: noID, want: archiveWait},
		"primary":                        {view: primary, want: archiveUpload},
		"primary, failing":               {view: primary, failing: true, want: archiveUpload},
		"primary, stopping":              {view: stopping(primary, time.Second), want: archiveUpload},
		"primary, stopping for too long": {view: stopping(primary, archiveStopGrace), want: archiveStopping},
		"primary, stopping and failing":  {view: stopping(primary, 0), failing: true, want: archiveStopping},
		"primary, stopping, stored":      {view: stopping(primary, time.Minute), archived: true, want: archiveDone},
		"standby":                        {view: standby, want: archiveLook},
		"standby, stored":                {view: standby, archived: true, want: archiveDone},
		"standby, stopping":              {view: stopping(standby, 0), want: archiveStopping},
		"standby, nobody stores it":      {view: standby, missing: archivePatience, want: archiveUpload},
	} {
		if got := nextArchiveStep(c.view, c.archived, c.failing, c.missing, at); got != c.want {
			t.Errorf("%s: step %d, want %d", what, got, c.want)
		}
	}
}

// TestArchiver_storesAhead stores the segments that follow while PostgreSQL waits for one.
func TestArchiver_storesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(t)
		a := newTestArchiver(t, b, 6)
		a.update(primaryView())
		if err := a.Archive(t.Context(), segmentName(1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := 1; i <= 6; i++ {
			if has := b.has(t, segmentName(i)); has != (i <= archiveParallel) {
				t.Errorf("segment %d: stored %v", i, has)
			}
		}
		for i := 2; i <= 6; i++ {
			if err := a.Archive(t.Context(), segmentName(i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if s := a.Status(); s.Reason != databasev1alpha1.ReasonArchiving || s.LastSegment != segmentName(6) || s.LastWritten.IsZero() {
			t.Errorf("status %+v", s)
		}
		if b.opens > archiveParallel {
			t.Errorf("opened the store %d times", b.opens)
		}
	})
}

// TestArchiver_storeAway holds requests while the store is away, says so within a minute, and goes on with the next request.
func TestArchiver_storeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(t)
		b.setAway(t, true)
		a := newTestArchiver(t, b, 2)
		a.update(primaryView())
		if s := a.Status(); s.Reason != databasev1alpha1.ReasonArchivingStarting {
			t.Errorf("at first: %+v", s)
		}
		begun := time.Now()
		err := a.Archive(t.Context(), segmentName(1))
		if took := time.Since(begun); err == nil || took != archiveHold {
			t.Fatalf("%v after %s", err, took)
		}
		if b.opens > 4*archiveParallel {
			t.Errorf("asked the store %d times in %s", b.opens, archiveHold)
		}
		s := a.Status()
		if s.Reason != databasev1alpha1.ReasonArchivingFailed || s.Message != "the store does not answer" || s.FailingSince.Sub(begun) > time.Second {
			t.Errorf("while it is away: %+v", s)
		}
		b.setAway(t, false)
		if err := a.Archive(t.Context(), segmentName(1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := a.Status(); s.Reason != databasev1alpha1.ReasonArchiving || !s.FailingSince.IsZero() {
			t.Errorf("after it: %+v", s)
		}
	})
}

// TestArchiver_slowStore: an upload goes on while PostgreSQL asks again, and is not started over.
func TestArchiver_slowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(t)
		a := newTestArchiver(t, b, 1)
		const needs = archiveHold + 15*time.Second
		a.open = func(ctx context.Context, d backupv1alpha1.Destination) (*store.Store, error) {
			time.Sleep(needs)
			return b.open(ctx, d)
		}
		if err := os.Truncate(filepath.Join(a.walDir, segmentName(1)), 16<<20); err != nil {
			t.Fatal(err)
		}
		a.update(primaryView())
		begun := time.Now()
		if err := a.Archive(t.Context(), segmentName(1)); err == nil || time.Since(begun) != archiveHold {
			t.Fatalf("%v after %s", err, time.Since(begun))
		}
		if err := a.Archive(t.Context(), segmentName(1)); err != nil || time.Since(begun) != needs || b.opens != 1 {
			t.Errorf("%v after %s and %d uploads, want one of %s", err, time.Since(begun), b.opens, needs)
		}
	})
}

// TestArchiver_failover has a standby hold a segment until it is the primary.
func TestArchiver_failover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(t)
		a := newTestArchiver(t, b, 1)
		standby := primaryView()
		standby.primary = false
		a.update(standby)
		result := make(chan error, 1)
		go func() { result <- a.Archive(t.Context(), segmentName(1)) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if b.has(t, segmentName(1)) || len(result) > 0 {
			t.Fatal("the standby did not leave the segment to the primary")
		}
		promoted := time.Now()
		a.update(primaryView())
		if err := <-result; err != nil || time.Since(promoted) > time.Second || !b.has(t, segmentName(1)) {
			t.Fatalf("after the promotion: %v", err)
		}
	})
}

// TestArchiver_standbyAlone has a standby store what no primary will.
func TestArchiver_standbyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(t)
		a := newTestArchiver(t, b, 1)
		standby := primaryView()
		standby.primary = false
		a.update(standby)
		begun := time.Now()
		for a.Archive(t.Context(), segmentName(1)) != nil {
			if time.Since(begun) > 2*archivePatience {
				t.Fatal("the standby waits forever, and its volume fills up")
			}
		}
		if took := time.Since(begun); took < archivePatience || !b.has(t, segmentName(1)) {
			t.Errorf("after %s", took)
		}
	})
}

// TestArchiver_enabledLater archives nothing before backups are enabled, and everything after that, without a restart.
func TestArchiver_enabledLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(t)
		a := newTestArchiver(t, b, 3)
		off := primaryView()
		off.destination = nil
		a.update(off)
		if err := a.Archive(t.Context(), segmentName(1)); err != nil || b.opens > 0 || a.Status() != nil {
			t.Fatalf("before: %v", err)
		}
		a.update(primaryView())
		if err := a.Archive(t.Context(), segmentName(2)); err != nil || !b.has(t, segmentName(2)) {
			t.Fatalf("enabled: %v", err)
		}
		b.setAway(t, true)
		other := primaryView()
		other.destination = &backupv1alpha1.Destination{Type: backupv1alpha1.StoreS3, Bucket: "others"}
		a.update(other) // what the former destination has does not count
		if err := a.Archive(t.Context(), segmentName(2)); err == nil {
			t.Fatal("the file counts as archived at another destination")
		}
		a.update(off)
		if err := a.Archive(t.Context(), segmentName(3)); err != nil {
			t.Fatalf("disabled: %v", err)
		}
	})
}

// TestArchiver_stop does not delay the stop of PostgreSQL by more than the grace.
func TestArchiver_stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, away := range []bool{false, true} {
			b := newTestBucket(t)
			b.setAway(t, away)
			a := newTestArchiver(t, b, 1)
			a.update(primaryView())
			stopping := primaryView()
			stopping.stoppingSince = time.Now()
			if away {
				go func() {
					time.Sleep(5 * time.Second)
					stopping.stoppingSince = time.Now()
					a.update(stopping)
				}()
			} else {
				a.update(stopping)
			}
			err := a.Archive(t.Context(), segmentName(1))
			if away != errors.Is(err, walfile.ErrStopping) || !away && err != nil || time.Since(stopping.stoppingSince) > archiveStopGrace {
				t.Errorf("store away %v: %v", away, err)
			}
		}
	})
}

// TestArchiver_conflict reports another cluster at the same place, and does not overwrite its WAL.
func TestArchiver_conflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(t)
		other := newTestArchiver(t, b, 1)
		other.update(primaryView())
		a := newTestArchiver(t, b, 1)
		a.update(primaryView())
		if err := other.Archive(t.Context(), segmentName(1)); err != nil {
			t.Fatal(err)
		}
		conflict := (*walarchive.ConflictError)(nil)
		if err := a.Archive(t.Context(), segmentName(1)); !errors.As(err, &conflict) {
			t.Fatal(err)
		}
		if s := a.Status(); s.Reason != databasev1alpha1.ReasonArchivingFailed || s.Message != conflict.Error() {
			t.Errorf("status %+v", s)
		}
	})
}

// TestArchiver_inheritedConflict: the rest of a segment that ended early may differ between the former primary and its successor.
func TestArchiver_inheritedConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(t)
		former, successor := newTestArchiver(t, b, 1), newTestArchiver(t, b, 1)
		former.update(primaryView())
		if err := former.Archive(t.Context(), segmentName(1)); err != nil {
			t.Fatal(err)
		}
		promoted := primaryView()
		promoted.timeline = 2
		successor.update(promoted)
		if err := successor.Archive(t.Context(), segmentName(1)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestArchiveInherited(t *testing.T) {
	data := t.TempDir()
	status := filepath.Join(data, "pg_wal", "archive_status")
	if err := os.MkdirAll(status, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"000000010000000000000003", "000000010000000000000004", "000000010000000000000005", "000000010000000000000006",
		"000000010000000000000007", "000000020000000000000007", "00000002.history", "000000010000000000000006.partial",
		"archive_status/000000010000000000000003.done", "archive_status/000000010000000000000004.ready",
	} {
		if err := os.WriteFile(filepath.Join(data, "pg_wal", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	history := []election.TimelineSwitch{{Timeline: 1, LSN: 6<<20 + 28}} // in segment 6; 7 is a recycled file
	if err := archiveInherited(data, history, 1<<20); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(status)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	want := []string{"000000010000000000000003.done", "000000010000000000000004.ready", "000000010000000000000005.ready"}
	if !slices.Equal(names, want) {
		t.Errorf("marks %v", names)
	}
}
