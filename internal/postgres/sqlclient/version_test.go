package sqlclient

import "testing"

// TestCheckVersion rejects versions in which a second login would not act as its role.
func TestCheckVersion(t *testing.T) {
	for number, want := range map[int]bool{
		130017: false, 130018: true, 140014: false, 140015: true, 150009: false, 150010: true, 160005: false, 160006: true,
		170001: false, 170002: true, 180000: true, 190000: true,
	} {
		if got := checkVersion(number) == nil; got != want {
			t.Errorf("%d: %v", number, got)
		}
	}
}
