package postgresql

import (
	corev1 "k8s.io/api/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// rotation is what a Secret of credentials says about the two logins of its role: the role itself, and the second login
// that stands beside it (config.SecondLogin). They take turns, so that a login whose password changes is never the one
// that clients read. What holds at any time, whatever ends in between:
//
//  1. The login that is published has the published password, on the primary and on each standby that is ready: advance
//     publishes what is known to be there, in one write.
//  2. A rotation changes the password of the login that is not published. So what was published when it began stays valid
//     until the next one begins.
//  3. A new password is in the Secret before the server learns of it, and is made once: the server is sent what was
//     read from a Secret, never of what is to be written.
//  4. A request is carried out once: it is noted with the new password, and is done with the write that publishes it. What
//     was begun is ended, and a request that comes meanwhile has its own turn.
type rotation struct {
	// second is set while the second login is published.
	second bool
	// password is that of the published login; "" while there is none.
	password string
	// next is the password that the other login gets; "" while nothing is under way. request is what it is for.
	next, request string
	// done is the request that was carried out last.
	done string
}

// rotationOf reads a Secret; nil is one that does not exist.
func rotationOf(role string, s *corev1.Secret) rotation {
	if s == nil {
		return rotation{}
	}
	return rotation{
		second:   string(s.Data[keyUser]) == config.SecondLogin(role),
		password: string(s.Data[keyPassword]),
		next:     string(s.Data[keyNext]),
		request:  string(s.Data[keyRequest]),
		done:     s.Annotations[databasev1alpha1.AnnotationRotated],
	}
}

// advance returns what the Secret should say next. asked is the request that people have written; known says that all
// servers which take connections have what the Secret says now; generate makes a password.
func (r rotation) advance(asked string, known bool, generate func() string) rotation {
	switch {
	case r.password == "":
		r.password = generate()
	case r.next != "" && known:
		return rotation{second: !r.second, password: r.next, done: r.request}
	case r.next == "" && asked != "" && asked != r.done:
		r.next, r.request = generate(), asked
	}
	return r
}

// login is the name that clients connect with.
func (r rotation) login(role string) string {
	if r.second {
		return config.SecondLogin(role)
	}
	return role
}

// passwords are those of the role and of its second login, as the server should know them; "" leaves one alone.
func (r rotation) passwords() (role, second string) {
	if r.second {
		return r.next, r.password
	}
	return r.password, r.next
}

// replayBehind names an instance that takes connections and may not have replayed so far; "" when there is none.
func (c *cluster) replayBehind(at wal.LSN) string {
	primary := c.primary()
	for i := range c.instances {
		in := &c.instances[i]
		if in == primary || !in.ready() {
			continue
		}
		if in.status == nil || in.status.Role != agentapi.Primary && in.status.Replayed < at {
			return in.name
		}
	}
	return ""
}
