package server

import (
	"regexp"
	"strings"
)

// SourceErrorKind is why an external server cannot be copied, or a backup cannot be restored. It is the reason of the condition.
type SourceErrorKind string

// Kinds of source errors.
const (
	Unreachable   SourceErrorKind = "SourceUnreachable"
	Rejected      SourceErrorKind = "SourceRejected"
	Untrusted     SourceErrorKind = "SourceUntrusted"
	Unsuitable    SourceErrorKind = "SourceUnsuitable"
	TooLarge      SourceErrorKind = "SourceTooLarge"
	CopyFailed    SourceErrorKind = "CopyFailed"
	SecretMissing SourceErrorKind = "SecretMissing"

	BackupDamaged    SourceErrorKind = "BackupDamaged"
	TargetTooEarly   SourceErrorKind = "TargetTooEarly"
	TargetNotReached SourceErrorKind = "TargetNotReached"
	RecoveryFailed   SourceErrorKind = "RecoveryFailed"
)

// SourceError explains why an external server cannot be copied, or a backup cannot be restored.
type SourceError struct {
	Kind SourceErrorKind
	// Message says what is wrong and what to do. It does not change between retries.
	Message string
	// Expensive means that the attempt put load on the source: retry less often.
	Expensive bool
	// Cause is the output of the program, for the log. nil if there is none.
	Cause error
}

// Error returns Message without Cause.
func (o *SourceError) Error() string { return o.Message }

func (o *SourceError) Unwrap() error { return o.Cause }

// tablespaceError rejects a source with tablespaces.
func (e External) tablespaceError() *SourceError {
	return &SourceError{Kind: Unsuitable, Expensive: true, Message: e.Address() +
		" has tablespaces, which are not supported: move their objects to pg_default and drop them, or copy the data with pg_dump"}
}

// sourceErrors are patterns of libpq and PostgreSQL messages. psql and pg_basebackup report no error codes. The first match
// counts. {server} and {user} are replaced by address and user.
var sourceErrors = []struct {
	pattern *regexp.Regexp
	kind    SourceErrorKind
	what    string
}{
	{regexp.MustCompile(`certificate for .* does not match host name`), Untrusted,
		"the certificate of {server} is for another host name: set host to that name, or sslMode to verify-ca"},
	{regexp.MustCompile(`certificate verify failed|root certificate|could not get server's host name from server certificate`), Untrusted,
		"the certificate of {server} is not signed by the CA in caSecret: put the certificate of the CA that signed it into caSecret"},
	{regexp.MustCompile(`private key|could not (read|load|open) certificate file`), Rejected,
		"clientCertificateSecret is invalid: it needs tls.crt and the matching tls.key"},
	{regexp.MustCompile(`does not support SSL`), Rejected,
		"{server} does not support TLS, which Fettle requires: set ssl to on on that server"},
	{regexp.MustCompile(`password authentication failed|no password supplied|empty password`), Rejected,
		"{server} rejects the password of {user}: correct it in passwordSecret"},
	{regexp.MustCompile(`(?i)certificate authentication failed|valid client certificate|certificate required|unknown ca`), Rejected,
		"{server} rejects the client certificate of {user}: check clientCertificateSecret and that its common name is {user}"},
	{regexp.MustCompile(`no pg_hba\.conf entry|pg_hba\.conf rejects`), Rejected,
		"pg_hba.conf of {server} does not allow replication by {user} from here: add a line such as \"hostssl replication {user} <pod CIDR> scram-sha-256\" and reload the server"},
	{regexp.MustCompile(`replication role|permission denied to start WAL sender|REPLICATION attribute`), Rejected,
		"the role {user} of {server} lacks the REPLICATION attribute: run ALTER ROLE \"{user}\" REPLICATION"},
	{regexp.MustCompile(`role .* does not exist|not permitted to log in`), Rejected,
		"{server} has no role {user} with LOGIN: check user"},
	{regexp.MustCompile(`max_wal_senders \(|remaining connection slots|too many (clients|connections)|sorry, too many`), Rejected,
		"{server} has no free connections, and pg_basebackup needs two WAL senders: increase max_wal_senders or max_connections on that server"},
	{regexp.MustCompile(`can only write single tablespace`), Unsuitable, ""},
	{regexp.MustCompile(`unsupported startup parameter|unrecognized configuration parameter "replication"`), Unsuitable,
		"{server} is a connection pooler: set host to the PostgreSQL server itself"},
	{regexp.MustCompile(`requires wal_level|requires "wal_level"`), Unsuitable,
		"wal_level of {server} is too low for a base backup: set wal_level to replica and restart that server"},
	{regexp.MustCompile(`No space left on device`), TooLarge,
		"the volume was full before the copy of {server} was complete: increase spec.storage"},
	{regexp.MustCompile(`could not translate host name`), Unreachable,
		"the host name of {server} cannot be resolved by DNS: check host"},
	{regexp.MustCompile(`Connection refused`), Unreachable,
		"{server} accepts no connections: check host and port, and listen_addresses of that server"},
	{regexp.MustCompile(`timeout expired|timed out|deadline exceeded|unreachable|No route to host`), Unreachable,
		"connection to {server} timed out: check host and port, firewalls and NetworkPolicies"},
	{regexp.MustCompile(`starting up|shutting down|not yet accepting|recovery mode|terminating|closed the connection|has been closed|Connection reset|could not receive data|unexpected eof|SSL SYSCALL`),
		Unreachable, "{server} closed the connection: see its log"},
}

// classify converts the failure of a program to a *SourceError.
func (e External) classify(err error) error {
	text := err.Error()
	for _, k := range sourceErrors {
		if !k.pattern.MatchString(text) {
			continue
		}
		if k.what == "" {
			o := e.tablespaceError()
			o.Cause = err
			return o
		}
		message := strings.NewReplacer("{server}", e.Address(), "{user}", e.User).Replace(k.what)
		return &SourceError{Kind: k.kind, Message: message, Expensive: k.kind == TooLarge, Cause: err}
	}
	return &SourceError{Kind: CopyFailed, Message: "copying " + e.Address() + " failed: " + lastLine(text), Cause: err}
}

// lastLine returns the last line of an output.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
