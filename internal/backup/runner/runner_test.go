package runner_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"filippo.io/age"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/testenv/testdatabases"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

func TestRunner(t *testing.T) {
	t.Setenv("PATH", testdatabases.Path(t))
	objects := teststores.Start(t, backupv1alpha1.StoreS3)[0]
	for name, start := range map[string]func(t *testing.T) testdatabases.Server{
		"PostgreSQL": func(t *testing.T) testdatabases.Server { return testdatabases.NewPostgreSQL(t) },
		"MariaDB":    func(t *testing.T) testdatabases.Server { return testdatabases.NewMariaDB(t) },
		"FerretDB":   func(t *testing.T) testdatabases.Server { return testdatabases.NewFerretDB(t) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, start(t), objects)
			f.server.Create(t, "app")
			f.server.Fill(t, "app", f.marker)
			f.succeed(t, f.backup("first", "app"))
			t.Run("restores the same data", f.testRoundTrip)
			t.Run("overwrites only when told", f.testOverwrite)
			t.Run("connects by a URI", f.testURI)
			t.Run("refuses bad logins and names", f.testRefusals)
			t.Run("fails with its program", f.testFailingPrograms)
			t.Run("refuses a damaged backup", f.testDamage)
			t.Run("decrypts with the right key only", f.testEncryption)
			switch f.server.Type() {
			case backupv1alpha1.ServerPostgreSQL:
				t.Run("verifies backups", f.testVerification)
				t.Run("verifies without rights for a crafted backup", f.testVerificationAttack)
				t.Run("matches databases by name", f.testSeveral)
				t.Run("deletes old backups", f.testRetention)
				t.Run("needs programs as new as the server", f.testOldProgram)
			case backupv1alpha1.ServerMySQL:
				t.Run("backs up no tables", f.testEmpty)
				t.Run("runs no command of a crafted dump", f.testCraftedSQL)
				t.Run("verifies backups", f.testVerification)
				t.Run("verifies without rights for a crafted backup", f.testVerificationAttackSQL)
			case backupv1alpha1.ServerMongoDB:
				t.Run("takes one database of a crafted archive", f.testCraftedArchive)
				f.refused(t, f.verification("first", job.Temporary{}), backupv1alpha1.ReasonBackupUnsuitable, true)
			}
		})
	}
}

func (f *fixture) testRoundTrip(t *testing.T) {
	f.server.Create(t, "copy")
	f.succeed(t, f.restore("", "copy"))
	if want, got := f.server.Checksum(t, "app"), f.server.Checksum(t, "copy"); got != want {
		t.Errorf("checksum %s after the restore, want %s", got, want)
	}
	m, err := manifest.Read(t.Context(), f.open(t), "first")
	if err != nil {
		t.Fatal(err)
	}
	if m.ServerVersion == "" || len(m.Programs) != 2 || len(m.Parts) != 1 || m.Parts[0].Database != "app" || m.Parts[0].RawSize < m.Parts[0].Size {
		t.Errorf("manifest %+v", m)
	}
	// A retry of the Job, after a pod that could not report, changes nothing.
	before, err := f.open(t).Attributes(t.Context(), path.Join(manifest.Folder("first"), m.Parts[0].Name))
	if err != nil {
		t.Fatal(err)
	}
	f.succeed(t, f.backup("first", "app"))
	after, err := f.open(t).Attributes(t.Context(), path.Join(manifest.Folder("first"), m.Parts[0].Name))
	if err != nil || !after.ModTime.Equal(before.ModTime) {
		t.Errorf("a retry wrote a complete backup again (%v)", err)
	}
}

func (f *fixture) testOverwrite(t *testing.T) {
	f.server.Create(t, "target")
	f.server.Fill(t, "target", f.marker)
	before := f.server.Checksum(t, "target")
	f.refused(t, f.restore("first", "target"), backupv1alpha1.ReasonTargetNotEmpty, true)
	if f.server.Checksum(t, "target") != before {
		t.Error("a refused restore changed the target")
	}
	c := f.restore("first", "target")
	c.Restore.Overwrite = true
	f.succeed(t, c)
	if f.server.Checksum(t, "target") != f.server.Checksum(t, "app") {
		t.Error("the target differs after the restore")
	}
}

