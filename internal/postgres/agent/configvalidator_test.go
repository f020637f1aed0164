package agent

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// TestConfigValidator_filter has PostgreSQL refuse a time zone: what was there before stays, and else the default; the rest is taken.
func TestConfigValidator_filter(t *testing.T) {
	asked := 0
	v := &configValidator{check: func(_ context.Context, files config.Files) error {
		asked++
		if strings.Contains(files[config.ConfFile], "Nowhere") {
			return &server.InvalidConfigError{Parameters: []string{"TimeZone"}, Cause: errors.New("there is no Nowhere")}
		}
		return nil
	}}
	settings := config.Settings{
		Major: 15, DataDir: "/d", ConfigDir: "/c", SocketDir: "/s", ClusterName: "db-0", Instances: 3,
	}
	for _, c := range []struct {
		name, complaint string
		asked, want     map[string]string
	}{
		{"refused at first", "Nowhere", map[string]string{"timezone": "Nowhere", "work_mem": "5MB"}, map[string]string{"work_mem": "5MB"}},
		{"good", "", map[string]string{"timezone": "Europe/Berlin"}, map[string]string{"timezone": "Europe/Berlin"}},
		{"refused later", "TimeZone", map[string]string{"timezone": "Nowhere", "work_mem": "6MB"}, map[string]string{"timezone": "Europe/Berlin", "work_mem": "6MB"}},
		{"none", "", nil, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings.Parameters = maps.Clone(c.asked)
			if settings.Parameters == nil {
				settings.Parameters = map[string]string{}
			}
			got, err := v.Filter(t.Context(), settings)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Parameters); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if complaint := v.Rejected(); !strings.Contains(complaint, c.complaint) || (complaint == "") != (c.complaint == "") {
				t.Errorf("it says %q", complaint)
			}
			before := asked
			if _, err := v.Filter(t.Context(), settings); err != nil || asked != before {
				t.Errorf("PostgreSQL was asked again: %v", err)
			}
		})
	}
}

// TestBackOff_bounded checks that work that fails is begun more and more seldom, and never gets out of reach.
func TestBackOff_bounded(t *testing.T) {
	before := backOff(0)
	for n := range 40 {
		if got := backOff(n); got < before || got < retryPause || got > 60*retryPause {
			t.Errorf("after %d failures: %s", n, got)
		}
		before = backOff(n)
	}
}
