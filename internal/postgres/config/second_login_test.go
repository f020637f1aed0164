package config

import (
	"strings"
	"testing"
)

func TestSecondLogin(t *testing.T) {
	long := strings.Repeat("x", 50)
	seen := map[string]string{}
	for role, want := range map[string]string{
		"app":                    "fettle_login_app",
		long:                     "fettle_login_" + long,
		long + "y":               "fettle_hash_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_",
		long + "yy":              "fettle_hash_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_",
		strings.Repeat("y", 63):  "fettle_hash_yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy_",
		strings.Repeat("y", 62):  "fettle_hash_yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy_",
		"monitor":                "fettle_login_monitor",
		strings.Repeat("_a", 31): "fettle_hash_" + strings.Repeat("_a", 19) + "_",
	} {
		got := SecondLogin(role)
		if !strings.HasPrefix(got, want) || CheckName(got) != nil || got != SecondLogin(role) {
			t.Errorf("%s: %s, want %s...", role, got, want)
		}
		if other, taken := seen[got]; taken || got == MonitorUser || got == ReplicationUser {
			t.Errorf("%s and %s are both %s", role, other, got)
		}
		seen[got] = role
	}
}
