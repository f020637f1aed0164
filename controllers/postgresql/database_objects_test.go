package postgresql

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
)

// signed are the certificates of a new PostgreSQL.
func signed(t *testing.T) *certificates {
	t.Helper()
	c, err := ensureCertificates(wanting(1), nil, nil, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// TestSalts holds that the same passwords are the same wishes, and that a salt is of one login of one PostgreSQL.
func TestSalts(t *testing.T) {
	c, other := signed(t), signed(t)
	pg, passwords := wanting(1), map[string]password{"app": {value: "a", second: "a"}}
	pg.Spec.DatabaseName = "app"
	d, err := databaseObjects(pg, passwords, c.salt)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := databaseObjects(pg, passwords, c.salt); err != nil || !cmp.Equal(d, again) {
		t.Errorf("the same passwords are other wishes: %v", err)
	}
	if role := d.Roles[0]; role.Verifier == role.SecondLogin.Verifier || !testscram.Matches(role.SecondLogin.Verifier, "a") {
		t.Error("two logins have one salt")
	}
	if bytes.Equal(c.salt("app"), other.salt("app")) {
		t.Error("two PostgreSQLs have one salt")
	}
}

// TestWishesHash holds which changes of wishes are no more than new versions of users' Secrets.
func TestWishesHash(t *testing.T) {
	hash := func(own, made string, primary types.UID, roles ...databasev1alpha1.PostgreSQLRole) string {
		pg, pod := wanting(1), &corev1.Pod{}
		pg.Spec.Roles, pod.UID = roles, primary
		return objectsHash(pg, map[string]password{"own": {version: own, own: true}, "app": {version: made}}, pod)
	}
	is := hash("2", "a", "one")
	for _, c := range []struct {
		name, was  string
		same, only bool
	}{
		{"the same", hash("2", "a", "one"), true, false},
		{"another version of a user's Secret", hash("1", "a", "one"), false, true},
		{"another version of a Secret of Fettle's", hash("2", "b", "one"), false, false},
		{"both", hash("1", "b", "one"), false, false},
		{"another primary", hash("1", "a", "two"), false, false},
		{"another role", hash("1", "a", "one", databasev1alpha1.PostgreSQLRole{Name: "new"}), false, false},
		{"nothing was told", "", false, false},
		{"told of wishes alone", strings.Split(is, "-")[0], false, false},
	} {
		if c.was == is != c.same || ownVersionsOnly(c.was, is) != c.only {
			t.Errorf("%s: the same %v, versions only %v", c.name, c.was == is, ownVersionsOnly(c.was, is))
		}
	}
}

// tellingWorld is a primary that is told of a role whose password is in a user's own Secret. Each step may be the last one of the
// operator.
type tellingWorld struct {
	t      *testing.T
	random *rand.Rand
	pg     *databasev1alpha1.PostgreSQL
	r      *Reconciler
	// secrets are the passwords of all versions; seen is the one that the cache shows, and never goes back.
	secrets []string
	seen    int
	// has is what the primary has of the role: the password, and how many sessions it allows.
	has string
	// primary changes with each failover, which may lose what the last one was told.
	primary int
	// writes are those of the status; idle are tellings that changed nothing.
	writes, idle int
	history      []string
}

func (w *tellingWorld) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *tellingWorld) restart() {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w.r = &Reconciler{clock: clock, history: newHistory(clock)}
	w.say("restart")
}

// wish is what the primary should have.
func (w *tellingWorld) wish() string {
	return fmt.Sprint(w.secrets[len(w.secrets)-1], "/", *w.pg.Spec.Roles[0].ConnectionLimit)
}

// pass is one of the operator. It ends before the primary's answer, before the write of the status, or not at all.
func (w *tellingWorld) pass(end int) {
	w.seen += w.random.IntN(len(w.secrets) - w.seen)
	key, recorded := client.ObjectKeyFromObject(w.pg), w.pg.Status.DesiredHash
	pod := &corev1.Pod{}
	pod.UID = types.UID(fmt.Sprint(w.primary))
	in := &inputs{passwords: map[string]password{"reader": {version: fmt.Sprint(w.seen), own: true}}}
	in.objectsHash = w.r.history.recordedHash(key, objectsHash(w.pg, in.passwords, pod), recorded)
	if !in.needsApply(w.pg) {
		return
	}
	if _, known := w.r.history.applied(key, in.objectsHash); known {
		w.pg.Status.DesiredHash = in.objectsHash
	} else {
		changed := w.has != w.wish() // the Secret is read as it is now
		if w.has = w.wish(); !changed {
			w.idle++
		}
		w.say("told %s of version %d, changed %v, ends at %d", w.has, w.seen, changed, end)
		if end == 0 {
			return
		}
		w.r.recordApplied(w.pg, in, agentapi.Result{Items: []agentapi.Item{{Kind: agentapi.KindRole, Name: "reader", Changed: changed}}})
	}
	if end == 1 {
		w.pg.Status.DesiredHash = recorded
	} else if w.pg.Status.DesiredHash != recorded {
		w.writes++
	}
}

// settle has the operator do what there is to do.
func (w *tellingWorld) settle() {
	w.seen = len(w.secrets) - 1
	for range 3 {
		w.pass(2)
	}
	if w.has != w.wish() {
		w.t.Fatalf("the primary has %s, not %s:\n%s", w.has, w.wish(), strings.Join(w.history, "\n"))
	}
}

func (w *tellingWorld) step() {
	switch w.random.IntN(12) {
	case 0:
		w.restart()
	case 1:
		w.primary++
		if w.random.IntN(2) == 0 {
			w.has = "lost"
		}
		w.say("failover, the primary has %s", w.has)
	case 2, 3:
		w.secrets = append(w.secrets, []string{"a", "b"}[w.random.IntN(2)])
		w.say("version %d is %s", len(w.secrets)-1, w.secrets[len(w.secrets)-1])
	case 4, 5:
		w.secrets = append(w.secrets, w.secrets[len(w.secrets)-1])
		w.say("version %d is a touch", len(w.secrets)-1)
	case 6:
		*w.pg.Spec.Roles[0].ConnectionLimit++
		w.say("limit %d", *w.pg.Spec.Roles[0].ConnectionLimit)
	default:
		w.pass(w.random.IntN(3))
	}
}

// TestTouchesAreNotWritten runs changes and touches of a user's Secret, with crashes at each step, stale reads and failovers.
// It holds that the primary has what is wished in the end, and that a touch after that is told once and written nowhere.
func TestTouchesAreNotWritten(t *testing.T) {
	for seed := range uint64(1000) {
		pg := wanting(1)
		pg.Spec.Roles = []databasev1alpha1.PostgreSQLRole{
			{Name: "reader", ConnectionLimit: new(int32(1)), PasswordSecret: &fettlev1.SecretKeyReference{Name: "reader"}},
		}
		w := &tellingWorld{t: t, random: rand.New(rand.NewPCG(seed, 2)), pg: pg, secrets: []string{"a"}}
		w.restart()
		for range 30 {
			w.step()
		}
		w.settle()
		w.writes, w.idle = 0, 0
		for n := range 5 {
			w.secrets = append(w.secrets, w.secrets[len(w.secrets)-1])
			w.settle()
			if w.idle != n+1 {
				t.Fatalf("seed %d: touched %d times, told %d times:\n%s", seed, n+1, w.idle, strings.Join(w.history, "\n"))
			}
		}
		w.restart()
		w.settle()
		if w.writes != 0 || w.idle > 6 {
			t.Fatalf("seed %d: %d writes, and %d tellings for 5 touches and a restart:\n%s", seed, w.writes, w.idle, strings.Join(w.history, "\n"))
		}
		w.secrets = append(w.secrets, "c")
		if w.settle(); w.writes != 1 {
			t.Fatalf("seed %d: %d writes for a new password", seed, w.writes)
		}
		w.restart()
		if w.settle(); w.writes != 1 || w.idle > 6 {
			t.Fatalf("seed %d: the new password was told again: %d writes, %d tellings", seed, w.writes, w.idle)
		}
	}
}
