package config

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func (u *Upstream) slot() string {
	if u == nil {
		return ""
	}
	return u.Slot
}

// ConnInfo is primary_conninfo for a standby with this name, or "" without an upstream.
func (u *Upstream) ConnInfo(name string) string {
	if u == nil {
		return ""
	}
	return connString(append(u.pairs(name),
		pair{"keepalives_idle", "5"}, pair{"keepalives_interval", "2"}, pair{"keepalives_count", "3"}, pair{"tcp_user_timeout", "10000"}))
}

// copySettings are libpq settings for base backups and pg_rewind. They tolerate a slow disk and a short outage, because an
// interrupted copy starts again from zero. The server has no timeout either.
var copySettings = []pair{
	{"options", "-c wal_sender_timeout=0"},
	{"keepalives_idle", "30"}, {"keepalives_interval", "10"}, {"keepalives_count", "6"}, {"tcp_user_timeout", "120000"},
}

// CopyConnInfo is the connection string for base backups and pg_rewind. An empty dbname is left out, as replication
// requires.
func (u *Upstream) CopyConnInfo(name, dbname string) string {
	return connString(slices.Concat(u.pairs(name), []pair{{"dbname", dbname}}, copySettings))
}

func (u *Upstream) pairs(name string) []pair {
	mode, address := "verify-full", u.Address
	if _, err := netip.ParseAddr(u.Host); err == nil {
		mode, address = "verify-ca", "" // libpq compares addresses with certificates from version 15 on only
	}
	return []pair{
		{"host", u.Host}, {"hostaddr", address}, {"port", strconv.Itoa(cmp.Or(u.Port, 5432))}, {"user", ReplicationUser},
		{"sslmode", mode}, {"sslcert", u.CertFile}, {"sslkey", u.KeyFile}, {"sslrootcert", u.CAFile}, {"gssencmode", "disable"},
		{"application_name", name}, {"connect_timeout", "5"},
	}
}

// pair is a libpq setting.
type pair struct{ key, value string }

// connString joins the pairs that have a value.
func connString(pairs []pair) string {
	var parts []string
	for _, p := range pairs {
		if p.value != "" {
			parts = append(parts, p.key+"='"+strings.NewReplacer(`'`, `\'`, `\`, `\\`).Replace(p.value)+"'")
		}
	}
	return strings.Join(parts, " ")
}
