package appconfig

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// An AppConfig publishes publishBurst times at once, and then every publishEvery. This bounds the cost of a loop through other
// controllers, which cannot be detected in advance.
const (
	publishBurst = 10
	publishEvery = 5 * time.Second
)

// throttle limits how often AppConfigs publish. The zero value is ready for use.
type throttle struct {
	mu   sync.Mutex
	seen map[client.ObjectKey]*publications
}

// publications are the publications of one AppConfig.
type publications struct {
	*rate.Limiter
	// held is true from the first delayed publication until the budget has recovered.
	held bool
}

// allow reports whether an AppConfig may publish now, and counts it as a publication.
func (t *throttle) allow(key client.ObjectKey, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.seen[key]
	if !ok {
		if t.seen == nil {
			t.seen = map[client.ObjectKey]*publications{}
		}
		p = &publications{Limiter: rate.NewLimiter(rate.Every(publishEvery), publishBurst)}
		t.seen[key] = p
	}
	admitted := p.AllowN(at, 1)
	p.held = p.held || !admitted
	return admitted
}

// limited reports whether an AppConfig has published too often lately. It holds for every reconcile during that time, so that the
// status does not alternate.
func (t *throttle) limited(key client.ObjectKey, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.seen[key]
	if ok && p.TokensAt(at) >= 1 {
		p.held = false
	}
	return ok && p.held
}

func (t *throttle) forget(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, key)
}

// throttledState is the condition Published of an AppConfig that has published too often.
func throttledState(cfg *configv1.AppConfig) conditions.State {
	return conditions.False(configv1.ReasonThrottled, fmt.Sprintf(
		"the contents changed more than %d times in short order and are now published every %s: find who keeps changing the objects of spec.valuesFrom, or what is published as %q",
		publishBurst, publishEvery, targetName(cfg)))
}
