package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWriteFile_syncOrder checks the order of flushes: the content before the rename, then the directory, then its parent.
func TestWriteFile_syncOrder(t *testing.T) {
	volume := t.TempDir()
	folder := filepath.Join(volume, "fettle")
	path := filepath.Join(folder, "unfit")
	var synced []string
	before := syncFile
	syncFile = func(f *os.File) error {
		content, err := os.ReadFile(path)
		state := string(content)
		if err != nil {
			state = "none"
		}
		name, err := filepath.Rel(volume, f.Name())
		if err != nil {
			return err
		}
		synced = append(synced, name+" with "+state)
		return before(f)
	}
	t.Cleanup(func() { syncFile = before })
	for _, c := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"none to remove", func() error { return RemoveFile(path) }, nil},
		{"new", func() error { return WriteFile(path, []byte("first")) },
			[]string{"fettle/unfit.new with none", "fettle with first", ". with first"}},
		{"another", func() error { return WriteFile(path, []byte("second")) },
			[]string{"fettle/unfit.new with first", "fettle with second", ". with second"}},
		{"removed", func() error { return RemoveFile(path) }, []string{"fettle with none"}},
	} {
		synced = nil
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, synced); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}
