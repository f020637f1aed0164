package ecommerce

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

// goldenCase is an EcommercePlatform as the API server returns it.
type goldenCase struct {
	Monitored bool                         `json:"monitored"`
	Platform  platformv1.EcommercePlatform `json:"platform"`
}

// TestGolden compares the AppStack of each testdata/*.yaml with what it was.
func TestGolden(t *testing.T) {
	golden.Cases(t, 5, func(t *testing.T, c goldenCase) string {
		t.Helper()
		before := c.Platform.DeepCopy()
		spec, errs := Stack(&c.Platform, c.Monitored)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		if diff := cmp.Diff(before, &c.Platform); diff != "" {
			t.Errorf("the EcommercePlatform was changed:\n%s", diff)
		}
		return golden.YAML(t, []any{spec})
	})
}

// TestBlocks_areSpecs holds that fields have the same names and types as in the kinds that they are passed on to.
func TestBlocks_areSpecs(t *testing.T) {
	for _, name := range []string{"production-store", "smallest", "everything"} {
		c := golden.Read[goldenCase](t, "testdata/"+name+".yaml")
		spec, errs := Stack(&c.Platform, c.Monitored)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		for i := range spec.Components {
			if block := spec.Components[i].PostgreSQL; block != nil {
				decode(t, block, &databasev1alpha1.PostgreSQLSpec{})
			}
			if block := spec.Components[i].WebApp; block != nil {
				decode(t, block, &appsv1.WebAppSpec{})
			}
		}
	}
}