// testURI backs up the database that a URI names, and restores into another one.
func (f *fixture) testURI(t *testing.T) {
	f.server.Create(t, "other")
	by := func(c *job.Config, password string, databases ...job.Database) *job.Config {
		uri := url.URL{
			Scheme: string(f.server.Type()), User: url.UserPassword(testdatabases.User, password), Path: "/app",
			Host: net.JoinHostPort("127.0.0.1", fmt.Sprint(f.server.Port())), RawQuery: map[backupv1alpha1.ServerType]string{
				backupv1alpha1.ServerPostgreSQL: "sslmode=verify-full", backupv1alpha1.ServerMySQL: "ssl-mode=PREFERRED", backupv1alpha1.ServerMongoDB: "authSource=admin&directConnection=true",
			}[f.server.Type()],
		}
		f.write(t, job.DirServerURI, "uri", []byte(uri.String()))
		s := job.Server{Type: f.server.Type(), FromURI: true, VerifyCA: f.server.Type() == backupv1alpha1.ServerPostgreSQL, Port: f.server.Port(), Databases: databases}
		if c.Backup != nil {
			c.Backup.Server = s
		} else {
			c.Restore.To = s
		}
		return c
	}
	f.succeed(t, by(f.backup("by-uri"), testdatabases.Password))
	f.refused(t, by(f.restore("by-uri"), wrongPassword), backupv1alpha1.ReasonServerRejected, true)
	f.refused(t, by(f.restore("by-uri"), testdatabases.Password), backupv1alpha1.ReasonTargetNotEmpty, true)
	f.succeed(t, by(f.restore("by-uri"), testdatabases.Password, job.Database{Name: "other", Login: -1}))
	if f.server.Checksum(t, "other") != f.server.Checksum(t, "app") {
		t.Error("the copy differs")
	}
}

func (f *fixture) testRefusals(t *testing.T) {
	wrong := f.backup("wrong", "app")
	wrong.Backup.Server.Databases[0].Login = wrongLogin
	f.refused(t, wrong, backupv1alpha1.ReasonServerRejected, true)
	wrong.Backup.Server.Port = 1
	f.refused(t, wrong, backupv1alpha1.ReasonServerUnreachable, false)
	f.refused(t, f.restore("never", "copy2"), backupv1alpha1.ReasonNoBackup, true)
	f.refused(t, f.backup("missing", "nothing"), backupv1alpha1.ReasonDatabaseMissing, true)
	// attack 44: names with characters of a shell, options and paths. The API rejects them; the pod must not depend on that.
	for _, name := range []string{"$(touch " + f.marker + ")", "x;touch " + f.marker, "--result-file=" + f.marker, "../../other", "x' sslmode=disable"} {
		if result, err := f.run(t, f.backup("injected", name)); err == nil {
			t.Errorf("database %q: %+v, want a failure", name, result)
		}
	}
}

// testDamage uses overwrite: a damaged backup must not delete the target's data either.
func (f *fixture) testDamage(t *testing.T) {
	before := f.server.Checksum(t, "app")
	c := f.restore("first", "app")
	c.Restore.Overwrite = true
	m, err := manifest.Read(t.Context(), f.open(t), "first")
	if err != nil {
		t.Fatal(err)
	}
	name := path.Join(manifest.Folder("first"), m.Parts[0].Name)
	whole := f.read(t, name)
	changed := append([]byte(nil), whole...)
	changed[len(changed)/2] ^= 1
	for kind, content := range map[string][]byte{"truncated": whole[:len(whole)/2], "changed": changed, "longer": append(slices.Clip(changed), 0)} {
		f.put(t, name, content)
		t.Run(kind, func(t *testing.T) { f.refused(t, c, backupv1alpha1.ReasonBackupDamaged, true) })
	}
	if err := f.open(t).Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	f.refused(t, c, backupv1alpha1.ReasonBackupDamaged, true)
	f.put(t, name, whole)
	if f.server.Checksum(t, "app") != before {
		t.Error("a damaged backup changed the target")
	}
	f.succeed(t, c)
}

