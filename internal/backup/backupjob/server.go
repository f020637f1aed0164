package backupjob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// Keys of Secrets.
const (
	keyUsername = "username"
	keyPassword = "password"
	keyURI      = "uri"
	keyCA       = "ca.crt"
	keyIdentity = "identity"
)

// Server is a database server, and the Secrets that a pod needs for it.
type Server struct {
	job.Server
	// Logins are the Secrets of job.DirLogin, by number.
	Logins []Login
	// URI is the Secret of job.DirServerURI; nil if the connection is given by its parts.
	URI *fettlev1.SecretKeyReference
	// CA is the Secret of job.DirServerCA; nil if the server's certificate is not checked.
	CA *fettlev1.SecretKeyReference
	// Replication is the Secret of job.DirReplication; "" for Logical backups.
	Replication string
	// Image has the programs of the database.
	Image string
	// PostgreSQL is the name of the PostgreSQL of Fettle; "" for other servers.
	PostgreSQL string
}

// Login is a Secret with a password, and perhaps a user name.
type Login struct {
	Secret, PasswordKey string
	// UsernameKey is the key of the user name, which the Secret may lack; "" to read none.
	UsernameKey string
	// Username is the user name if the Secret has none.
	Username string
}

// defaults of the types of database servers: the port, and an official image with the programs.
var defaults = map[backupv1alpha1.ServerType]struct {
	port  int32
	image string
}{
	backupv1alpha1.ServerPostgreSQL: {5432, "docker.io/library/postgres:18"},
	backupv1alpha1.ServerMySQL:      {3306, "docker.io/library/mysql:8.4"},
	backupv1alpha1.ServerMongoDB:    {27017, "docker.io/library/mongo:8.0"},
}

// ServerOf returns a database server that Fettle does not run.
func ServerOf(server *backupv1alpha1.DatabaseServer) Server {
	c := &server.Connection
	s := Server{
		Server: job.Server{
			Type: server.Type, Host: c.Host, Port: cmp.Or(c.Port, defaults[server.Type].port),
			TLS: cmp.Or(c.TLS.Mode, backupv1alpha1.TLSPrefer), VerifyCA: c.TLS.CASecretRef != nil, Username: c.Username, FromURI: c.URISecretRef != nil,
		},
		URI: c.URISecretRef, CA: c.TLS.CASecretRef, Image: defaults[server.Type].image,
	}
	login := -1
	if ref := c.CredentialsSecretRef; ref != nil {
		l := Login{Secret: ref.Name, PasswordKey: cmp.Or(ref.PasswordKey, keyPassword)}
		if c.Username == "" {
			l.UsernameKey = cmp.Or(ref.UsernameKey, keyUsername)
		}
		login, s.Logins = 0, []Login{l}
	}
	names := c.Databases
	if c.Database != "" {
		names = []backupv1alpha1.DatabaseName{c.Database}
	}
	for _, name := range names {
		s.Databases = append(s.Databases, job.Database{Name: string(name), Login: login})
	}
	return s
}

// ServerOfPostgreSQL returns a PostgreSQL of Fettle. Each database is dumped and restored by its owner. The server is verified by the CA
// that standbys use, which is the one that clients see.
func ServerOfPostgreSQL(pg *databasev1alpha1.PostgreSQL, method backupv1alpha1.BackupMethod) Server {
	replication := pg.Name + "-replication"
	s := Server{
		Server: job.Server{
			Type: backupv1alpha1.ServerPostgreSQL, Host: serviceHost(pg, ""), Port: defaults[backupv1alpha1.ServerPostgreSQL].port,
			TLS: backupv1alpha1.TLSVerifyFull, VerifyCA: true,
		},
		CA: &fettlev1.SecretKeyReference{Name: replication, Key: keyCA}, Image: pg.Spec.EffectiveImage(), PostgreSQL: pg.Name,
	}
	if method == backupv1alpha1.MethodPhysical {
		s.Replication = replication
		if pg.Spec.Replicas != nil && *pg.Spec.Replicas > 1 {
			s.Replicas = []string{serviceHost(pg, "-ro")}
		}
		return s
	}
	logins := map[databasev1alpha1.Identifier]int{}
	add := func(database, owner databasev1alpha1.Identifier) {
		login, known := logins[owner]
		if !known {
			login = len(s.Logins)
			logins[owner], s.Logins = login, append(s.Logins, loginOf(pg, owner))
		}
		s.Databases = append(s.Databases, job.Database{Name: string(database), Login: login})
	}
	add(pg.Spec.DatabaseName, pg.Spec.OwnerName())
	for i := range pg.Spec.Databases {
		d := &pg.Spec.Databases[i]
		add(d.Name, cmp.Or(d.Owner, pg.Spec.OwnerName()))
	}
	return s
}

// loginOf returns the Secret with the password of a role: the user's own, or the one that Fettle writes. A role that does not log in
// cannot dump its databases: the owner of the PostgreSQL tries.
func loginOf(pg *databasev1alpha1.PostgreSQL, role databasev1alpha1.Identifier) Login {
	i := slices.IndexFunc(pg.Spec.Roles, func(r databasev1alpha1.PostgreSQLRole) bool { return r.Name == role })
	if i < 0 || role == pg.Spec.OwnerName() || pg.Spec.Roles[i].Login != nil && !*pg.Spec.Roles[i].Login {
		return Login{Secret: pg.Name + "-credentials", UsernameKey: keyUsername, PasswordKey: keyPassword}
	}
	if ref := pg.Spec.Roles[i].PasswordSecret; ref != nil {
		return Login{Secret: ref.Name, PasswordKey: ref.KeyOr(keyPassword), Username: string(role)}
	}
	secret := pg.Name + "-role-" + strings.ReplaceAll(string(role), "_", "-")
	return Login{Secret: secret, UsernameKey: keyUsername, PasswordKey: keyPassword}
}

// serviceHost is the name of a Service of the PostgreSQL, which its certificate is valid for.
func serviceHost(pg *databasev1alpha1.PostgreSQL, suffix string) string {
	return fmt.Sprintf("%s%s.%s.svc", pg.Name, suffix, pg.Namespace)
}

// OfBackup returns the pod of a Backup's runs, without the Config of one run and the image of Fettle. pg is nil for a server that Fettle
// does not run.
func OfBackup(b *backupv1alpha1.Backup, pg *databasev1alpha1.PostgreSQL) *Pod {
	p := &Pod{
		Kind: KindBackupRun, Store: b.Spec.Destination, Spec: b.Spec.Pod, TimeoutSeconds: b.Spec.TimeoutSeconds,
		Config: job.Config{Namespace: b.Namespace},
	}
	if b.Spec.Retries != nil {
		p.Retries = *b.Spec.Retries
	}
	if pg != nil {
		p.Server = ServerOfPostgreSQL(pg, b.Spec.Method)
	} else if b.Spec.Source != nil {
		p.Server = ServerOf(b.Spec.Source)
	}
	return p
}

// IsReady reports whether a PostgreSQL has been ready, so that its Secrets and databases exist, and runs.
func IsReady(pg *databasev1alpha1.PostgreSQL) bool {
	switch pg.Status.Phase {
	case "", databasev1alpha1.PhasePending, databasev1alpha1.PhaseCreating, databasev1alpha1.PhaseHibernated:
		return false
	}
	return pg.Status.Timeline > 0
}
