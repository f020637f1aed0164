package runner

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// connectionURI is a parsed URI of a database server: scheme://user:password@hosts/database?options. package url is not used for the whole,
// because it has no lists of hosts, and its errors contain the password.
type connectionURI struct {
	scheme string
	login
	// escaped is the password as it is in the URI.
	escaped string
	// hosts is one host with or without port, or several for MongoDB.
	hosts    string
	database string
	options  url.Values
}

// parseURI returns errors without any part of the text.
func parseURI(text string) (*connectionURI, error) {
	u := &connectionURI{}
	scheme, rest, found := strings.Cut(strings.TrimSpace(text), "://")
	if !found {
		return nil, errors.New("it is not of the form scheme://user:password@host/database")
	}
	rest, options, _ := strings.Cut(rest, "?")
	rest, database, _ := strings.Cut(rest, "/")
	user, password := "", ""
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, password, _ = strings.Cut(rest[:at], ":")
		rest = rest[at+1:]
	}
	u.scheme, u.hosts, u.escaped = scheme, rest, password
	var errs [4]error
	u.user, errs[0] = url.PathUnescape(user)
	u.password, errs[1] = url.PathUnescape(password)
	u.database, errs[2] = url.PathUnescape(database)
	u.options, errs[3] = url.ParseQuery(options)
	if errors.Join(errs[:]...) != nil {
		return nil, errors.New("a character after % or ; is not valid: encode the characters of user name, password and options in percent form")
	}
	if u.hosts == "" {
		return nil, errors.New("it has no host")
	}
	return u, nil
}

// uriSchemes are the schemes by type of server.
var uriSchemes = map[backupv1alpha1.ServerType][]string{
	backupv1alpha1.ServerPostgreSQL: {"postgresql", "postgres"},
	backupv1alpha1.ServerMySQL:      {"mysql", "mariadb"},
	backupv1alpha1.ServerMongoDB:    {"mongodb", "mongodb+srv"},
}

