package testdatabases

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// FerretDB is a server for backups of type mongodb.
type FerretDB struct {
	port   int
	client *mongo.Client
}

// NewFerretDB starts a server.
func NewFerretDB(t testing.TB) *FerretDB {
	t.Helper()
	dir := t.TempDir()
	s := &FerretDB{port: testpg.Port(t)}
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	uri := url.URL{Scheme: "mongodb", User: url.UserPassword(User, Password), Host: listen, Path: "/", RawQuery: "directConnection=true&authSource=admin"}
	client, err := mongo.Connect(options.Client().ApplyURI(uri.String()).SetServerSelectionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	s.client = client
	cmd := exec.Command(filepath.Join(programs(t), "ferretdb"), //nolint:gosec,noctx // the test ends it
		"--handler=sqlite", "--sqlite-url=file:"+dir+"/", "--state-dir="+dir, "--listen-addr="+listen, "--debug-addr=-",
		"--telemetry=disable", "--log-level=warn", "--test-enable-new-auth", "--setup-database=admin", "--setup-username="+User, "--setup-password="+Password)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	start(t, cmd, func(ctx context.Context) error { return client.Ping(ctx, nil) })
	return s
}

// Type is mongodb.
func (*FerretDB) Type() backupv1alpha1.ServerType { return backupv1alpha1.ServerMongoDB }

// Port of the server.
func (s *FerretDB) Port() int32 { return int32(s.port) }

// Create does nothing: the first collection creates the database.
func (*FerretDB) Create(testing.TB, string) {}

// Fill writes documents of all types. There are no indexes: FerretDB rejects the option "ns" that mongorestore gives to each.
func (s *FerretDB) Fill(t testing.TB, database, marker string) {
	t.Helper()
	items, other := make([]any, 2000), []any{bson.M{"_id": "näme 😀", "command": "\n\\! touch " + marker + "\n"}}
	for i := range items {
		items[i] = bson.D{
			{Key: "_id", Value: i}, {Key: "name", Value: fmt.Sprintf("näme 😀 %d\n", i)}, {Key: "data", Value: bson.Binary{Data: []byte{0, 255, 10, byte(i)}}},
			{Key: "at", Value: bson.DateTime(1700000000000 + int64(i))}, {Key: "none", Value: nil}, {Key: "list", Value: bson.A{int64(i), 1.5, true}},
			{Key: "id", Value: bson.NewObjectID()},
		}
	}
	for name, documents := range map[string][]any{"items": items, "other": other} {
		if _, err := s.client.Database(database).Collection(name).InsertMany(t.Context(), documents); err != nil {
			t.Fatal(err)
		}
	}
}

// Drop deletes a database.
func (s *FerretDB) Drop(t testing.TB, database string) {
	t.Helper()
	if err := s.client.Database(database).Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Checksum is one of all documents.
func (s *FerretDB) Checksum(t testing.TB, database string) string {
	t.Helper()
	db, hash := s.client.Database(database), sha256.New()
	collections, err := db.ListCollectionNames(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(collections)
	for _, name := range collections {
		cursor, err := db.Collection(name).Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
		if err != nil {
			t.Fatal(err)
		}
		for cursor.Next(t.Context()) {
			fmt.Fprintf(hash, "%s: %x\n", name, []byte(cursor.Current))
		}
		if err := cursor.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}
