package server

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

const (
	mysqlContainer = "mysql"
	mysqlPortName  = "mysql"
	mysqlPort      = 3306

	keyDatabase     = "database"
	keyJDBC         = "jdbc-uri"
	keyRootPassword = "root-password"
	// keyClientConf is the key of the option file with which the clients in the pod log in.
	keyClientConf = "client.cnf"

	claimTemplate = "data"
	// dataPath is the data directory, and dataSubPath its directory in the volume. The root of the volume may have lost+found, and
	// the servers initialize an empty directory only.
	dataPath    = "/var/lib/mysql"
	dataSubPath = "mysql"

	// mysqlGraceSeconds is time to write dirty pages.
	mysqlGraceSeconds = 60

	backupSchedule  = "0 2 * * *"
	backupRetention = "30d"
)

// mysqlFlavor is how MySQL and MariaDB differ. MariaDB's newer images have no programs with the names of MySQL.
type mysqlFlavor struct{ image, version, server, client, admin, jdbc string }

func mysqlFlavorOf(m *platformv1.MySQL) mysqlFlavor {
	if m.Type == platformv1.TypeMariaDB {
		return mysqlFlavor{"docker.io/library/mariadb", "11.8", "mariadbd", "mariadb", "mariadb-admin", "mariadb"}
	}
	return mysqlFlavor{"docker.io/library/mysql", "8.4", "mysqld", "mysql", "mysqladmin", "mysql"}
}

// MySQLImage is the image of a MySQL.
func MySQLImage(m *platformv1.MySQL) string {
	flavor := mysqlFlavorOf(m)
	return cmp.Or(m.Image, flavor.image+":"+cmp.Or(m.Version, flavor.version))
}

// ClaimName is the name of the PersistentVolumeClaim of a MySQL.
func ClaimName(name string) string { return claimTemplate + "-" + name + "-0" }

// MySQL returns the desired objects of a MySQL: the StatefulSet, the Service, a NetworkPolicy if clients are limited, and a Backup if dumps
// are enabled and have a destination.
func MySQL(in Input, m *platformv1.MySQL) []runtime.ApplyConfiguration {
	set := in.statefulSet(mysqlPod(&in, m))
	set.Spec.WithVolumeClaimTemplates(in.claim(m)).WithPersistentVolumeClaimRetentionPolicy(in.claimRetention())
	objects := []runtime.ApplyConfiguration{set, in.service(mysqlPortName, mysqlPort)}
	if !in.dumps(m) {
		return append(objects, in.networkPolicy(mysqlPortName)...)
	}
	return append(append(objects, in.networkPolicy(mysqlPortName, dumpPods())...), in.backup(m))
}

func mysqlPod(in *Input, m *platformv1.MySQL) *corev1ac.PodSpecApplyConfiguration {
	flavor := mysqlFlavorOf(m)
	login := "--defaults-extra-file=" + secretPath + "/" + keyClientConf
	query := []string{flavor.client, login, "--execute", "SELECT 1"}
	main := container(mysqlContainer, MySQLImage(m), mysqlPortName, mysqlPort).
		// There is no standby that would read a binary log, and MySQL keeps it for 30 days.
		WithArgs(flavor.server, "--skip-log-bin").
		WithEnv(
			in.fromSecret("MYSQL_ROOT_PASSWORD", keyRootPassword),
			corev1ac.EnvVar().WithName("MYSQL_ROOT_HOST").WithValue("localhost"), // no root from the network
			in.fromSecret("MYSQL_DATABASE", keyDatabase),
			in.fromSecret("MYSQL_USER", keyUsername),
			in.fromSecret("MYSQL_PASSWORD", keyPassword)).
		// An hour: whoever stops the first initialization halfway, or a recovery, only makes it worse. Until the end of the
		// initialization, the server has no TCP port, and the query fails.
		WithStartupProbe(execProbe(query, 5, 5, 720)).
		WithReadinessProbe(execProbe(query, 5, 5, 2)).
		// A ping succeeds if the server rejects the login, for example because all connections are in use: a restart would not help.
		WithLivenessProbe(execProbe([]string{flavor.admin, login, "ping"}, 20, 10, 6))
	if m.Type == platformv1.TypeMariaDB {
		main.WithEnv(corev1ac.EnvVar().WithName("MARIADB_AUTO_UPGRADE").WithValue("1")) // MySQL upgrades its tables unasked
	}
	if m.Resources.Requests != nil || m.Resources.Limits != nil || m.Resources.Claims != nil {
		main.WithResources(apply.Convert[corev1ac.ResourceRequirementsApplyConfiguration](m.Resources))
	}
	pod := corev1ac.PodSpec()
	in.withSecretFile(pod, main, keyClientConf)
	withScratch(pod, main, "run", "/run/mysqld")
	withScratch(pod, main, "tmp", "/tmp")
	main.WithVolumeMounts(corev1ac.VolumeMount().WithName(claimTemplate).WithMountPath(dataPath).WithSubPath(dataSubPath))
	return restricted(pod, main, mysqlGraceSeconds)
}

