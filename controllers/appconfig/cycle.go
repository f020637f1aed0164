package appconfig

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// cycleOf returns the AppConfigs through which cfg uses its own output as values, from cfg to cfg; nil if there is no cycle.
// publisher returns the AppConfig that publishes under a name, nil if there is none.
//
// Only the newest AppConfig of each cycle is rejected, since newer ones are not followed. The others keep publishing.
func cycleOf(cfg *configv1.AppConfig, publisher func(name string) (*configv1.AppConfig, error)) ([]string, error) {
	ways := [][]*configv1.AppConfig{{cfg}}
	seen := map[string]bool{}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		for _, s := range sourcesOf(way[len(way)-1]) {
			next, err := publisher(s.name)
			switch {
			case err != nil:
				return nil, err
			case next == nil, s.kind == kindSecret && !usesSecrets(next): // a Secret of another owner
			case next.Name == cfg.Name:
				return namesAlong(append(way, cfg)), nil
			case !seen[next.Name] && older(next, cfg) < 0:
				seen[next.Name] = true
				ways = append(ways, append(slices.Clone(way), next))
			}
		}
	}
	return nil, nil
}

func namesAlong(way []*configv1.AppConfig) []string {
	names := make([]string, 0, len(way))
	for _, cfg := range way {
		names = append(names, cfg.Name)
	}
	return names
}

// cyclicValues is the rendering of an AppConfig that would change with each of its own publications.
func cyclicValues(names []string) rendered {
	return rendered{problem: new(conditions.False(configv1.ReasonCircularValues, fmt.Sprintf(
		"spec.valuesFrom: the values come from what this AppConfig publishes (%s): each publication would change them; remove one of these references",
		strings.Join(names, " takes from "))))}
}
