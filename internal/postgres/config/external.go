package config

import "strconv"

// External is a server that is none of the cluster's, as who copies it sees it.
type External struct {
	Host string
	Port int
	// User is one that may replicate.
	User string
	// SSLMode is one of libpq's that encrypts: require, verify-ca or verify-full.
	SSLMode string
	// CAFile is the authority that the server's certificate must be of; "" where SSLMode does not ask for one.
	CAFile string
	// CertFile and KeyFile are the user's certificate; "" for none. libpq refuses a KeyFile that others can read.
	CertFile, KeyFile string
}

// ConnInfo is how a client with a name reaches the server, in libpq's form, without a password. replication has it speak the
// language of replication.
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