func decode(t *testing.T, block *runtime.RawExtension, into any) {
	t.Helper()
	strict := json.NewDecoder(bytes.NewReader(block.Raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into); err != nil {
		t.Errorf("%s: %v", block.Raw, err)
	}
}

// platform is the smallest EcommercePlatform, without the defaults of the API server, with a change.
func platform(change func(*platformv1.EcommercePlatformSpec)) *platformv1.EcommercePlatform {
	p := &platformv1.EcommercePlatform{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default"}}
	p.Spec.Frontend.Image, p.Spec.Backend.Image = "frontend", "backend"
	change(&p.Spec)
	return p
}

func block(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func TestStack(t *testing.T) {
	type spec = platformv1.EcommercePlatformSpec
	for name, tc := range map[string]struct {
		change func(*spec)
		// absent and present are parts of the AppStack's JSON.
		absent, present string
		unmonitored     bool
	}{
		"without defaults":       {change: func(*spec) {}, present: `"dependsOn":["db","cache"]`, absent: `"environment"`},
		"the default version":    {change: func(*spec) {}, present: `"version":"17"`, absent: `"storage"`},
		"replicas are left out":  {change: func(*spec) {}, absent: `"replicas"`},
		"backup is left out":     {change: func(*spec) {}, absent: `"backup"`},
		"a part of the backup":   {change: func(s *spec) { s.Database.Backup = &platformv1.EcommerceBackup{Retention: "7d"} }, present: `"backup":{"retention":"7d"}`},
		"monitored by default":   {change: func(*spec) {}, present: `"monitoring":{"enabled":true}`},
		"monitoring is disabled": {change: func(s *spec) { s.Monitoring.Enabled = new(false) }, absent: `"monitoring"`},
		"no Prometheus Operator": {change: func(*spec) {}, absent: `"monitoring"`, unmonitored: true},
		"no cache":               {change: func(s *spec) { s.Cache.Enabled = new(false) }, present: `"dependsOn":["db"]`, absent: `"cache"`},
		"the version of MySQL":   {change: func(s *spec) { s.Database.Type = "mysql" }, present: `"mySQL":{}`, absent: `"postgreSQL"`},
		"external MySQL": {
			change: func(s *spec) {
				s.Database.Type, s.Database.ExternalSecretRef = "mysql", &fettlev1.SecretKeyReference{Name: "a"}
			},
			present: `"external":{"type":"MySQL","secretRef":{"name":"a"}}`, absent: `"mySQL"`,
		},
		"the ingress is the frontend's": {
			change:  func(s *spec) { s.Ingress = &platformv1.EcommerceIngress{Host: "a.example.com"} },
			present: `{"name":"frontend","webApp":{"image":"frontend","ingress":{"host":"a.example.com"}}`,
		},
		"replicas in the block": {
			change:  func(s *spec) { s.Frontend.WebApp = block(`{"replicas":0}`) },
			present: `{"image":"frontend","replicas":0}`,
		},
		"an ingress in the block": {
			change:  func(s *spec) { s.Frontend.WebApp = block(`{"ingress":{"host":"a","path":"/shop"}}`) },
			present: `"ingress":{"host":"a","path":"/shop"}`,
		},
		"an empty block":         {change: func(s *spec) { s.Frontend.WebApp = block(`{}`) }, present: `"webApp":{"image":"frontend"}`},
		"a block without text":   {change: func(s *spec) { s.Frontend.WebApp = block(``) }, present: `"webApp":{"image":"frontend"}`},
		"its own label is right": {change: func(s *spec) { s.InheritedMetadata = labels("platform", "shop") }, present: `"labels":{"platform":"shop"}`},
		"another label":          {change: func(s *spec) { s.InheritedMetadata = labels("a", "b") }, present: `"labels":{"a":"b","platform":"shop"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := Stack(platform(tc.change), !tc.unmonitored)
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), tc.present) || tc.absent != "" && strings.Contains(strings.ReplaceAll(string(text), `"name":"cache"`, ""), tc.absent) {
				t.Errorf("got %s\nwant %q, and not %q", text, tc.present, tc.absent)
			}
		})
	}
}

func labels(key, value string) *fettlev1.InheritedMetadata {
	return &fettlev1.InheritedMetadata{Labels: map[string]string{key: value}}
}

func TestStack_errors(t *testing.T) {
	type spec = platformv1.EcommercePlatformSpec
	for name, tc := range map[string]struct {
		change func(*spec)
		want   []string
	}{
		"image": {func(s *spec) { s.Frontend.WebApp = block(`{"image":"b","port":8080}`) },
			[]string{"spec.frontend.webApp.image: Forbidden: spec.frontend.image has the value; remove one of the two"}},
		"replicas": {func(s *spec) { s.Backend.Replicas, s.Backend.WebApp = new(int32(2)), block(`{"replicas":2}`) },
			[]string{"spec.backend.webApp.replicas: Forbidden: spec.backend.replicas has the value; remove one of the two"}},
		"ingress": {func(s *spec) {
			s.Ingress, s.Frontend.WebApp = &platformv1.EcommerceIngress{Host: "a"}, block(`{"ingress":{"host":"b"}}`)
		}, []string{"spec.frontend.webApp.ingress: Forbidden: spec.ingress has the value; remove one of the two"}},
		"the ingress of the backend is its own": {func(s *spec) {
			s.Ingress, s.Backend.WebApp = &platformv1.EcommerceIngress{Host: "a"}, block(`{"ingress":{"host":"b"}}`)
		}, nil},
		"no object": {func(s *spec) { s.Frontend.WebApp, s.Backend.WebApp = block(`[]`), block(`null`) }, []string{
			`spec.frontend.webApp: Invalid value: "[]": must be an object with fields of the spec of a WebApp`,
			`spec.backend.webApp: Invalid value: "null": must be an object with fields of the spec of a WebApp`,
		}},
		"label": {func(s *spec) { s.InheritedMetadata = labels("platform", "other") },
			[]string{`spec.inheritedMetadata.labels[platform]: Invalid value: "other": Fettle sets this label to "shop", the name of the EcommercePlatform; remove it`}},
		"all at once": {func(s *spec) {
			s.InheritedMetadata = labels("platform", "")
			s.Frontend.WebApp, s.Backend.WebApp = block(`{"image":"a"}`), block(`{"image":"a"}`)
		}, []string{
			`spec.inheritedMetadata.labels[platform]: Invalid value: ""`, "spec.frontend.webApp.image: Forbidden", "spec.backend.webApp.image: Forbidden",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := Stack(platform(tc.change), true)
			if len(errs) != len(tc.want) || (got == nil) != (len(tc.want) > 0) {
				t.Fatalf("got %v, %v, want %q", got, errs, tc.want)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(errs[i].Error(), want) {
					t.Errorf("got  %s\nwant %s", errs[i], want)
				}
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"spec.components[db].postgreSQL.backup.destination: Required value":                        "spec.database.backup.destination: Required value",
		"spec.components[db].mySQL.storage: Invalid value":                                         "spec.database.storage: Invalid value",
		"spec.components[db].external.secretRef.name":                                              "spec.database.externalSecretRef.name",
		"spec.components[cache].cache.memory":                                                      "spec.cache.memory",
		"[spec.components[backend].webApp.image: a, spec.components[frontend].webApp.replicas: b]": "[spec.backend.image: a, spec.frontend.replicas: b]",
		"spec.components[frontend].webApp.ingress.host, spec.components[backend].webApp.ingress":   "spec.ingress.host, spec.backend.webApp.ingress",
		"component db (PostgreSQL shop-db) is not ready":                                           "component db (PostgreSQL shop-db) is not ready",
	} {
		if got := Places.Replace(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
