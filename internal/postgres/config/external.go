package config

import "strconv"

// External is the connection to an external server for a base backup.
type External struct {
	Host string
	Port int
	// User is a role with the REPLICATION attribute.
	User string
	// SSLMode is a libpq mode that encrypts: require, verify-ca or verify-full.
	SSLMode string
	// CAFile is the CA of the server's certificate. "" if SSLMode does not verify it.
	CAFile string
	// CertFile and KeyFile are the user's certificate, or "". libpq rejects a KeyFile that others can read.
	CertFile, KeyFile string
}

// ConnInfo is the libpq connection string without password. With replication it opens a replication connection.
func (e External) ConnInfo(name string, replication bool) string {
	mode := ""
	if replication {
		mode = "true"
	}
	return connString(append([]pair{
		{"host", e.Host}, {"port", strconv.Itoa(e.Port)}, {"user", e.User}, {"replication", mode},
		{"sslmode", e.SSLMode}, {"sslrootcert", e.CAFile}, {"sslcert", e.CertFile}, {"sslkey", e.KeyFile}, {"gssencmode", "disable"},
		{"passfile", "/dev/null"}, {"application_name", name}, {"connect_timeout", "10"},
	}, copySettings...))
}
