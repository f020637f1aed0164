package proc

import "testing"

// TestDropProgram goes on after its own pages were given back.
func TestDropProgram(t *testing.T) {
	for range 3 {
		if err := DropProgram(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnly(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-02000000 r-xp 00000000 fd:00 12 /fettle-bin/fettle": true,
		"02000000-03000000 r--p 01c00000 fd:00 12 /fettle-bin/fettle": true,
		"03000000-03100000 rw-p 02c00000 fd:00 12 /fettle-bin/fettle": false,
		"04000000-05000000 r-xp 00000000 fd:00 13 /lib/libc.so":       false,
		"c000000000-c000400000 rw-p 00000000 00:00 0":                 false,
	} {
		begin, end, ok := readOnly(line, "/fettle-bin/fettle")
		if ok != want || ok && end <= begin {
			t.Errorf("%s: %x-%x, %v", line, begin, end, ok)
		}
	}
}
