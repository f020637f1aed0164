package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

func policyOf(change func(*appsv1.WebAppPolicySpec)) *appsv1.WebAppPolicy {
	p := &appsv1.WebAppPolicy{ObjectMeta: metav1.ObjectMeta{Name: "production"}}
	change(&p.Spec)
	return p
}

func appOf(change func(*appsv1.WebAppSpec)) *appsv1.WebApp {
	app := &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	app.Spec = appsv1.WebAppSpec{Image: "nginx:1.25", Replicas: new(int32(1)), Port: 80}
	change(&app.Spec)
	return app
}

func limits(list ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		l[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
	}
	return l
}

func TestCheck(t *testing.T) {
	maxTen := func(s *appsv1.WebAppPolicySpec) { s.MaxReplicas = new(int32(10)) }
	company := func(s *appsv1.WebAppPolicySpec) { s.AllowedRegistries = []string{"registry.company.com/"} }
	limited := func(s *appsv1.WebAppPolicySpec) { s.RequireLimits = true }
	restricted := func(s *appsv1.WebAppPolicySpec) { s.RequireSecurityProfile = appsv1.ProfileRestricted }
	baseline := func(s *appsv1.WebAppPolicySpec) { s.RequireSecurityProfile = appsv1.ProfileBaseline }
	enforcing := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	for _, c := range []struct {
		name   string
		policy func(*appsv1.WebAppPolicySpec)
		app    func(*appsv1.WebAppSpec)
		labels map[string]string
		want   []string
	}{
		{name: "as many as allowed", policy: maxTen, app: func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(10)) }},
		{
			name: "one more", policy: maxTen, app: func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(11)) },
			want: []string{`spec.replicas: Invalid value: 11: maxReplicas of WebAppPolicy "production" allows at most 10; lower it`},
		},
		{name: "scaled to zero", policy: maxTen, app: func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(0)) }},
		{name: "no replicas said", policy: maxTen, app: func(s *appsv1.WebAppSpec) { s.Replicas = nil }},
		{
			name:   "autoscaled too far; replicas are ignored",
			policy: maxTen,
			app: func(s *appsv1.WebAppSpec) {
				s.Replicas, s.Autoscaling = new(int32(50)), &appsv1.WebAppAutoscaling{MinReplicas: 1, MaxReplicas: 20}
			},
			want: []string{`spec.autoscaling.maxReplicas: Invalid value: 20: maxReplicas of WebAppPolicy "production" allows at most 10; lower it`},
		},
		{
			name: "autoscaled within", policy: maxTen,
			app: func(s *appsv1.WebAppSpec) { s.Autoscaling = &appsv1.WebAppAutoscaling{MaxReplicas: 10} },
		},
		{
			name: "none allowed", policy: func(s *appsv1.WebAppPolicySpec) { s.MaxReplicas = new(int32(0)) },
			app:  func(*appsv1.WebAppSpec) {},
			want: []string{`spec.replicas: Invalid value: 1: maxReplicas of WebAppPolicy "production" allows at most 0; lower it`},
		},
		{
			name: "other registry", policy: company, app: func(*appsv1.WebAppSpec) {},
			want: []string{`spec.image: Invalid value: "nginx:1.25": allowedRegistries of WebAppPolicy "production" allows only images from registry.company.com/; use one of those`},
		},
		{name: "right registry", policy: company, app: func(s *appsv1.WebAppSpec) { s.Image = "registry.company.com/shop/web:v1" }},
		{
			name: "no limits", policy: limited, app: func(*appsv1.WebAppSpec) {},
			want: []string{
				`spec.resources.limits.cpu: Required value: requireLimits of WebAppPolicy "production" requires a limit; set one`,
				`spec.resources.limits.memory: Required value: requireLimits of WebAppPolicy "production" requires a limit; set one`,
			},
		},
		{
			name: "one limit, and requests", policy: limited,
			app: func(s *appsv1.WebAppSpec) {
				s.Resources.Limits, s.Resources.Requests = limits("cpu", "1"), limits("memory", "1Gi")
			},
			want: []string{`spec.resources.limits.memory: Required value: requireLimits of WebAppPolicy "production" requires a limit; set one`},
		},
		{
			name: "a limit of zero is none", policy: limited,
			app:  func(s *appsv1.WebAppSpec) { s.Resources.Limits = limits("cpu", "0", "memory", "1Gi") },
			want: []string{`spec.resources.limits.cpu: Required value: requireLimits of WebAppPolicy "production" requires a limit; set one`},
		},
		{
			name: "limits", policy: limited,
			app: func(s *appsv1.WebAppSpec) { s.Resources.Limits = limits("cpu", "1", "memory", "1Gi") },
		},
		{name: "baseline by default", policy: baseline, app: func(*appsv1.WebAppSpec) {}},
		{
			name: "restricted by default where the namespace enforces it", policy: restricted, labels: enforcing,
			app: func(*appsv1.WebAppSpec) {},
		},
		{
			name: "not restricted", policy: restricted, app: func(*appsv1.WebAppSpec) {},
			want: []string{`spec.securityProfile: Invalid value: "Baseline": requireSecurityProfile of WebAppPolicy "production" requires Restricted; set it`},
		},
		{
			name: "custom", policy: baseline, app: func(s *appsv1.WebAppSpec) { s.SecurityProfile = appsv1.ProfileCustom },
			want: []string{`spec.securityProfile: Invalid value: "Custom": requireSecurityProfile of WebAppPolicy "production" requires Baseline; set it`},
		},
		{
			name: "restricted except one field", policy: restricted,
			app: func(s *appsv1.WebAppSpec) {
				s.SecurityProfile = appsv1.ProfileRestricted
				s.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))}
			},
			want: []string{`spec.securityContext: Forbidden: requireSecurityProfile of WebAppPolicy "production" requires Restricted, ` +
				`which this violates: runAsUser=0: pod must not set runAsUser=0; remove it here or in spec.podSecurityContext`},
		},
		{
			name: "all at once",
			policy: func(s *appsv1.WebAppPolicySpec) {
				maxTen(s)
				company(s)
			},
			app: func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(11)) },
			want: []string{
				`spec.image: Invalid value: "nginx:1.25": allowedRegistries of WebAppPolicy "production" allows only images from registry.company.com/; use one of those`,
				`spec.replicas: Invalid value: 11: maxReplicas of WebAppPolicy "production" allows at most 10; lower it`,
			},
		},
	} {
		violations, err := Check(policyOf(c.policy), appOf(c.app), c.labels)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []string
		for _, v := range violations {
			got = append(got, v.Error.Error())
			if text := v.Error.Error(); !strings.Contains(text, v.Rule) || !strings.Contains(text, `"production"`) {
				t.Errorf("%s: %q does not name its rule %s and its policy", c.name, text, v.Rule)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestFullName(t *testing.T) {
	for image, want := range map[string]string{
		"nginx":                                   "docker.io/library/nginx",
		"nginx:1.25":                              "docker.io/library/nginx",
		"team/app:v1":                             "docker.io/team/app",
		"docker.io/nginx":                         "docker.io/library/nginx",
		"docker.io/library/nginx:1.25":            "docker.io/library/nginx",
		"index.docker.io/team/app":                "docker.io/team/app",
		"registry.company.com/app":                "registry.company.com/app",
		"REGISTRY.company.com/app":                "registry.company.com/app",
		"registry.company.com:5000/a/b":           "registry.company.com:5000/a/b",
		"localhost:5000/app":                      "localhost:5000/app",
		"Host/app":                                "host/app",
		"registry.company.com/Not a":              "",
		"registry.company.com/../other":           "",
		"nginx@sha256:" + strings.Repeat("0", 64): "docker.io/library/nginx",
	} {
		if got := fullName(image); got != want {
			t.Errorf("fullName(%q) = %q, want %q", image, got, want)
		}
	}
}

func TestAllowedBy(t *testing.T) {
	for _, c := range []struct {
		prefix, image string
		want          bool
	}{
		{"registry.company.com/", "registry.company.com/shop/web:v1", true},
		{"registry.company.com/", "registry.company.com.evil.example/shop/web", false},
		{"registry.company.com/", "registry.company.com:5000/shop/web", false},
		{"registry.company.com/", "evil.example/registry.company.com/web", false},
		{"registry.company.com/", "registry.company.com", false}, // an image of docker.io
		{"registry.company.com/shop/", "registry.company.com/shop/web", true},
		{"registry.company.com/shop/", "registry.company.com/shopping/web", false},
		{"docker.io/", "nginx:1.25", true},
		{"docker.io/library/", "nginx:1.25", true},
		{"docker.io/library/", "team/app", false},
		{"index.docker.io/", "nginx", true},
		{"library/", "nginx", true},
		{"team/", "team/app", true},
		{"team/", "other/app", false},
		{"localhost:5000/", "localhost:5000/app", true},
		{"localhost/", "localhost/app", true},
		{"registry.company.com/", "registry.company.com/Not a name", false},
	} {
		if got := allowedBy([]string{"first.example/", c.prefix}, c.image); got != c.want {
			t.Errorf("%q allows %q: %t, want %t", c.prefix, c.image, got, c.want)
		}
	}
}

func TestList(t *testing.T) {
	seven := []string{"a/", "b/", "c/", "d/", "e/", "f/", "g/"}
	if got, want := list(seven), "a/, b/, c/, d/, e/, others"; got != want {
		t.Errorf("list of seven: %q, want %q", got, want)
	}
	if len(seven) != 7 || seven[5] != "f/" {
		t.Errorf("list changed what it was given: %q", seven)
	}
}

func TestSelector(t *testing.T) {
	production, shop := labels.Set{"kubernetes.io/metadata.name": "production"}, labels.Set{"kubernetes.io/metadata.name": "shop"}
	for name, c := range map[string]struct {
		change           func(*appsv1.WebAppPolicySpec)
		production, shop bool
		wrong            string
	}{
		"by name": {func(s *appsv1.WebAppPolicySpec) { s.NamespaceSelector.MatchLabels = production }, true, false, ""},
		"empty":   {func(*appsv1.WebAppPolicySpec) {}, true, true, ""},
		"an unknown operator applies everywhere": {func(s *appsv1.WebAppPolicySpec) {
			s.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
		}, true, true, "namespaceSelector"},
	} {
		selector, err := Selector(policyOf(c.change))
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
		if selector.Matches(production) != c.production || selector.Matches(shop) != c.shop {
			t.Errorf("%s: matches production %t, shop %t", name, selector.Matches(production), selector.Matches(shop))
		}
	}
}

// Only what is new or worse counts of an update; a number of pods may come from either field.
func TestNew(t *testing.T) {
	p := policyOf(func(s *appsv1.WebAppPolicySpec) { s.MaxReplicas = new(int32(10)) })
	replicas, autoscaling := field.NewPath("spec", "replicas"), field.NewPath("spec", "autoscaling", "maxReplicas")
	for name, c := range map[string]struct {
		was, is []Violation
		want    int
	}{
		"none before":        {nil, CheckReplicas(p, replicas, 11), 1},
		"the same":           {CheckReplicas(p, replicas, 11), CheckReplicas(p, replicas, 11), 0},
		"fewer":              {CheckReplicas(p, replicas, 20), CheckReplicas(p, replicas, 11), 0},
		"more":               {CheckReplicas(p, replicas, 11), CheckReplicas(p, replicas, 20), 1},
		"fewer, autoscaling": {CheckReplicas(p, replicas, 20), CheckReplicas(p, autoscaling, 12), 0},
		"another rule":       {CheckReplicas(p, replicas, 20), CheckRegistry(policyOf(func(s *appsv1.WebAppPolicySpec) { s.AllowedRegistries = []string{"a/"} }), replicas, "b"), 1},
	} {
		if got := New(c.was, c.is); len(got) != c.want {
			t.Errorf("%s: %v, want %d", name, got, c.want)
		}
	}
}
