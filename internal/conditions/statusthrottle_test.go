package conditions

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const quiet = 2 * time.Second

func object(uid string, generation int64) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Generation: generation}}
}

func newTestThrottle() (*StatusThrottle, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return NewStatusThrottle(quiet, clock), clock
}

func pass(clock *clocktesting.FakePassiveClock, d time.Duration) {
	clock.SetTime(clock.Now().Add(d))
}

func TestDelay_progress(t *testing.T) {
	p, clock := newTestThrottle()
	expect := func(when string, obj client.Object, onlyProgress bool, want time.Duration) {
		t.Helper()
		if got := p.Delay(obj, onlyProgress, false); got != want {
			t.Errorf("%s: wait %v, want %v", when, got, want)
		}
	}
	expect("first seen", object("a", 1), true, quiet)
	pass(clock, quiet/4)
	expect("a quarter later", object("a", 1), true, quiet*3/4)
	expect("something definite", object("a", 1), false, 0)
	expect("another object", object("b", 1), true, quiet)
	pass(clock, quiet*3/4)
	expect("after quiet", object("a", 1), true, 0)
	pass(clock, time.Hour/100)
	expect("long after quiet", object("a", 1), true, 0)
	expect("a new generation", object("a", 2), true, quiet)
	p.Forget("a")
	pass(clock, quiet/2)
	expect("forgotten", object("a", 2), true, quiet)
}

func TestDelay_counters(t *testing.T) {
	p, clock := newTestThrottle()
	obj := object("a", 1)
	if wait := p.Delay(obj, false, true); wait != 0 {
		t.Errorf("never written: wait %v", wait)
	}
	p.Wrote(obj)
	if wait := p.Delay(obj, false, true); wait != counterInterval {
		t.Errorf("just written: wait %v, want %v", wait, counterInterval)
	}
	if wait := p.Delay(obj, false, false); wait != 0 {
		t.Errorf("more than counters: wait %v", wait)
	}
	pass(clock, counterInterval/4)
	if wait := p.Delay(obj, false, true); wait != counterInterval*3/4 {
		t.Errorf("written lately: wait %v, want %v", wait, counterInterval*3/4)
	}
	if wait := p.Delay(obj, true, true); wait != quiet-counterInterval/4 {
		t.Errorf("progress and counters: wait %v, want the longer one", wait)
	}
	pass(clock, counterInterval)
	if wait := p.Delay(obj, false, true); wait != 0 {
		t.Errorf("written a while ago: wait %v", wait)
	}
}

func TestRemaining(t *testing.T) {
	p, clock := newTestThrottle()
	obj := object("a", 1)
	p.Delay(obj, true, false)
	if wait := p.Remaining(obj, time.Minute); wait != 0 {
		t.Errorf("never written: wait %v", wait)
	}
	pass(clock, 5*time.Second)
	p.Wrote(obj)
	pass(clock, 20*time.Second)
	if wait := p.Remaining(obj, time.Minute); wait != 40*time.Second {
		t.Errorf("written 20s ago: wait %v", wait)
	}
	pass(clock, time.Minute)
	if wait := p.Remaining(obj, time.Minute); wait != 0 {
		t.Errorf("written long ago: wait %v", wait)
	}
}

func TestDelay_clockSetBack(t *testing.T) {
	p, clock := newTestThrottle()
	p.Delay(object("a", 1), true, false)
	p.Wrote(object("a", 1))
	pass(clock, -time.Hour)
	if wait := p.Delay(object("a", 1), true, true); wait != quiet {
		t.Errorf("wait %v, want at most %v", wait, quiet)
	}
}

// One creation that ends within quiet costs one write, however many reports of progress come
// before; and waiting as long as requested always ends in a write.
func TestStatusThrottle_writes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 500 {
		p, clock := newTestThrottle()
		obj := object("a", 1)
		end := time.Duration(rng.Int64N(int64(quiet)))
		start := clock.Now()
		for clock.Now().Sub(start) < end {
			wait := p.Delay(obj, true, rng.IntN(2) == 0)
			if wait <= 0 {
				t.Fatalf("round %d: progress is written %v after the start", round, clock.Now().Sub(start))
			}
			pass(clock, min(wait, time.Duration(1+rng.Int64N(int64(quiet/4)))))
		}
		if wait := p.Delay(obj, false, false); wait != 0 {
			t.Fatalf("round %d: the end waits %v", round, wait)
		}
		p.Wrote(obj)
		pass(clock, p.Delay(obj, true, true))
		if wait := p.Delay(obj, true, true); wait != 0 {
			t.Fatalf("round %d: after the requested wait, wait %v", round, wait)
		}
	}
}

func TestStatusThrottle_memoryIsBounded(t *testing.T) {
	p, clock := newTestThrottle()
	const perSecond, seconds = 10, 1000
	for s := range seconds {
		for i := range perSecond {
			p.Delay(object(fmt.Sprintf("%d-%d", s, i), 1), true, true)
		}
		pass(clock, time.Second)
	}
	if bound := 2 * perSecond * int(minIdle/time.Second); len(p.objects) > bound {
		t.Errorf("%d objects are remembered, want at most %d", len(p.objects), bound)
	}
	for range 10 {
		p.Delay(object("kept", 1), true, false)
		pass(clock, minIdle/3)
	}
	if wait := p.Delay(object("kept", 1), true, false); wait != 0 {
		t.Errorf("an object that is asked about all the time was forgotten and waits %v", wait)
	}
}
