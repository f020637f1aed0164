package sqlclient_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// requestLog records the statements that a client sends, which the server's log does not show.
type requestLog struct {
	mu         sync.Mutex
	statements []string
}

// newLoggedClient is a client whose statements are recorded.
func newLoggedClient(t *testing.T, i *testpg.Instance) (*sqlclient.Client, *requestLog) {
	t.Helper()
	tp, options := &requestLog{}, i.ClientOptions()
	socket := func(dir string) string { return filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(options.Port)) }
	server := socket(options.SocketDir)
	options.SocketDir = testpg.Dir(t)
	listener, err := net.Listen("unix", socket(options.SocketDir)) //nolint:noctx // it is closed with the test
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go tp.relay(t, client, server)
		}
	}()
	c := sqlclient.New(options)
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	return c, tp
}

func (tp *requestLog) relay(t *testing.T, client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("unix", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	prepared := map[string]string{}
	for kind := 0; ; kind = 1 { // the first message has no kind
		head := make([]byte, kind+4)
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[kind:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		if kind == 1 {
			tp.record(head[0], strings.Split(string(body), "\x00"), prepared)
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return
		}
	}
}

// record records simple queries, and the text of prepared statements on each bind.
func (tp *requestLog) record(kind byte, fields []string, prepared map[string]string) {
	switch kind {
	case 'P':
		prepared[fields[0]] = fields[1]
	case 'Q', 'B':
		statement := fields[0]
		if kind == 'B' {
			statement = prepared[fields[1]]
		}
		tp.mu.Lock()
		defer tp.mu.Unlock()
		tp.statements = append(tp.statements, statement)
	}
}

// reset clears the record.
func (tp *requestLog) reset() {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.statements = nil
}

// writes are the messages that are not a single SELECT.
func (tp *requestLog) writes() []string {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	var found []string
	for _, s := range tp.statements {
		s = strings.TrimSpace(s)
		if only := strings.TrimSuffix(s, ";"); !strings.HasPrefix(strings.ToUpper(s), "SELECT") || strings.Contains(only, ";") {
			found = append(found, s)
		}
	}
	return found
}

// checkWrites checks that statements were sent only if something changed.
func (tp *requestLog) checkWrites(t *testing.T, changes []string) {
	t.Helper()
	got := tp.writes()
	if changes == nil && got != nil {
		t.Errorf("nothing differs, and it sent %q", got)
	}
	if changes != nil && got == nil {
		t.Errorf("%q, and it sent nothing", changes)
	}
}
