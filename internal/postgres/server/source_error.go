package server

import (
	"regexp"
	"strings"
)

// SourceErrorKind is what is in the way of a copy of an external server, in one word.
type SourceErrorKind string

// The kinds of obstacles.
const (
	Unreachable   SourceErrorKind = "SourceUnreachable"
	Rejected      SourceErrorKind = "SourceRejected"
	Untrusted     SourceErrorKind = "SourceUntrusted"
	Unsuitable    SourceErrorKind = "SourceUnsuitable"
	TooLarge      SourceErrorKind = "SourceTooLarge"
	CopyFailed    SourceErrorKind = "CopyFailed"
	SecretMissing SourceErrorKind = "SecretMissing"
)

// SourceError is why an external server can't be copied.
type SourceError struct {
	Kind SourceErrorKind
	// Message is wrong and what to do, in a sentence without what changes from one try to the next.
	Message string
	// Expensive says that the source was put to some work to find it out.
	Expensive bool
	// Cause are the program's own, for the log; nil for none.
	Cause error
}

// Error is What, and not the program's words.
func (o *SourceError) Error() string { return o.Message }

func (o *SourceError) Unwrap() error { return o.Cause }

// tablespaceError refuses them.
func (e External) tablespaceError() *SourceError {
	return &SourceError{Kind: Unsuitable, Expensive: true, Message: e.Address() +
		" has tablespaces, and there is no place for them here: move what is in them into pg_default and drop them, or copy the data with pg_dump"}
}

// sourceErrors are what libpq and PostgreSQL say, and what that means; the first that fits counts. {server} and {user} stand for the address and the user.
var sourceErrors = []struct {
	words *regexp.Regexp
	kind  SourceErrorKind
	what  string
}{
	{regexp.MustCompile(`certificate for .* does not match host name`), Untrusted,
		"{server} shows a certificate for another name: use that name as host, or sslMode verify-ca"},
	{regexp.MustCompile(`certificate verify failed|root certificate|could not get server's host name from server certificate`), Untrusted,
		"{server} shows a certificate that is not of the authority in caSecret: put the certificate of the authority that signed it there"},
	{regexp.MustCompile(`private key|could not (read|load|open) certificate file`), Rejected,
		"the certificate in clientCertificateSecret is of no use: it needs tls.crt and the tls.key that belongs to it"},
	{regexp.MustCompile(`does not support SSL`), Rejected,
		"{server} takes no connections over TLS, and data and passwords are sent over nothing else: set ssl to on there"},
	{regexp.MustCompile(`password authentication failed|no password supplied|empty password`), Rejected,
		"{server} refuses the password of {user}: correct it in passwordSecret"},
	{regexp.MustCompile(`(?i)certificate authentication failed|valid client certificate|certificate required|unknown ca`), Rejected,
		"{server} refuses the certificate of {user}: check clientCertificateSecret, and that the name in it is the user's"},
	{regexp.MustCompile(`no pg_hba\.conf entry|pg_hba\.conf rejects`), Rejected,
		"the pg_hba.conf of {server} does not let {user} replicate from here: add a line such as \"hostssl replication {user} <the pods' addresses> scram-sha-256\" and reload it"},
	{regexp.MustCompile(`replication role|permission denied to start WAL sender|REPLICATION attribute`), Rejected,
		"the role {user} of {server} may not replicate: ALTER ROLE \"{user}\" REPLICATION"},
	{regexp.MustCompile(`role .* does not exist|not permitted to log in`), Rejected,
		"{server} has no role {user} that may log in: check user"},
	{regexp.MustCompile(`max_wal_senders \(|remaining connection slots|too many (clients|connections)|sorry, too many`), Rejected,
		"{server} has no connections left, and a copy needs two that replicate: raise max_wal_senders or max_connections there"},
	{regexp.MustCompile(`can only write single tablespace`), Unsuitable, ""},
	{regexp.MustCompile(`unsupported startup parameter|unrecognized configuration parameter "replication"`), Unsuitable,
		"{server} is a connection pooler: name the server itself as host"},
	{regexp.MustCompile(`requires wal_level|requires "wal_level"`), Unsuitable,
		"{server} writes too little into its log for a copy: set wal_level to replica there and restart it"},
	{regexp.MustCompile(`No space left on device`), TooLarge,
		"the copy of {server} filled the volume: raise spec.storage"},
	{regexp.MustCompile(`could not translate host name`), Unreachable,
		"the name of {server} is not known to DNS: check host"},
	{regexp.MustCompile(`Connection refused`), Unreachable,
		"nobody takes connections at {server}: check host and port, and that the server listens on that address"},
	{regexp.MustCompile(`timeout expired|timed out|deadline exceeded|unreachable|No route to host`), Unreachable,
		"{server} does not answer: check host and port, firewalls and NetworkPolicies"},
	{regexp.MustCompile(`starting up|shutting down|not yet accepting|recovery mode|terminating|closed the connection|has been closed|Connection reset|could not receive data|unexpected eof|SSL SYSCALL`),
		Unreachable, "{server} ended the connection: see its log"},
}

// classify says what a program's failure means.
func (e External) classify(err error) error {
	text := err.Error()
	for _, k := range sourceErrors {
		if !k.words.MatchString(text) {
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
	return &SourceError{Kind: CopyFailed, Message: "the copy of " + e.Address() + " failed: " + lastLine(text), Cause: err}
}

// lastLine is what a program said last.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
