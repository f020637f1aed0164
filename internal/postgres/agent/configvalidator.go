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

// configValidator makes PostgreSQL itself validate a user's parameters, before a server reads them. With one invalid value, such
// as the name of a time zone, it would reject all changes, and no longer start. The value that was accepted before stays, or else
// the default. It is safe for concurrent use.
type configValidator struct {
	check func(ctx context.Context, files config.Files) error

	mutex sync.Mutex
	// requested are the parameters of the last validation, accepted its result; nil before.
	requested, accepted map[string]string
	// rejected is read by the loop, which never waits.
	rejected atomic.Pointer[string]
}

// Filter returns the settings with the parameters that PostgreSQL accepts.
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

// Rejected returns which parameters were rejected, for people; "" if none was.
func (v *configValidator) Rejected() string {
	if complaint := v.rejected.Load(); complaint != nil {
		return *complaint
	}
	return ""
}

// validate removes parameters that PostgreSQL rejects until it accepts the rest.
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
		complaint = fmt.Sprintf("PostgreSQL rejects the parameters %s; their previous values stay in effect: %s",
			strings.Join(refused.Parameters, ", "), oneLine(err.Error()))
	}
}

// replace restores the accepted values of parameters, or removes them. It returns false if that changes nothing.
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
