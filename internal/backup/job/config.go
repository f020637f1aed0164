// Package job is the contract between the operator and the pods that back up and restore: what a pod gets.
package job

import (
	"encoding/json"
	"fmt"
	"path"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// EnvConfig is the environment variable with a Config in JSON. It has no secrets.
const EnvConfig = "FETTLE_BACKUP"

// Folders of the pod, each a Secret or one of its keys. A folder exists only if the Config needs it.
const (
	// DirStore has the keys of the object store: the whole Secret of destination.credentialsSecretRef.
	DirStore = "/etc/fettle/store"
	// DirStoreCA has ca.crt, the CA certificates of the object store.
	DirStoreCA = "/etc/fettle/store-ca"
	// DirIdentity has identity, a private age key.
	DirIdentity = "/etc/fettle/identity"
	// dirLogins has a folder for each of Server.Logins: username and password, as far as the Secret has them.
	dirLogins = "/etc/fettle/logins"
	// DirServerCA has ca.crt, the CA certificates of the database server.
	DirServerCA = "/etc/fettle/server-ca"
	// DirServerURI has uri, the connection URI of a server with Server.FromURI.
	DirServerURI = "/etc/fettle/server-uri"
	// DirReplication has tls.crt, tls.key and ca.crt: the client certificate for replication from a PostgreSQL of Fettle.
	DirReplication = "/etc/fettle/replication"

	// DirTemporary has the sockets between the pod of a verification and the container with its temporary server. It is shared by both.
	DirTemporary = "/run/fettle-verify"
	// DirTemporaryData has the data of this server, in its container only.
	DirTemporaryData = "/var/lib/fettle-verify"
)

// ExitRefused is the exit code of a failure that a retry cannot mend. The Job fails at once.
const ExitRefused = 3

// DirLogin returns the folder with the Secret of a login.
func DirLogin(login int) string { return path.Join(dirLogins, fmt.Sprint(login)) }

// Config says what a pod backs up or restores. Exactly one of Run and Restore is set.
type Config struct {
	// Namespace and Object are those of the BackupRun or Restore, whose status the pod reports to.
	Namespace string `json:"namespace"`
	Object    string `json:"object"`
	// Backup is set in a BackupRun's pod.
	Backup *Backup `json:"backup,omitempty"`
	// Restore is set in a Restore's pod.
	Restore *Restore `json:"restore,omitempty"`
}

// Backup is one run. The backup is stored below "<prefix>/<Config.Namespace>/<Backup.Name>/<Config.Object>/".
type Backup struct {
	// Name of the Backup.
	Name        string                          `json:"name"`
	Method      backupv1alpha1.BackupMethod     `json:"method"`
	Destination backupv1alpha1.Destination      `json:"destination"`
	Server      Server                          `json:"server"`
	Compression backupv1alpha1.Compression      `json:"compression"`
	Recipients  []string                        `json:"recipients,omitempty"`
	Retention   string                          `json:"retention,omitempty"`
	Policy      *backupv1alpha1.RetentionPolicy `json:"policy,omitempty"`
	// Keep are runs that the retention does not delete: the last verified one, and one that may be verified at this time.
	Keep []string `json:"keep,omitempty"`
}

// Restore is one restore of a Logical backup, or the verification of any backup.
type Restore struct {
	// From names the place. Run is empty for the last backup.
	From backupv1alpha1.BackupLocation `json:"from"`
	To   Server                        `json:"to"`
	// Temporary is set for a verification: the server is in the container of the pod that shares DirTemporary, and To is not used.
	Temporary *Temporary `json:"temporary,omitempty"`
	// Overwrite permits to delete what the target has.
	Overwrite bool `json:"overwrite,omitempty"`
}

// Temporary is how a backup is verified.
type Temporary struct {
	// Query and Expect are those of the API. The query runs in Database; "" for the first one of the backup.
	Query    string  `json:"query,omitempty"`
	Expect   *string `json:"expect,omitempty"`
	Database string  `json:"database,omitempty"`
}

// Server is a database server.
type Server struct {
	Type backupv1alpha1.ServerType `json:"type"`
	Host string                    `json:"host,omitempty"`
	Port int32                     `json:"port,omitempty"`
	TLS  backupv1alpha1.TLSMode    `json:"tls,omitempty"`
	// FromURI says that DirServerURI has what is unset here: Host, Port, TLS, the login, and Databases if there are none.
	FromURI bool `json:"fromURI,omitempty"`
	// VerifyCA says that DirServerCA exists.
	VerifyCA bool `json:"verifyCA,omitempty"`
	// Databases to dump or restore.
	Databases []Database `json:"databases,omitempty"`
	// Username of all logins whose Secret has none.
	Username string `json:"username,omitempty"`
	// Replicas are hosts to prefer for Physical backups, before Host.
	Replicas []string `json:"replicas,omitempty"`
}

// Database is a database and the login that may read and write it.
type Database struct {
	Name string `json:"name"`
	// Login is the number of its DirLogin; -1 without a password.
	Login int `json:"login"`
}

// Encode returns the value of EnvConfig.
func (c *Config) Encode() string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", c, err)) // every value has a JSON form
	}
	return string(raw)
}

// Decode reads the value of EnvConfig.
func Decode(text string) (*Config, error) {
	c := &Config{}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return nil, fmt.Errorf("%s: %w", EnvConfig, err)
	}
	if (c.Backup == nil) == (c.Restore == nil) {
		return nil, fmt.Errorf("%s: must have one of backup and restore", EnvConfig)
	}
	return c, nil
}
