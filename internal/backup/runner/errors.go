package runner

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

// maxMessage is the longest message of a result, in characters.
const maxMessage = 1024

// Error is why a run failed.
type Error struct {
	// Reason is one of the API's reasons.
	Reason string
	// Message says what is wrong and what to do. It has no secrets.
	Message string
	// Permanent says that a retry cannot help.
	Permanent bool
	// Err is the cause, or nil.
	Err error
}

func (e *Error) Error() string { return e.Reason + ": " + e.Message }

func (e *Error) Unwrap() error { return e.Err }

// fail returns a failure that a retry may mend.
func fail(reason, format string, arguments ...any) *Error {
	err := fmt.Errorf(format, arguments...)
	return &Error{Reason: reason, Message: err.Error(), Err: errors.Unwrap(err)}
}

// refuse returns a failure that needs a person.
func refuse(reason, format string, arguments ...any) *Error {
	e := fail(reason, format, arguments...)
	e.Permanent = true
	return e
}

// failure returns the error as an Error without secrets.
func (r *run) failure(err error) *Error {
	known := &Error{}
	storeError := &store.Error{}
	switch {
	case errors.As(err, &known):
	case errors.As(err, &storeError):
		known = &Error{Reason: cmp.Or(storeError.Reason, backupv1alpha1.ReasonStoreFailed), Message: storeError.Message, Permanent: storeError.Permanent}
	default:
		known = &Error{Reason: backupv1alpha1.ReasonRunFailed, Message: err.Error()}
	}
	return &Error{Reason: known.Reason, Message: shorten(r.secrets.redact(known.Message)), Permanent: known.Permanent, Err: known.Err}
}

// shorten returns valid text of at most maxMessage characters.
func shorten(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "?")
	if characters := []rune(text); len(characters) > maxMessage {
		return string(characters[:maxMessage-1]) + "…"
	}
	return text
}

// redactor removes secrets from texts.
type redactor struct {
	mu      sync.Mutex
	secrets []string
}

// add makes a text a secret. Empty texts are ignored.
func (r *redactor) add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range secrets {
		if secret != "" {
			r.secrets = append(r.secrets, secret, "***")
		}
	}
}

func (r *redactor) redact(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.NewReplacer(r.secrets...).Replace(text)
}
