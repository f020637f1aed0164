package agent

import (
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/watchdog"
)

// now is the time since the machine started, sleep included. It never steps; only its rate is trusted.
func now() time.Duration { return watchdog.Now() }
