package postgresql

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// TestGrowthWaitsForNobody has the first instance's disk full in each state that anything else waits for: all volumes grow
// all the same, since it may be the disk that keeps the instances from being healthy.
func TestGrowthWaitsForNobody(t *testing.T) {
	for _, c := range []struct {
		name, words string
		change      func(*databasev1alpha1.PostgreSQL)
		next        string // what else is decided
	}{
		{"all serve", "P R R", nil, "3"},
		{"none is ready", "N N N", nil, "3"},
		{"no primary", "N R R", nil, "3"},
		{"an update waits for the full one", "N P! R!", nil, "3 (Updating)"},
		{"an update waits for another", "P! N R", nil, "3 (Updating)"},
		{"a switchover waits", "P N N", asks("any"), "3 (Switchover)"},
		{"scaling down waits for a primary", "N R R", func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Replicas = new(int32(1)) }, "3 (Scaling)"},
		{"a pod is missing", "P R -", nil, "3"},
		{"a pod is going", "P R RT", nil, "3"},
		{"fenced", "NF R R", nil, "3"},
		{"being hibernated", "P R R", asleepPlease, "3 (Scaling)"},
	} {
		for _, auto := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, by itself %v", c.name, auto), func(t *testing.T) {
				pg := wanting(3)
				if c.change != nil {
					c.change(pg)
				}
				pg.Spec.Storage = resource.MustParse("2Gi")
				if auto {
					pg.Spec.Storage = resource.MustParse("1Gi")
					pg.Spec.AutoGrow = &databasev1alpha1.PostgreSQLAutoGrow{Threshold: 80, Step: "1Gi", Max: resource.MustParse("5Gi")}
				}
				seen := picture(3, c.words)
				for i := range seen.instances {
					seen.instances[i].claim = claim("1Gi", "1Gi")
				}
				seen.instances[0].status = &agentapi.Status{Ready: c.words[0] != 'N', Phase: agentapi.Running, DiskTotal: 1 << 30, DiskFree: 1 << 20}
				g := grow(pg, seen)
				if diff := cmp.Diff("2Gi 3 false", fmt.Sprint(g.size.String(), " ", len(g.patch), " ", g.replaceSet)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(c.next, said(pg, seen)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}
