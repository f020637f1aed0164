package agent

import (
	"strings"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// TestRaiseStandbyMinimums_keepsPrimaryValues takes what the control file had when the server ended, where that is known, and notes that it asks for more than
// the spec does.
func TestRaiseStandbyMinimums_keepsPrimaryValues(t *testing.T) {
	settings := config.Settings{
		Major: 15, DataDir: "/data/pgdata", ConfigDir: "/run/fettle", SocketDir: "/run/fettle", ClusterName: "db-1", Instances: 3,
		TLS: config.TLS{CertFile: "/tls/tls.crt", KeyFile: "/tls/tls.key", CAFile: "/tls/ca.crt"}, LogToken: "t", SystemUsers: []string{"postgres"},
		Parameters: map[string]string{"max_connections": "50"},
	}
	asked, err := config.Render(settings)
	if err != nil {
		t.Fatal(err)
	}
	for connections, raised := range map[int]bool{40: false, 50: false, 70: true} {
		a := &Agent{inbox: make(chan func(), 1), ctx: t.Context()}
		files, err := a.raiseStandbyMinimums(settings, &config.Minimums{MaxConnections: connections}, asked)
		if err != nil {
			t.Fatal(err)
		}
		(<-a.inbox)()
		if got := strings.Contains(files[config.ConfFile], "max_connections = '70'"); got != raised || a.minimumsRaised != raised {
			t.Errorf("at least %d: in the file %v, noted %v", connections, got, a.minimumsRaised)
		}
	}
}
