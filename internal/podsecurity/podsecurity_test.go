package podsecurity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

func TestEffective(t *testing.T) {
	for _, c := range []struct {
		name   string
		spec   appsv1.SecurityProfile
		labels map[string]string
		want   appsv1.SecurityProfile
	}{
		{"nothing said", "", nil, appsv1.ProfileBaseline},
		{"restricted namespace", "", map[string]string{enforceLabel: "restricted"}, appsv1.ProfileRestricted},
		{"namespace that only warns", "", map[string]string{"pod-security.kubernetes.io/warn": "restricted"}, appsv1.ProfileBaseline},
		{"baseline namespace", "", map[string]string{enforceLabel: "baseline"}, appsv1.ProfileBaseline},
		{"spec wins over the namespace", appsv1.ProfileCustom, map[string]string{enforceLabel: "restricted"}, appsv1.ProfileCustom},
		{"spec", appsv1.ProfileRestricted, nil, appsv1.ProfileRestricted},
	} {
		app := &appsv1.WebApp{Spec: appsv1.WebAppSpec{SecurityProfile: c.spec}}
		if got := Effective(app, c.labels); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSatisfies(t *testing.T) {
	const baseline, restricted, custom = appsv1.ProfileBaseline, appsv1.ProfileRestricted, appsv1.ProfileCustom
	for _, c := range []struct {
		has, want appsv1.SecurityProfile
		ok        bool
	}{
		{baseline, baseline, true},
		{restricted, baseline, true},
		{custom, baseline, false},
		{baseline, restricted, false},
		{restricted, restricted, true},
		{custom, restricted, false},
		{custom, "", true},
	} {
		if got := Satisfies(c.has, c.want); got != c.ok {
			t.Errorf("Satisfies(%q, %q) = %t, want %t", c.has, c.want, got, c.ok)
		}
	}
}

func TestViolations(t *testing.T) {
	unconfined := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	for _, c := range []struct {
		name      string
		pod       *corev1.PodSecurityContext
		container *corev1.SecurityContext
		// what the first sentence contains under Baseline and under Restricted; "" where there is none.
		baseline, restricted string
	}{
		{name: "nothing set"},
		{name: "harmless", container: &corev1.SecurityContext{RunAsUser: new(int64(1000)), ReadOnlyRootFilesystem: new(false)}},
		{
			name:      "capability that restricted allows",
			container: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}}},
		},
		{
			name:      "capability of baseline",
			container: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CHOWN"}}},
			// the drop of ALL stays below it
			restricted: "CHOWN",
		},
		{
			name:      "dangerous capability",
			container: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}},
			baseline:  "SYS_ADMIN", restricted: "SYS_ADMIN",
		},
		{name: "root", container: &corev1.SecurityContext{RunAsUser: new(int64(0))}, restricted: "runAsUser=0"},
		{name: "root pod", pod: &corev1.PodSecurityContext{RunAsUser: new(int64(0))}, restricted: "runAsUser=0"},
		{name: "root allowed", pod: &corev1.PodSecurityContext{RunAsNonRoot: new(false)}, restricted: "runAsNonRoot"},
		{
			name:     "unconfined pod",
			pod:      &corev1.PodSecurityContext{SeccompProfile: unconfined},
			baseline: "seccompProfile", restricted: "seccompProfile",
		},
		{
			name:      "unconfined container",
			container: &corev1.SecurityContext{SeccompProfile: unconfined},
			baseline:  "seccompProfile", restricted: "seccompProfile",
		},
		{
			name:     "unsafe sysctl",
			pod:      &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}},
			baseline: "kernel.msgmax", restricted: "kernel.msgmax",
		},
		{
			name:       "privilege escalation",
			container:  &corev1.SecurityContext{AllowPrivilegeEscalation: new(true)},
			restricted: "allowPrivilegeEscalation",
		},
		{
			name:      "privileged",
			container: &corev1.SecurityContext{Privileged: new(true)},
			baseline:  "privileged", restricted: "privileged",
		},
	} {
		app := &appsv1.WebApp{Spec: appsv1.WebAppSpec{PodSecurityContext: c.pod, SecurityContext: c.container}}
		app.Name = "web"
		for want, text := range map[appsv1.SecurityProfile]string{
			appsv1.ProfileBaseline: c.baseline, appsv1.ProfileRestricted: c.restricted, appsv1.ProfileCustom: "", "": "",
		} {
			got, err := Violations(Confined(app, want), want)
			if err != nil {
				t.Fatal(err)
			}
			all := strings.Join(got, "; ")
			if (text == "") != (all == "") || !strings.Contains(all, text) {
				t.Errorf("%s under %q: %q, want something about %q", c.name, want, all, text)
			}
		}
	}
}
