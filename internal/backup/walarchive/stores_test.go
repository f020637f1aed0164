package walarchive

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

// TestStores archives and fetches a segment of the default size in real stores, and compares checksums in their metadata.
func TestStores(t *testing.T) {
	content := make([]byte, 16<<20)
	_, _ = rand.Read(content)
	for _, server := range teststores.Start(t) {
		t.Run(string(server.Type), func(t *testing.T) {
			s, err := store.Open(t.Context(), server.Destination, server.Keys, "shop/db", store.PermitLoopback(), store.PartSize(5<<20))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			a := New(s, system)
			reservation, history := file(t, []byte("# left out\n")), file(t, []byte("1\t0/3000000\tpromoted\n"))
			path := file(t, content)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, put := range []error{
				a.Put(t.Context(), first, path), a.Put(t.Context(), first, path),
				a.Put(t.Context(), "00000002.history", reservation), a.Put(t.Context(), "00000002.history", history), a.Put(t.Context(), "00000002.history", history),
			} {
				if put != nil {
					t.Fatal(put)
				}
			}
			runtime.ReadMemStats(&after)
			t.Logf("%d MiB allocated in total", (after.TotalAlloc-before.TotalAlloc)>>20)
			conflict := (*ConflictError)(nil)
			if err := a.Put(t.Context(), first, file(t, nil)); !errors.As(err, &conflict) {
				t.Errorf("other contents: %v", err)
			}
			to := filepath.Join(t.TempDir(), "to")
			if err := a.Get(t.Context(), first, to); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(to); err != nil || info.Size() != int64(len(content)) {
				t.Errorf("fetched %v, %v", info, err)
			}
			if err := a.Get(t.Context(), "000000010000000000000002", to); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("missing segment: %v", err)
			}
			if n, err := a.DeleteBefore(t.Context(), "000000020000000000000002"); n != 1 || err != nil {
				t.Errorf("deleted %d, %v", n, err)
			}
		})
	}
}
