package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// connectTimeout is how long a server may take to accept a connection.
const connectTimeout = 5 * time.Second

// mongodb dumps by mongodump in the format of archives.
type mongodb struct {
	run    *run
	server job.Server
}

func (*mongodb) extension() string { return ".archive" }

func (m *mongodb) inspect(ctx context.Context, database job.Database) (i info, err error) {
	client, err := m.connect(ctx, database)
	if err != nil {
		return i, err
	}
	defer client.Disconnect(context.WithoutCancel(ctx)) //nolint:errcheck // all results were read
	db := client.Database(database.Name)
	var build struct {
		Version string `bson:"version"`
	}
	if err := db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return i, m.failure(database, err)
	}
	i.version = build.Version
	collections, err := db.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return i, m.failure(database, err)
	}
	if i.objects, i.missing = int64(len(collections)), len(collections) == 0; i.missing {
		return i, nil
	}
	var stats struct {
		DataSize float64 `bson:"dataSize"`
	}
	if err := db.RunCommand(ctx, bson.D{{Key: "dbStats", Value: 1}}).Decode(&stats); err != nil {
		return i, m.failure(database, err)
	}
	i.size = int64(stats.DataSize)
	return i, nil
}

func (m *mongodb) connect(ctx context.Context, database job.Database) (*mongo.Client, error) {
	uri, err := m.uri(ctx, database)
	if err != nil {
		return nil, err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(connectTimeout).SetConnectTimeout(connectTimeout))
	if err != nil {
		return nil, refuse(backupv1alpha1.ReasonServerRejected, "connection settings of database %s: %w", database.Name, err)
	}
	if err := client.Ping(ctx, nil); err != nil {
		_ = client.Disconnect(context.WithoutCancel(ctx))
		return nil, m.failure(database, err)
	}
	return client, nil
}

// uri has the password: it is only written to files for this user.
func (m *mongodb) uri(ctx context.Context, database job.Database) (string, error) {
	l, err := m.run.login(m.server, database)
	if err != nil {
		return "", err
	}
	if m.server.FromURI {
		return m.run.uri.mongoDB(m.run.caFile(m.server)), nil
	}
	mode := m.server.TLS
	if mode == backupv1alpha1.TLSPrefer || mode == "" {
		mode = m.preferred(ctx)
	}
	query := url.Values{"directConnection": {"true"}, "appName": {"fettle-backup"}}
	switch mode {
	case backupv1alpha1.TLSRequire:
		query.Set("tls", "true")
		query.Set("tlsInsecure", "true")
	case backupv1alpha1.TLSVerifyCA, backupv1alpha1.TLSVerifyFull: // MongoDB's programs have no mode that checks the CA and not the name
		query.Set("tls", "true")
		query.Set("tlsCAFile", m.run.caFile(m.server))
	case backupv1alpha1.TLSDisable, backupv1alpha1.TLSPrefer:
	}
	uri := url.URL{Scheme: "mongodb", Host: address(m.server), Path: "/", RawQuery: query.Encode()}
	if l.user != "" {
		uri.User = url.UserPassword(l.user, l.password)
		query.Set("authSource", "admin")
		uri.RawQuery = query.Encode()
		_, escaped, _ := strings.Cut(uri.User.String(), ":")
		m.run.secrets.add(escaped)
	}
	return uri.String(), nil
}

// preferred tries TLS, as mode prefer asks. MongoDB has no such mode.
func (m *mongodb) preferred(ctx context.Context) backupv1alpha1.TLSMode {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: connectTimeout}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // mode prefer checks nothing
	conn, err := dialer.DialContext(ctx, "tcp", address(m.server))
	if err != nil {
		return backupv1alpha1.TLSDisable
	}
	_ = conn.Close()
	return backupv1alpha1.TLSRequire
}

// Errors of MongoDB.
const (
	mongoUnauthorized         = 13
	mongoAuthenticationFailed = 18
)

func (m *mongodb) failure(database job.Database, err error) error {
	var answer mongo.ServerError
	if !errors.As(err, &answer) {
		return connectionFailure(m.server, err)
	}
	if answer.HasErrorCode(mongoAuthenticationFailed) || answer.HasErrorCode(mongoUnauthorized) {
		return refuse(backupv1alpha1.ReasonServerRejected, "the server rejects the login to database %s: %w: correct the Secret or the permissions", database.Name, err)
	}
	return fail(backupv1alpha1.ReasonServerRejected, "database %s: %w", database.Name, err)
}

func (m *mongodb) execute(ctx context.Context, database job.Database, name string, arguments []string, in io.Reader, out io.Writer) error {
	uri, err := m.uri(ctx, database)
	if err != nil {
		return err
	}
	config, remove, err := m.run.secretFile(fmt.Sprintf("uri: %q\n", uri)) // YAML, and the URI is ASCII
	if err != nil {
		return err
	}
	defer remove()
	return m.run.execute(ctx, program{name: name, args: append([]string{"--config=" + config, "--archive"}, arguments...), in: in}, out)
}

func (m *mongodb) dump(database job.Database) source {
	return func(ctx context.Context, out io.Writer) error {
		return m.execute(ctx, database, "mongodump", []string{"--db=" + database.Name}, nil, out)
	}
}

func (*mongodb) complete(_ context.Context, dump io.Reader) error { return checkMongoArchive(dump) }

func (m *mongodb) programs(ctx context.Context, _ string) (map[string]string, error) {
	versions := map[string]string{}
	for _, name := range []string{"mongodump", "mongorestore"} {
		if _, err := find(name); err != nil {
			return nil, err
		}
		text, err := m.run.capture(ctx, program{name: name, args: []string{"--version"}})
		if err != nil {
			return nil, err
		}
		version, _, _ := strings.Cut(strings.TrimPrefix(text, name+" version: "), "\n")
		versions[name] = version
	}
	return versions, nil
}

func (*mongodb) prepare(_ context.Context, dump io.Reader) (toc string, err error) {
	return "", checkMongoArchive(dump)
}

func (m *mongodb) clear(ctx context.Context, database job.Database) error {
	client, err := m.connect(ctx, database)
	if err != nil {
		return err
	}
	defer client.Disconnect(context.WithoutCancel(ctx)) //nolint:errcheck // all results were read
	if err := client.Database(database.Name).Drop(ctx); err != nil {
		return m.failure(database, err)
	}
	return nil
}

// restore takes the collections of one database only, whatever else the archive has, such as users.
func (m *mongodb) restore(ctx context.Context, from string, to job.Database, _ string, dump io.Reader) error {
	arguments := []string{"--stopOnError", "--nsInclude=" + from + ".*"}
	if from != to.Name {
		arguments = append(arguments, "--nsFrom="+from+".*", "--nsTo="+to.Name+".*")
	}
	return m.execute(ctx, to, "mongorestore", arguments, dump, nil)
}