func (f *fixture) testEncryption(t *testing.T) {
	right, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := manifest.Read(t.Context(), f.open(t), "first")
	if err != nil {
		t.Fatal(err)
	}
	f.segmentSize = whole.Size()/3 + 1
	defer func() { f.segmentSize = 0 }()
	c := f.backup("encrypted", "app")
	c.Backup.Recipients, c.Backup.Compression = []string{right.Recipient().String()}, backupv1alpha1.CompressionGzip
	f.succeed(t, c)
	if m, err := manifest.Read(t.Context(), f.open(t), "encrypted"); err != nil || len(m.Parts[0].Segments) < 2 {
		t.Errorf("%+v, %v: want several segments", m, err)
	}
	f.server.Create(t, "decrypted")
	back := f.restore("encrypted", "decrypted")
	f.refused(t, back, backupv1alpha1.ReasonKeyMissing, true)
	f.write(t, job.DirIdentity, "identity", []byte(wrong.String()))
	f.refused(t, back, backupv1alpha1.ReasonKeyMissing, true)
	f.write(t, job.DirIdentity, "identity", []byte(right.String()))
	f.succeed(t, back)
	if f.server.Checksum(t, "decrypted") != f.server.Checksum(t, "app") {
		t.Error("the target differs after the restore")
	}
}

// testEmpty: a database without tables has a backup too.
func (f *fixture) testEmpty(t *testing.T) {
	f.server.Create(t, "empty")
	f.server.Create(t, "emptycopy")
	f.succeed(t, f.backup("empty", "empty"))
	f.succeed(t, f.restore("empty", "emptycopy"))
}

func (f *fixture) testSeveral(t *testing.T) {
	f.server.Create(t, "empty") // a database without tables has a backup too
	f.succeed(t, f.backup("both", "app", "empty"))
	before := f.server.Checksum(t, "app")
	c := f.restore("both", "app", "empty", "postgres")
	f.refused(t, c, backupv1alpha1.ReasonTargetNotEmpty, true)
	c.Restore.Overwrite = true
	f.succeed(t, c)
	if f.server.Checksum(t, "app") != before {
		t.Error("the target differs after the restore")
	}
	f.refused(t, f.restore("both", "empty"), backupv1alpha1.ReasonBackupUnsuitable, true)
	other := f.restore("both", "app", "empty")
	other.Restore.To.Type = backupv1alpha1.ServerMySQL
	f.refused(t, other, backupv1alpha1.ReasonBackupUnsuitable, true)
	if f.server.Checksum(t, "app") != before {
		t.Error("a refused restore changed the target")
	}
}