// claim is the claim template, which is immutable: what the existing one has wins.
func (in *Input) claim(m *platformv1.MySQL) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	size := *cmp.Or(in.LiveTemplateStorage, &in.Storage)
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithVolumeMode(corev1.PersistentVolumeFilesystem).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: size}))
	if m.StorageClassName != nil {
		spec.WithStorageClassName(*m.StorageClassName)
	}
	claim := &corev1ac.PersistentVolumeClaimApplyConfiguration{}
	claim.WithName(claimTemplate).WithSpec(spec)
	if live := in.LiveTemplateMetadata; live != nil {
		return claim.WithLabels(live.Labels).WithAnnotations(live.Annotations)
	}
	claim.WithLabels(in.Labels)
	if inherited := in.Inherited.OrNil(); inherited != nil {
		claim.Labels = fettlev1.Inherit(claim.Labels, inherited.Labels)
		claim.WithAnnotations(inherited.Annotations)
	}
	return claim
}

func (in *Input) claimRetention() *appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicyApplyConfiguration {
	deleted := k8sappsv1.DeletePersistentVolumeClaimRetentionPolicyType
	if in.Retain {
		deleted = k8sappsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
		WithWhenDeleted(deleted).
		WithWhenScaled(k8sappsv1.RetainPersistentVolumeClaimRetentionPolicyType)
}

// dumps reports whether the database is dumped on a schedule.
func (in *Input) dumps(m *platformv1.MySQL) bool {
	return m.Backup != nil && (m.Backup.Enabled == nil || *m.Backup.Enabled) && in.Destination != nil
}

// dumpPods are the pods that dump and restore the databases of the namespace.
func dumpPods() networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: reconciler.LabelOwnerKind, Operator: metav1.LabelSelectorOpIn, Values: []string{backupjob.KindBackupRun.Name, backupjob.KindRestore.Name}},
	}}}
}

// backup is the Backup of the database. Its pods have the image of the server, since the programs must not be older than the server.
func (in *Input) backup(m *platformv1.MySQL) runtime.ApplyConfiguration {
	spec := map[string]any{
		"source": map[string]any{
			"type": string(backupv1alpha1.ServerMySQL),
			"connection": map[string]any{
				"host": in.host(), "port": int64(mysqlPort), "database": m.DatabaseName,
				"credentialsSecretRef": map[string]any{"name": SecretName(in.Name)},
				// The server has a certificate of its own making, or none.
				"tls": map[string]any{"mode": string(backupv1alpha1.TLSPrefer)},
			},
		},
		"schedule":    cmp.Or(m.Backup.Schedule, backupSchedule),
		"retention":   cmp.Or(m.Backup.Retention, backupRetention),
		"destination": *apply.Convert[map[string]any](in.Destination),
		"pod":         map[string]any{"image": MySQLImage(m)},
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(backupv1alpha1.GroupVersion.WithKind("Backup"))
	u.SetNamespace(in.Namespace)
	u.SetName(in.Name)
	u.SetLabels(in.Labels)
	return client.ApplyConfigurationFromUnstructured(u)
}

// MySQLSecret is the Secret with the credentials of a MySQL: host, port, username, password, database, uri and jdbc-uri for clients,
// root-password and client.cnf for the server. The passwords consist of letters, digits, "-" and "_".
func MySQLSecret(in Input, m *platformv1.MySQL, password, rootPassword string) *corev1.Secret {
	port, database := strconv.Itoa(mysqlPort), m.DatabaseName
	user, address := database, in.host()+":"+port
	uri := url.URL{Scheme: "mysql", User: url.UserPassword(user, password), Host: address, Path: "/" + database}
	jdbc := url.Values{"user": {user}, "password": {password}}
	return in.secret(map[string]string{
		keyHost: in.host(), keyPort: port, keyUsername: user, keyPassword: password, keyDatabase: database, keyURI: uri.String(),
		keyJDBC:         fmt.Sprintf("jdbc:%s://%s/%s?%s", mysqlFlavorOf(m).jdbc, address, database, jdbc.Encode()),
		keyRootPassword: rootPassword,
		keyClientConf:   fmt.Sprintf("[client]\nprotocol=tcp\nhost=127.0.0.1\nport=%s\nuser=%s\npassword=%q\n", port, user, password),
	})
}
