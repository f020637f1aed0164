package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

const validateTimeout = 10 * time.Second

// configValidator has PostgreSQL itself say what it takes of a user's parameters, before a server reads them: one value that it does not
// like, such as the name of a time zone, would have it refuse all changes, and not start any more. The value that was
// taken before stays, else the default. It is safe for concurrent use.
type configValidator struct {
	check func(ctx context.Context, files config.Files) error

	mutex sync.Mutex
	// requested are the parameters that were looked at last, taken what came of them; nil before.
	requested, accepted map[string]string
	// rejected is read by the loop, which never waits.
	rejected atomic.Pointer[string]
}

// Filter returns the settings with parameters that PostgreSQL takes.
func (v *configValidator) Filter(ctx context.Context, settings config.Settings) (config.Settings, error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.accepted == nil || !maps.Equal(v.requested, settings.Parameters) {
		taken, complaint, err := v.validate(ctx, settings)
		if err != nil {
			return settings, err
		}
		v.requested, v.accepted = maps.Clone(settings.Parameters), taken
		v.rejected.Store(&complaint)
	}
	settings.Parameters = maps.Clone(v.accepted)
	return settings, nil
}

// Rejected is what was not taken, for people; "" when all was.
func (v *configValidator) Rejected() string {
	if complaint := v.rejected.Load(); complaint != nil {
		return *complaint
	}
	return ""
}

// validate takes out what PostgreSQL refuses until it takes the rest.
func (v *configValidator) validate(ctx context.Context, settings config.Settings) (taken map[string]string, complaint string, err error) {
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	settings.Parameters = maps.Clone(settings.Parameters)
	for {
		files, err := config.Render(settings)
		if err != nil {
			return nil, "", fmt.Errorf("render the configuration: %w", err)
		}
		err = v.check(ctx, files)
		if err == nil {
			return settings.Parameters, complaint, nil
		}
		refused, ok := errors.AsType[*server.InvalidConfigError](err)
		if !ok || !v.replace(settings.Parameters, refused.Parameters) {
			return nil, "", fmt.Errorf("check the configuration: %w", err)
		}
		complaint = fmt.Sprintf("PostgreSQL refuses the parameters %s; what they were before stays in effect: %s",
			strings.Join(refused.Parameters, ", "), oneLine(err.Error()))
	}
}

// replace puts what was taken before in the place of parameters, or removes them. It is false if that changes nothing.
func (v *configValidator) replace(parameters map[string]string, names []string) (changed bool) {
	for _, refused := range names {
		for name, value := range parameters {
			if !strings.EqualFold(name, refused) {
				continue
			}
			if before, ok := v.accepted[name]; ok && before != value {
				parameters[name] = before
			} else {
				delete(parameters, name)
			}
			changed = true
		}
	}
	return changed
}