func (f *fixture) testRetention(t *testing.T) {
	neighbor := f.openFolder(t, namespace+"/"+f.plan()+"-2")
	m := &manifest.Manifest{
		Format: manifest.Format, Namespace: namespace, Backup: f.plan() + "-2", Run: "old", Method: "Logical", Type: string(f.server.Type()),
		Started: time.Unix(1, 0), Completed: time.Unix(2, 0), Parts: []manifest.Part{{Name: "a.dump", Size: 1, SHA256: hex.EncodeToString(make([]byte, sha256.Size))}},
	}
	if err := manifest.Write(t.Context(), neighbor, m); err != nil {
		t.Fatal(err)
	}
	failing := f.backup("failing", "nothing")
	failing.Backup.Retention = "1c"
	f.refused(t, failing, backupv1alpha1.ReasonDatabaseMissing, true)
	if len(f.objects(t, manifest.Folder("first"))) == 0 {
		t.Error("a failed run deleted a backup")
	}
	c := f.backup("last", "app")
	c.Backup.Retention = "1c"
	if result := f.succeed(t, c); result.DeletedBackups == 0 || result.RetentionMessage != "" {
		t.Errorf("result %+v: no backup was deleted", result)
	}
	if complete, _, err := manifest.List(t.Context(), f.open(t)); err != nil || len(complete) != 1 || complete[0].Run != "last" {
		t.Errorf("%d backups remain (%v), want the last", len(complete), err)
	}
	if left := f.objects(t, manifest.Folder("first")); len(left) > 0 {
		t.Errorf("the retention left %q", left)
	}
	if _, err := manifest.Read(t.Context(), neighbor, "old"); err != nil {
		t.Errorf("the retention deleted the backup of another plan: %v", err)
	}
}

// testCraftedSQL restores what an attacker could write into the bucket: commands of the client, and a file of the pod (attack 46).
func (f *fixture) testCraftedSQL(t *testing.T) {
	f.server.Create(t, "crafted")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, sql := range []string{
		"\\! touch " + f.marker + "\n", "system touch " + f.marker + "\n", "select 1;\n\\! touch " + f.marker + "\n",
		"/*M!999999\\- enable the sandbox mode */\n\\! touch " + f.marker + "\n", "delimiter //\nselect 1 //\n\\! touch " + f.marker + "\n",
		"tee " + f.marker + "\nselect 1;\n", "create table t (a text);\nload data local infile '" + secret + "' into table t;\n",
	} {
		name := "crafted-" + string(rune('a'+i))
		dump := []byte(sql + "-- Dump completed on 2026-11-23\n")
		f.craft(t, name, "x", dump)
		c := f.restore(name, "crafted")
		c.Restore.Overwrite = true
		f.refused(t, c, backupv1alpha1.ReasonRestoreFailed, true)
	}
}

// testCraftedArchive restores an archive with the collections of all databases: only those of the database are taken (attack 46).
func (f *fixture) testCraftedArchive(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	uri := url.URL{Scheme: "mongodb", User: url.UserPassword(testdatabases.User, testdatabases.Password), Host: "127.0.0.1:" + strconv.Itoa(int(f.server.Port())),
		Path: "/", RawQuery: "directConnection=true&authSource=admin"}
	if err := os.WriteFile(config, []byte("uri: \""+uri.String()+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.server.Fill(t, "innocent", f.marker)
	dump, err := exec.CommandContext(t.Context(), "mongodump", "--config="+config, "--archive").Output()
	if err != nil {
		t.Fatal(err)
	}
	f.craft(t, "crafted", "app", dump)
	f.server.(*testdatabases.FerretDB).Drop(t, "innocent")
	f.succeed(t, f.restore("crafted", "renamed"))
	if f.server.Checksum(t, "renamed") != f.server.Checksum(t, "app") || f.server.Checksum(t, "innocent") != f.server.Checksum(t, "nothing") {
		t.Error("the restore of one database wrote into another one")
	}
}

// craft stores a backup with a part that no run wrote.
func (f *fixture) craft(t *testing.T, name, database string, dump []byte) {
	t.Helper()
	sum := sha256.Sum256(dump)
	m := &manifest.Manifest{
		Format: manifest.Format, Namespace: namespace, Backup: f.plan(), Run: name, Method: "Logical", Type: string(f.server.Type()),
		Started: time.Unix(1, 0), Completed: time.Unix(2, 0),
		Parts: []manifest.Part{{Name: "crafted", Database: database, Size: int64(len(dump)), RawSize: int64(len(dump)), SHA256: hex.EncodeToString(sum[:])}},
	}
	f.put(t, path.Join(manifest.Folder(name), "crafted"), dump)
	if err := manifest.Write(t.Context(), f.open(t), m); err != nil {
		t.Fatal(err)
	}
}
