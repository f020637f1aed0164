package postgresql

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

func TestAdvance(t *testing.T) {
	first, second := rotation{password: "p0"}, rotation{second: true, password: "p1", done: "1"}
	under := rotation{password: "p0", next: "p1", request: "1"}
	for _, c := range []struct {
		name  string
		is    rotation
		asked string
		known bool
		want  rotation
	}{
		{"there is no Secret", rotation{}, "", false, rotation{password: "new"}},
		{"a Secret without a password", rotation{second: true, done: "1"}, "2", true, rotation{second: true, password: "new", done: "1"}},
		{"nothing is asked for", first, "", true, first},
		{"asked for", first, "1", false, rotation{password: "p0", next: "new", request: "1"}},
		{"the server does not know yet", under, "1", false, under},
		{"the server knows", under, "1", true, second},
		{"done", second, "1", true, second},
		{"asked for again", second, "2", true, rotation{second: true, password: "p1", next: "new", request: "2", done: "1"}},
		{"back to the role itself", rotation{second: true, password: "p1", next: "p2", request: "2", done: "1"}, "2", true, rotation{password: "p2", done: "2"}},
		{"asked for once more meanwhile: what was begun is ended first", under, "2", true, second},
		{"the request is withdrawn: what was begun is ended", under, "", true, second},
		{"the request is withdrawn when all is done", second, "", true, second},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.is.advance(c.asked, c.known, func() string { return "new" })
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(rotation{})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestBehind(t *testing.T) {
	for words, want := range map[string]string{
		"P R R": "pg-1", "P R? R?": "pg-1", "P": "", "P N R?": "pg-2", "P N N": "", "N R? R": "pg-1",
	} {
		c := picture(3, words)
		for i := range c.instances {
			if s := c.instances[i].status; s != nil {
				s.Replayed = 9
			}
		}
		if got := c.replayBehind(10); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	c := picture(2, "P R")
	c.instances[1].status = &agentapi.Status{Ready: true, Role: agentapi.Replica, Replayed: 10}
	if late := c.replayBehind(10); late != "" {
		t.Errorf("%s has it all", late)
	}
}

// TestCredentialFields holds that all that a Secret says is about one login.
func TestCredentialFields(t *testing.T) {
	pg := wanting(1)
	pg.Spec.DatabaseName = "app"
	c := credentialsOf(pg)[0]
	c.sslMode = "verify-full"
	for _, r := range []rotation{{password: "secret", next: "other", request: "1"}, {second: true, password: "secret"}} {
		c.rotation = r
		login := map[bool]string{false: "app", true: "fettle_login_app"}[r.second]
		fields := c.fields(pg)
		for _, key := range []string{"user", "username", "POSTGRES_USER"} {
			if fields[key] != login {
				t.Errorf("%s is %s", key, fields[key])
			}
		}
		if want := "postgresql://" + login + ":secret@pg.shop.svc:5432/app?sslmode=verify-full"; fields["uri"] != want {
			t.Errorf("uri: %s", fields["uri"])
		}
		if want := "pg.shop.svc:5432:app:" + login + ":secret\n"; fields["pgpass"] != want {
			t.Errorf("pgpass: %s", fields["pgpass"])
		}
		if !strings.Contains(fields["jdbc-uri"], "&user="+login) || !strings.Contains(fields["jdbc-uri"], "password=secret&") {
			t.Errorf("jdbc-uri: %s", fields["jdbc-uri"])
		}
	}
}

// rotating is a world of one role: its Secret in all versions, two servers, and what the operator has noted in status and
// in memory. Each step may be the last one before the operator crashes.
type rotating struct {
	t       *testing.T
	random  *rand.Rand
	pg      *databasev1alpha1.PostgreSQL
	secrets []*corev1.Secret
	// seen is the version that the operator has read last; its cache may be behind, and never goes back.
	seen int
	// servers have passwords by login; the first is the primary, and log is what the other has not replayed yet.
	servers [2]map[string]string
	log     []map[string]string
	// primary changes with each failover. hash is in status; memory is of this process of the operator.
	primary  int
	hash     string
	memory   string
	asked    int
	history  []string
	made     map[string]bool
	previous [2]string
}

func (w *rotating) latest() *corev1.Secret { return w.secrets[len(w.secrets)-1] }

func (w *rotating) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// pass is one of the operator, which ends after the given number of writes.
func (w *rotating) pass(writes int) {
	w.seen += w.random.IntN(len(w.secrets) - w.seen)
	live := w.secrets[w.seen]
	hash := fmt.Sprint(w.seen, "/", w.primary)
	told, noted := w.hash == hash, w.memory == hash
	c := credentialsOf(w.pg)[0]
	if err := c.load(live, told && noted && len(w.log) == 0); err != nil {
		w.t.Fatal(err)
	}
	switch {
	case c.changed():
		if writes > 0 && w.seen == len(w.secrets)-1 { // else somebody has written since, and this write is refused
			next := c.object(w.pg, nil)
			next.Annotations = mergeMaps(live.Annotations, next.Annotations)
			w.note(next)
		}
	case !told || !noted && c.next != "":
		w.tell(&c, hash, writes)
	}
}

// tell gives the primary the passwords, and then notes that it did.
func (w *rotating) tell(c *credential, hash string, writes int) {
	if writes > 0 {
		role, second := c.passwords()
		w.alter(map[string]string{"app": role, "fettle_login_app": second})
		w.memory = hash
		w.say("told %d", w.seen)
	}
	if writes > 1 {
		w.hash = hash
	}
}

// note writes a Secret.
func (w *rotating) note(next *corev1.Secret) {
	was := next
	if len(w.secrets) > 0 {
		was = w.latest()
	}
	w.secrets = append(w.secrets, next)
	w.say("wrote %d: %s, next %v", len(w.secrets)-1, next.Data["user"], len(next.Data[keyNext]) > 0)
	for _, key := range []string{keyPassword, keyNext} {
		w.made[string(next.Data[key])] = true
	}
	switch {
	case string(was.Data[keyUser]) != string(next.Data[keyUser]):
		w.previous = [2]string{string(was.Data[keyUser]), string(was.Data[keyPassword])}
	case len(was.Data[keyNext]) == 0 && len(next.Data[keyNext]) > 0:
		w.previous = [2]string{} // the next rotation has begun
	}
}

func (w *rotating) alter(passwords map[string]string) {
	for _, server := range w.servers[:1] {
		set(server, passwords)
	}
	w.log = append(w.log, passwords)
}

func set(server, passwords map[string]string) {
	for login, password := range passwords {
		if password != "" {
			server[login] = password
		}
	}
}

func (w *rotating) replay() {
	for _, passwords := range w.log {
		set(w.servers[1], passwords)
	}
	w.log = nil
}

// failover loses what the replica has not replayed.
func (w *rotating) failover() {
	w.primary++
	w.log = nil
	w.servers[0] = maps.Clone(w.servers[1])
	w.say("failover")
}

func (w *rotating) ask() {
	w.asked++
	next := w.latest().DeepCopy()
	next.Annotations = mergeMaps(next.Annotations, map[string]string{databasev1alpha1.AnnotationRotate: fmt.Sprint(w.asked)})
	w.note(next)
}

// check holds that whoever has read the Secret since the last rotation began can log in to any server.
func (w *rotating) check() {
	w.t.Helper()
	s := w.latest()
	for _, login := range [][2]string{{string(s.Data[keyUser]), string(s.Data[keyPassword])}, w.previous} {
		for i, server := range w.servers {
			if login[0] != "" && server[login[0]] != login[1] {
				w.t.Fatalf("%s can't log in to server %d:\n%s", login[0], i, strings.Join(w.history, "\n"))
			}
		}
	}
}

// step is what happens next.
func (w *rotating) step() {
	switch w.random.IntN(12) {
	case 0:
		w.failover()
	case 1:
		w.ask()
	case 2, 3:
		w.replay()
	case 4:
		w.memory = "" // a restart
	default:
		w.pass(w.random.IntN(3))
	}
}

// TestRotationNeverLocksOut runs rotations with crashes after each write, stale reads, replicas that lag and failovers that
// lose commits, and holds that no login fails and each request makes one password.
func TestRotationNeverLocksOut(t *testing.T) {
	for seed := range uint64(3000) {
		pg := wanting(2)
		pg.Spec.DatabaseName = "app"
		w := &rotating{t: t, random: rand.New(rand.NewPCG(seed, 1)), pg: pg, servers: [2]map[string]string{{}, {}}, made: map[string]bool{}}
		c := credentialsOf(pg)[0]
		if err := c.load(nil, false); err != nil {
			t.Fatal(err)
		}
		w.note(c.object(pg, nil))
		w.pass(2) // told before anybody can connect
		w.replay()
		for range 60 {
			w.step()
			w.check()
		}
		for range 4 * (w.asked + 1) {
			w.seen = len(w.secrets) - 1
			w.pass(2)
			w.replay()
			w.check()
		}
		s := w.latest()
		asked := s.Annotations[databasev1alpha1.AnnotationRotate]
		if s.Annotations[databasev1alpha1.AnnotationRotated] != asked || len(s.Data[keyNext])+len(s.Data[keyRequest]) > 0 {
			t.Fatalf("seed %d: the rotation %q does not end:\n%s", seed, asked, strings.Join(w.history, "\n"))
		}
		delete(w.made, "")
		if len(w.made) > w.asked+1 {
			t.Fatalf("seed %d: %d passwords for %d requests", seed, len(w.made), w.asked)
		}
	}
}

// TestTold holds that wishes have the passwords of both logins, and shut the second one out where it is not Fettle's to make.
func TestTold(t *testing.T) {
	pg := wanting(1)
	pg.Spec.DatabaseName = "app"
	pg.Spec.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "own"}, {Name: "group", Login: new(false)}, {Name: "fresh"}}
	d, err := databaseObjects(pg, map[string]password{
		"app": {value: "a", second: "b"}, "own": {value: "c", own: true}, "group": {value: "d"}, "fresh": {second: "e"},
	}, signed(t).salt)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, role := range d.Roles {
		got = append(got, fmt.Sprint(role.Name, " ", role.Verifier != "", " ", role.SecondLogin.Verifier != "", " ", role.SecondLogin.Allowed))
	}
	want := []string{"app true true true", "own true false false", "group false false false", "fresh false true true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
