package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

const (
	password     = "Abc-def_123"
	rootPassword = "Xyz-uvw_789"
)

// testCase is a testdata/*.yaml: the input, and the component as the API server returns it.
type testCase struct {
	Input Input             `json:"input"`
	Cache *platformv1.Cache `json:"cache"`
	MySQL *platformv1.MySQL `json:"mysql"`
}

func (c *testCase) objects() []runtime.ApplyConfiguration {
	if c.Cache != nil {
		return Cache(c.Input, c.Cache)
	}
	return MySQL(c.Input, c.MySQL)
}

func (c *testCase) secret() *corev1.Secret {
	if c.Cache != nil {
		return CacheSecret(c.Input, c.Cache, password)
	}
	return MySQLSecret(c.Input, c.MySQL, password, rootPassword)
}

func (c *testCase) pod() *corev1.PodSpec {
	return apply.Convert[corev1.PodSpec](setOf(c.objects()).Spec.Template.Spec)
}

func setOf(objects []runtime.ApplyConfiguration) *appsv1ac.StatefulSetApplyConfiguration {
	return objects[0].(*appsv1ac.StatefulSetApplyConfiguration)
}

// cases are the inputs of the golden files.
func cases(t *testing.T) map[string]*testCase {
	t.Helper()
	all := map[string]*testCase{}
	for _, name := range []string{"valkey", "redis", "mysql", "mariadb"} {
		all[name] = new(golden.Read[testCase](t, "testdata/"+name+".yaml"))
	}
	return all
}

// TestDesired compares what would be sent with testdata/*.golden.yaml; `go test ./internal/stack/server -update` writes them.
func TestDesired(t *testing.T) {
	golden.Cases(t, 4, func(t *testing.T, c testCase) string {
		t.Helper()
		return golden.YAML(t, c.objects())
	})
}

func TestPod_restricted(t *testing.T) {
	for name, c := range cases(t) {
		if violations, err := podsecurity.Violations(c.pod(), appsv1.ProfileRestricted); err != nil || len(violations) > 0 {
			t.Errorf("%s: violations of Pod Security: %v, %v", name, violations, err)
		}
	}
}

// Credentials reach the pod by reference only, and each reference names a key of the Secret.
func TestPod_credentialsByReference(t *testing.T) {
	literals := map[string]string{"MYSQL_ROOT_HOST": "localhost", "MARIADB_AUTO_UPGRADE": "1"}
	for name, c := range cases(t) {
		pod, secret := c.pod(), c.secret()
		var keys []string
		for _, e := range pod.Containers[0].Env {
			switch {
			case e.ValueFrom == nil && literals[e.Name] != e.Value:
				t.Errorf("%s: variable %s has a value in the pod", name, e.Name)
			case e.ValueFrom != nil && e.ValueFrom.SecretKeyRef.Name != secret.Name:
				t.Errorf("%s: variable %s is from Secret %s", name, e.Name, e.ValueFrom.SecretKeyRef.Name)
			case e.ValueFrom != nil:
				keys = append(keys, e.ValueFrom.SecretKeyRef.Key)
			}
		}
		for _, v := range pod.Volumes {
			if v.Secret == nil {
				continue
			}
			if v.Secret.SecretName != secret.Name {
				t.Errorf("%s: a volume of Secret %s", name, v.Secret.SecretName)
			}
			for _, item := range v.Secret.Items {
				keys = append(keys, item.Key)
				if item.Key == keyRootPassword {
					t.Errorf("%s: the password of root is a file", name)
				}
			}
		}
		for _, key := range keys {
			if len(secret.Data[key]) == 0 {
				t.Errorf("%s: the pod needs the key %s of the Secret, which has none", name, key)
			}
		}
	}
}

// Everybody who may read pods, or list processes of the node, sees arguments.
func TestArguments_noPasswordNoShell(t *testing.T) {
	for name, c := range cases(t) {
		main := c.pod().Containers[0]
		arguments := slices.Concat(main.Command, main.Args)
		for _, p := range []*corev1.Probe{main.StartupProbe, main.ReadinessProbe, main.LivenessProbe} {
			arguments = append(arguments, p.Exec.Command...)
		}
		for _, a := range arguments {
			for _, bad := range []string{"requirepass", "--password", "-p", "--pass", "-a", "sh", "bash", "-c", "$("} {
				if a == bad || strings.HasPrefix(a, bad+"=") || strings.Contains(a, "$(") {
					t.Errorf("%s: argument %q", name, a)
				}
			}
		}
		raw, err := yaml.Marshal(c.objects())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), password) || strings.Contains(string(raw), rootPassword) {
			t.Errorf("%s: an object contains a password", name)
		}
	}
}

