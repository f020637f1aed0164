package backupjob

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

func database() *databasev1alpha1.PostgreSQL {
	return &databasev1alpha1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: databasev1alpha1.PostgreSQLSpec{
			Version: "16", DatabaseName: "app", Replicas: new(int32(3)), Owner: databasev1alpha1.PostgreSQLOwner{Name: "app"},
			Roles: []databasev1alpha1.PostgreSQLRole{
				{Name: "big_reports"}, {Name: "own", PasswordSecret: &fettlev1.SecretKeyReference{Name: "own-login", Key: "pw"}}, {Name: "team", Login: new(false)},
			},
			Databases: []databasev1alpha1.PostgreSQLDatabase{
				{Name: "reports", Owner: "big_reports"}, {Name: "more"}, {Name: "other", Owner: "own"}, {Name: "shared", Owner: "team"},
			},
		},
	}
}

// TestGolden compares the children of a BackupRun and of Restores with what they were. In particular, each database has the login of its
// owner, and no Secret is outside of a volume.
func TestGolden(t *testing.T) {
	b := &backupv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	b.Spec = backupv1alpha1.BackupSpec{
		PostgresRef: "db", TimeoutSeconds: 3600, Retries: new(int32(2)),
		Destination: backupv1alpha1.Destination{
			URI: "s3://b", CredentialsSecretRef: &fettlev1.LocalReference{Name: "keys"}, CASecretRef: &fettlev1.SecretKeyReference{Name: "ca", Key: "root.pem"},
		},
	}
	logical, physical := OfBackup(b, database()), func() *Pod {
		b := b.DeepCopy()
		b.Spec.Method = backupv1alpha1.MethodPhysical
		b.Spec.Destination = backupv1alpha1.Destination{URI: "azblob://b", ServiceAccountName: "cloud"}
		return OfBackup(b, database())
	}()
	for _, p := range []*Pod{logical, physical} {
		p.Config.Object = "db-202611230200"
		p.Config.Backup = &job.Backup{Name: "db", Server: p.Server.Server}
	}
	restore := &Pod{
		Kind: KindRestore, TimeoutSeconds: 60, Identity: &fettlev1.SecretKeyReference{Name: "age"},
		Config: job.Config{Namespace: "shop", Object: "db"},
		Server: ServerOf(&backupv1alpha1.DatabaseServer{Type: backupv1alpha1.ServerMySQL, Connection: backupv1alpha1.Connection{
			Host: "db.example.com", Databases: []backupv1alpha1.DatabaseName{"a", "b"}, CredentialsSecretRef: &backupv1alpha1.LoginSecret{Name: "login"},
			TLS: backupv1alpha1.ConnectionTLS{Mode: backupv1alpha1.TLSVerifyCA, CASecretRef: &fettlev1.SecretKeyReference{Name: "db-ca"}},
		}}),
		Spec: backupv1alpha1.RunPod{
			Image: "mysql:9", ImagePullSecrets: []fettlev1.LocalReference{{Name: "pull"}}, NodeSelector: map[string]string{"disk": "fast"},
			Tolerations: []corev1.Toleration{{Key: "backup"}},
			Resources:   corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
		},
	}
	restore.Config.Restore = &job.Restore{To: restore.Server.Server}
	verification := &Pod{
		Kind: KindRestore, TimeoutSeconds: 60, Retries: 1, Store: physical.Store, Config: job.Config{Namespace: "shop", Object: "verify-db"},
		Server:    Server{Image: "postgres:16"},
		Temporary: &backupv1alpha1.TemporaryServer{Storage: new(resource.MustParse("20Gi")), StorageClassName: "fast"},
		Spec:      restore.Spec,
	}
	verification.Config.Restore = &job.Restore{Temporary: &job.Temporary{Query: "select true"}}
	for name, p := range map[string]*Pod{"logical": logical, "physical": physical, "restore": restore, "verification": verification} {
		p.FettleImage = "fettle:1"
		objects := []any{p.Job()}
		for _, a := range p.Access() {
			objects = append(objects, a)
		}
		golden.Compare(t, "testdata/"+name+".golden.yaml", golden.YAML(t, objects))
	}
	want := []string{"ca", "db-credentials", "db-replication", "db-role-big-reports", "keys", "own-login"}
	if got := logical.Secrets(); len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestServerOf_uri checks that a pod gets the URI of a server as a file, and waits for its Secret.
func TestServerOf_uri(t *testing.T) {
	p := &Pod{Kind: KindRestore, Server: ServerOf(&backupv1alpha1.DatabaseServer{Type: backupv1alpha1.ServerMySQL, Connection: backupv1alpha1.Connection{
		URISecretRef: &fettlev1.SecretKeyReference{Name: "shop-db", Key: "url"},
	}})}
	if !p.Server.FromURI || len(p.Server.Databases) > 0 || !slices.Contains(p.Secrets(), "shop-db") {
		t.Errorf("%+v needs %v", p.Server, p.Secrets())
	}
	volumes := p.Job().Spec.Template.Spec.Volumes
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "shop-db" })
	if i < 0 || len(volumes[i].Secret.Items) != 1 || volumes[i].Secret.Items[0] != (corev1.KeyToPath{Key: "url", Path: "uri"}) {
		t.Errorf("volumes %+v", volumes)
	}
}