// databaseName is the rule for names of databases in the API, since names are in paths and arguments.
var databaseName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$`)

// readURI completes a server whose connection is a URI in a Secret.
func (r *run) readURI(s *job.Server) error {
	if !s.FromURI {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(r.path(job.DirServerURI), "uri"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the URI of the server: %w", err)
	}
	r.secrets.add(strings.TrimSpace(string(text)))
	u, err := parseURI(string(text))
	if err == nil {
		_, encoded, _ := strings.Cut(url.UserPassword(u.user, u.password).String(), ":") // as mongoDB writes it
		r.secrets.add(u.password, u.escaped, encoded)
		err = u.complete(s)
	}
	if err != nil {
		return refuse(backupv1alpha1.ReasonServerRejected, "the URI in the Secret of uriSecretRef cannot be used: %w", err)
	}
	r.uri = u
	return nil
}

// complete sets what the URI says of a server.
func (u *connectionURI) complete(s *job.Server) error {
	if schemes := uriSchemes[s.Type]; !slices.Contains(schemes, u.scheme) {
		return fmt.Errorf("its scheme must be %s for type %s", strings.Join(schemes, " or "), s.Type)
	}
	complete := u.completeSQL
	if s.Type == backupv1alpha1.ServerMongoDB {
		complete = u.completeMongoDB
	}
	if err := complete(s); err != nil {
		return err
	}
	if len(s.Databases) == 0 {
		if !databaseName.MatchString(u.database) || strings.Contains(u.database, "..") {
			return errors.New("it names no database, or one with other characters than letters, digits, '_', '-' and '.': set connection.database")
		}
		s.Databases = []job.Database{{Name: u.database, Login: -1}}
	}
	return nil
}

// completeSQL sets host, port and TLS of a PostgreSQL, MySQL or MariaDB.
func (u *connectionURI) completeSQL(s *job.Server) error {
	if u.user == "" || u.password == "" {
		return errors.New("it has no user name or no password before @: encode / and @ in them in percent form")
	}
	if err := u.completeHost(s); err != nil {
		return err
	}
	mode, err := u.tlsMode(s.Type)
	if err != nil {
		return err
	}
	if s.TLS = mode; (mode == backupv1alpha1.TLSVerifyCA || mode == backupv1alpha1.TLSVerifyFull) && !s.VerifyCA {
		return errors.New("it asks to check the certificate of the server: set connection.tls.caSecretRef")
	}
	return nil
}

func (u *connectionURI) completeHost(s *job.Server) error {
	if strings.Contains(u.hosts, ",") {
		return errors.New("it has several hosts: name the one to use")
	}
	s.Host = strings.Trim(u.hosts, "[]")
	if host, port, err := net.SplitHostPort(u.hosts); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return errors.New("its port is not a number from 1 to 65535")
		}
		s.Host, s.Port = host, int32(number) //nolint:gosec // of 16 bits
	}
	if strings.ContainsAny(s.Host, "/@'\\ ") {
		return errors.New("its host is not a name or an address: encode @ and / of user name and password in percent form")
	}
	return nil
}

// tlsModes are the values of ssl-mode of MySQL's programs, and of sslmode of libpq.
var tlsModes = map[string]backupv1alpha1.TLSMode{
	"DISABLED": backupv1alpha1.TLSDisable, "PREFERRED": backupv1alpha1.TLSPrefer, "REQUIRED": backupv1alpha1.TLSRequire,
	"VERIFY_CA": backupv1alpha1.TLSVerifyCA, "VERIFY_IDENTITY": backupv1alpha1.TLSVerifyFull,
	"disable": backupv1alpha1.TLSDisable, "allow": backupv1alpha1.TLSPrefer, "prefer": backupv1alpha1.TLSPrefer,
	"require": backupv1alpha1.TLSRequire, "verify-ca": backupv1alpha1.TLSVerifyCA, "verify-full": backupv1alpha1.TLSVerifyFull,
}

// securityOptions are starts of options that decide about encryption, login or the server. They must not be ignored, as those of
// applications are.
var securityOptions = []string{"ssl", "tls", "usessl", "requiressl", "verify", "gss", "krb", "channel_binding", "require_auth", "passfile", "host", "service"}

// tlsMode returns what the options say of TLS, and rejects other options that concern security.
func (u *connectionURI) tlsMode(server backupv1alpha1.ServerType) (backupv1alpha1.TLSMode, error) {
	option := map[backupv1alpha1.ServerType]string{backupv1alpha1.ServerPostgreSQL: "sslmode", backupv1alpha1.ServerMySQL: "ssl-mode"}[server]
	for name := range u.options {
		if name != option && hasAnyPrefix(strings.ToLower(name), securityOptions) {
			return "", fmt.Errorf("its option %q is not supported: remove it; %s and connection.tls.caSecretRef say how TLS is used", name, option)
		}
	}
	value := u.options.Get(option)
	if value == "" {
		return backupv1alpha1.TLSPrefer, nil
	}
	if server == backupv1alpha1.ServerMySQL {
		value = strings.ToUpper(value)
	}
	mode, known := tlsModes[value]
	if !known {
		return "", fmt.Errorf("its option %s has an unknown value", option)
	}
	return mode, nil
}

// mongoFileOptions name files, which a pod does not have.
var mongoFileOptions = []string{"tlscafile", "tlscertificatekeyfile", "sslcertificateauthorityfile", "sslclientcertificatekeyfile", "proxyhost"}

// completeMongoDB leaves the options to MongoDB's programs and driver, which know the same ones.
func (u *connectionURI) completeMongoDB(s *job.Server) error {
	s.Host, s.Port = u.hosts, 0
	for name := range u.options {
		if hasAnyPrefix(strings.ToLower(name), mongoFileOptions) {
			return fmt.Errorf("its option %q is not supported: remove it; connection.tls.caSecretRef names the CA", name)
		}
	}
	if mechanism := u.options.Get("authMechanism"); !u.options.Has("authSource") && (mechanism == "" || strings.HasPrefix(mechanism, "SCRAM")) && u.user != "" {
		u.options.Set("authSource", cmp.Or(u.database, "admin")) // MongoDB's default, which depends on the database that mongoDB leaves out
	}
	u.options.Set("appName", "fettle-backup")
	if s.VerifyCA && u.options.Get("tls") != "false" && u.options.Get("ssl") != "false" {
		u.options.Set("tls", "true")
	}
	return nil
}

// mongoDB returns the URI without its database, which is named to each program, and with the CA certificates of the pod.
func (u *connectionURI) mongoDB(caFile string) string {
	options := maps.Clone(u.options)
	if caFile != "" && options.Get("tls") == "true" {
		options.Set("tlsCAFile", caFile)
	}
	user := ""
	if u.user != "" {
		user = url.UserPassword(u.user, u.password).String() + "@"
	}
	return u.scheme + "://" + user + u.hosts + "/?" + options.Encode()
}
