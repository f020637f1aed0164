package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

var source = External{External: config.External{Host: "fd00::7", Port: 5433, User: "copier"}}

// TestClassify has messages of libpq and several PostgreSQL versions, and the resulting errors.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		words string
		kind  SourceErrorKind
		what  string
	}{
		{`psql: error: could not translate host name "old" to address: Name or service not known`, Unreachable, "DNS"},
		{`psql: error: could not connect to server: Connection refused`, Unreachable, "[fd00::7]:5433 accepts no connections"},
		{`psql: error: connection to server at "old" (192.0.2.1), port 5432 failed: timeout expired`, Unreachable, "firewalls"},
		{`psql: context deadline exceeded`, Unreachable, "firewalls"},
		{`psql: error: FATAL:  the database system is starting up`, Unreachable, "closed the connection"},
		{`pg_basebackup: error: could not receive data from WAL stream: server closed the connection unexpectedly`, Unreachable, "closed the connection"},
		{`psql: error: FATAL:  password authentication failed for user "copier"`, Rejected, "the password of copier"},
		{`psql: error: fe_sendauth: no password supplied`, Rejected, "passwordSecret"},
		{`FATAL:  no pg_hba.conf entry for replication connection from host "192.0.2.9", user "copier", no encryption`, Rejected, "hostssl replication copier"},
		{`FATAL:  must be superuser or replication role to start walsender`, Rejected, `ALTER ROLE "copier" REPLICATION`},
		{"FATAL:  permission denied to start WAL sender\nDETAIL:  Only roles with the REPLICATION attribute may start a WAL sender process.", Rejected, "REPLICATION"},
		{`FATAL:  role "copier" is not permitted to log in`, Rejected, "check user"},
		{`server does not support SSL, but SSL was required`, Rejected, "set ssl to on"},
		{`FATAL:  number of requested standby connections exceeds max_wal_senders (currently 0)`, Rejected, "increase max_wal_senders"},
		{`could not load private key file "/run/fettle/source/tls.key": key values mismatch`, Rejected, "clientCertificateSecret"},
		{`FATAL:  connection requires a valid client certificate`, Rejected, "clientCertificateSecret"},
		{`SSL error: certificate verify failed`, Untrusted, "CA in caSecret"},
		{`server certificate for "db" (and 1 other name) does not match host name "old"`, Untrusted, "another host name"},
		{`root certificate file "/etc/fettle/source/ca.crt" does not exist`, Untrusted, "caSecret"},
		{`pg_basebackup: error: can only write single tablespace to stdout, database has 2`, Unsuitable, "tablespaces"},
		{`FATAL:  unsupported startup parameter: replication`, Unsuitable, "pooler"},
		{`could not write to file "pgdata.clone/base/1/2": No space left on device`, TooLarge, "increase spec.storage"},
		{"pg_basebackup: initiating base backup\npg_basebackup: error: something new", CopyFailed, "failed: pg_basebackup: error: something new"},
	} {
		words := errors.New(c.words)
		sourceErr, ok := errors.AsType[*SourceError](source.classify(words))
		if !ok || sourceErr.Kind != c.kind || !strings.Contains(sourceErr.Message, c.what) || !errors.Is(sourceErr, words) || strings.ContainsAny(sourceErr.Message, "{}%\n") {
			t.Errorf("%s: %+v, want %s with %q", c.words, sourceErr, c.kind, c.what)
		}
	}
}

func TestParseIdentity(t *testing.T) {
	got, err := parseIdentity("7710406876662803172|1|0/15014E0|\n150018\n15.18 (Debian 15.18-0+deb12u1)\non\n")
	if diff := cmp.Diff(Identity{SystemID: "7710406876662803172", Major: 15, Version: "15.18", Checksums: true}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, output := range []string{"", "1|1|0/1|\n150018\n15.18", "1|1|0/1|\nnew\n15.18\non"} {
		if _, err := parseIdentity(output); err == nil {
			t.Errorf("%q is an identity", output)
		}
	}
}

func TestIdentity_checkVersion(t *testing.T) {
	if err := (Identity{Major: 15, Version: "15.18"}).checkVersion(source, 15); err != nil {
		t.Error(err)
	}
	for _, other := range []Identity{{Major: 14, Version: "14.3"}, {Major: 9, Version: "9.6.24"}, {Major: 16, Version: "16.0"}} {
		sourceErr, ok := errors.AsType[*SourceError](other.checkVersion(source, 15))
		if !ok || sourceErr.Kind != Unsuitable || !strings.Contains(sourceErr.Message, "runs PostgreSQL "+other.Version+",") {
			t.Errorf("%s: %+v", other.Version, sourceErr)
		}
	}
}

// TestCheckSize: data that cannot fit are not copied, and the message does not change while the source writes.
func TestCheckSize(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		size, free int64
		says       string
	}{
		{2 * gib, 3 * gib, ""}, {2 * gib, 2*gib + copyReserve, ""}, {0, gib, ""},
		{2 * gib, 2*gib + copyReserve - 1, "need 2 GiB (rounded up), but the volume has 2 GiB free: increase spec.storage"},
		{9*gib + 1, gib, "need 10 GiB"}, {10*gib - 1, gib, "need 10 GiB"},
	} {
		err := checkSize(source, c.size, Disk{Free: c.free})
		sourceErr, ok := errors.AsType[*SourceError](err)
		if ok != (c.says != "") || ok && (sourceErr.Kind != TooLarge || !sourceErr.Expensive || !strings.Contains(sourceErr.Message, c.says)) {
			t.Errorf("%d bytes, %d free: %v", c.size, c.free, err)
		}
	}
}

// TestSizeProbe: the probe ends once the size is known, and not before the backup has started.
func TestSizeProbe(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *sizeProbe)
		size int64
		seen bool
	}{
		{"waits for the checkpoint", func(b *sizeProbe) { writeMessages(b, "waiting for checkpoint\n") }, 0, false},
		{"says a size, and sends nothing", func(b *sizeProbe) { writeMessages(b, "0/4096 kB (0%), 0/1 tablespace\n") }, 0, false},
		{"begins", func(b *sizeProbe) {
			writeMessages(b, "waiting for checkpoint\n0/40", "96 kB (0%), 0/1 tablespace\n")
			_, _ = b.Write(make([]byte, 512))
		}, 4096 << 10, true},
		{"never says a size", func(b *sizeProbe) { _, _ = b.Write(make([]byte, probeBytes)) }, 0, true},
		{"says nothing yet", func(b *sizeProbe) { _, _ = b.Write(make([]byte, probeBytes-1)) }, 0, false},
	} {
		ended := false
		b := &sizeProbe{cancel: func() { ended = true }}
		c.do(b)
		if size, seen := b.result(); size != c.size || seen != c.seen || ended != c.seen {
			t.Errorf("%s: %d, %v, ended %v", c.name, size, seen, ended)
		}
	}
}

func writeMessages(b *sizeProbe, lines ...string) {
	for _, line := range lines {
		_, _ = (*sizeProbeStderr)(b).Write([]byte(line))
	}
}
