package postgres

import (
	"testing"
	"time"
)

func TestBootstrap(t *testing.T) {
	begun := time.Now()
	c := newCluster(t, 3, nil)
	c.eventually("a primary", time.Minute, func() bool { return c.leader() != nil })
	t.Logf("first instance Ready after %s", time.Since(begun))
	c.settled()
	t.Logf("three instances Ready after %s", time.Since(begun))
}