// A directory of the container that the server writes to needs a volume, because the root filesystem is read-only.
func TestPod_writableDirectories(t *testing.T) {
	for name, want := range map[string][]string{
		"valkey": {"/data"}, "redis": {"/data"},
		"mysql": {"/run/mysqld", "/tmp", "/var/lib/mysql"}, "mariadb": {"/run/mysqld", "/tmp", "/var/lib/mysql"},
	} {
		var got []string
		for _, m := range cases(t)[name].pod().Containers[0].VolumeMounts {
			if !m.ReadOnly {
				got = append(got, m.MountPath)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The pod must not restart because its volume grows, and the API server rejects another claim template.
func TestMySQL_claimTemplate(t *testing.T) {
	c := cases(t)["mysql"]
	before := setOf(c.objects())
	c.Input.Storage = resource.MustParse("50Gi")
	if got := setOf(c.objects()).Spec.VolumeClaimTemplates[0].Spec.Resources.Requests; got.Storage().String() != "50Gi" {
		t.Errorf("a new StatefulSet has a template of %s", got.Storage())
	}
	c.Input.LiveTemplateStorage = new(resource.MustParse("20Gi"))
	c.Input.LiveTemplateMetadata = &metav1.ObjectMeta{
		Labels: before.Spec.VolumeClaimTemplates[0].Labels, Annotations: before.Spec.VolumeClaimTemplates[0].Annotations,
	}
	if diff := cmp.Diff(before, setOf(c.objects())); diff != "" {
		t.Errorf("the size changes the existing StatefulSet (-before +after):\n%s", diff)
	}
	c.Input.Inherited = &fettlev1.InheritedMetadata{Labels: map[string]string{"platform": "other"}}
	after := setOf(c.objects())
	if diff := cmp.Diff(before.Spec.VolumeClaimTemplates, after.Spec.VolumeClaimTemplates); diff != "" {
		t.Errorf("inherited metadata change the existing claim template (-before +after):\n%s", diff)
	}
	if after.Spec.Template.Labels["platform"] != "other" {
		t.Errorf("the pod does not inherit: %v", after.Spec.Template.Labels)
	}
}

// Own labels win: by them the controllers find the pods.
func TestPod_inheritedDoesNotReplaceOwn(t *testing.T) {
	c := cases(t)["mysql"]
	c.Input.Inherited = &fettlev1.InheritedMetadata{
		Labels:      map[string]string{"fettle.dev/component": "other"},
		Annotations: map[string]string{annotationSecretVersion: "other"},
	}
	set := setOf(c.objects())
	if set.Spec.Template.Labels["fettle.dev/component"] != "db" || set.Spec.Template.Annotations[annotationSecretVersion] != "v1" ||
		set.Spec.VolumeClaimTemplates[0].Labels["fettle.dev/component"] != "db" {
		t.Errorf("%v, %v", set.Spec.Template.Labels, set.Spec.VolumeClaimTemplates[0].Labels)
	}
}

func TestNetworkPolicy(t *testing.T) {
	client := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "backend"}}}
	destination := &backupv1alpha1.Destination{URI: "s3://backups/"}
	for name, tc := range map[string]struct {
		clients     []networkingv1.NetworkPolicyPeer
		destination *backupv1alpha1.Destination
		// want is the number of rules and of their peers; nil for no NetworkPolicy.
		want []int
	}{
		"not limited":           {},
		"not limited, backup":   {destination: destination},
		"no client":             {clients: []networkingv1.NetworkPolicyPeer{}, want: []int{0}},
		"no client, backup":     {clients: []networkingv1.NetworkPolicyPeer{}, destination: destination, want: []int{1, 1}},
		"one client":            {clients: []networkingv1.NetworkPolicyPeer{client}, want: []int{1, 1}},
		"one client and backup": {clients: []networkingv1.NetworkPolicyPeer{client}, destination: destination, want: []int{1, 2}},
	} {
		c := cases(t)["mysql"]
		c.Input.Clients, c.Input.Destination = tc.clients, tc.destination
		var got []int
		for _, o := range c.objects() {
			if p, ok := o.(*networkingv1ac.NetworkPolicyApplyConfiguration); ok {
				got = append(got, len(p.Spec.Ingress))
				for _, rule := range p.Spec.Ingress {
					got = append(got, len(rule.From))
				}
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The API server would drop a field that a Backup does not have.
func TestMySQL_backupFields(t *testing.T) {
	raw, err := yaml.Marshal(cases(t)["mysql"].objects()[3])
	if err != nil {
		t.Fatal(err)
	}
	b := &backupv1alpha1.Backup{}
	if err := yaml.UnmarshalStrict(raw, b); err != nil || b.Kind != "Backup" || b.Spec.Source.Type != backupv1alpha1.ServerMySQL {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestMySQL_backup(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testCase)
		want   bool
	}{
		"enabled":        {func(*testCase) {}, true},
		"by default":     {func(c *testCase) { c.MySQL.Backup.Enabled = nil }, true},
		"disabled":       {func(c *testCase) { c.MySQL.Backup.Enabled = new(false) }, false},
		"not asked for":  {func(c *testCase) { c.MySQL.Backup = nil }, false},
		"no destination": {func(c *testCase) { c.Input.Destination = nil }, false},
	} {
		c := cases(t)["mysql"]
		tc.change(c)
		if got := len(c.objects()) == 4; got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A version that the user does not set has the tag that the API documents.
func TestImages(t *testing.T) {
	for want, m := range map[string]*platformv1.MySQL{
		"docker.io/library/mysql:8.4":        {Type: platformv1.TypeMySQL},
		"docker.io/library/mysql:8.0":        {Type: platformv1.TypeMySQL, Version: "8.0"},
		"docker.io/library/mariadb:11.8":     {Type: platformv1.TypeMariaDB},
		"registry.example.com/mysql:patched": {Image: "registry.example.com/mysql:patched", Version: "8.0"},
	} {
		if got := *setOf(MySQL(Input{}, m)).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for want, c := range map[string]*platformv1.Cache{
		"docker.io/valkey/valkey:8":   {Type: platformv1.Valkey},
		"docker.io/library/redis:7":   {Type: platformv1.Redis},
		"docker.io/library/redis:7.2": {Type: platformv1.Redis, Version: "7.2"},
	} {
		if got := *setOf(Cache(Input{}, c)).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestSecrets(t *testing.T) {
	in := Input{Namespace: "shop", Name: "shop-db", Labels: map[string]string{"a": "b"}}
	for _, tc := range []struct {
		name string
		got  *corev1.Secret
		want map[string]string
	}{
		{"cache", CacheSecret(in, &platformv1.Cache{}, password), map[string]string{
			"host": "shop-db.shop.svc", "port": "6379", "username": "default", "password": password,
			"uri":         "redis://default:Abc-def_123@shop-db.shop.svc:6379/0",
			"server.conf": "requirepass \"Abc-def_123\"\n",
		}},
		{"MySQL", MySQLSecret(in, &platformv1.MySQL{Type: platformv1.TypeMySQL, DatabaseName: "app"}, password, rootPassword), map[string]string{
			"host": "shop-db.shop.svc", "port": "3306", "username": "app", "password": password, "database": "app",
			"uri":           "mysql://app:Abc-def_123@shop-db.shop.svc:3306/app",
			"jdbc-uri":      "jdbc:mysql://shop-db.shop.svc:3306/app?password=Abc-def_123&user=app",
			"root-password": rootPassword,
			"client.cnf":    "[client]\nprotocol=tcp\nhost=127.0.0.1\nport=3306\nuser=app\npassword=\"Abc-def_123\"\n",
		}},
		{"MariaDB", MySQLSecret(in, &platformv1.MySQL{Type: platformv1.TypeMariaDB, DatabaseName: "app"}, password, rootPassword), map[string]string{
			"host": "shop-db.shop.svc", "port": "3306", "username": "app", "password": password, "database": "app",
			"uri":           "mysql://app:Abc-def_123@shop-db.shop.svc:3306/app",
			"jdbc-uri":      "jdbc:mariadb://shop-db.shop.svc:3306/app?password=Abc-def_123&user=app",
			"root-password": rootPassword,
			"client.cnf":    "[client]\nprotocol=tcp\nhost=127.0.0.1\nport=3306\nuser=app\npassword=\"Abc-def_123\"\n",
		}},
	} {
		got := map[string]string{}
		for key, value := range tc.got.Data {
			got[key] = string(value)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if tc.got.Name != "shop-db-credentials" || tc.got.Namespace != "shop" || tc.got.Labels["a"] != "b" || tc.got.Type != corev1.SecretTypeOpaque {
			t.Errorf("%s: %+v", tc.name, tc.got.ObjectMeta)
		}
	}
}

func TestClaimName(t *testing.T) {
	if got := ClaimName("shop-db"); got != "data-shop-db-0" {
		t.Error(got)
	}
}
