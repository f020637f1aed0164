package postgresql

import (
	"bytes"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// Keys of the Secret <name>-server beside the pair by which instances know each other, which is always of Fettle's own
// authority. keyRoots is for clients; the others are there while an issuer's certificate is shown to them.
const (
	keyRoots           = "root.crt"
	keyServed          = "served.crt"
	keyServedKey       = "served.key"
	keyServedAuthority = "served-ca.crt"
	// annotationRootsSince, on the same Secret, is when its roots or what is served last changed.
	annotationRootsSince = "fettle.dev/roots-since"
)

// settleRoots is how long new roots are published before a certificate is served that needs them: the kubelets of different nodes
// bring a Secret to their pods at different times.
const settleRoots = 2 * time.Minute

// serving is what clients are shown.
type serving struct {
	// pair is an issuer's; empty while the instances serve with their own.
	pair pki.Pair
	// authority is the one of pair.
	authority []byte
	// roots are all authorities that clients and standbys trust.
	roots []byte
	// since is when roots or pair changed; zero when they never did.
	since time.Time
}

// servingOf reads what is published.
func servingOf(server *corev1.Secret) serving {
	if server == nil {
		return serving{}
	}
	s := serving{
		pair:      pki.Pair{Certificate: server.Data[keyServed], Key: server.Data[keyServedKey]},
		authority: server.Data[keyServedAuthority], roots: server.Data[keyRoots],
	}
	s.since, _ = time.Parse(time.RFC3339, server.Annotations[annotationRootsSince]) // a damaged one is long ago
	return s
}

// next decides what is published instead: first that an authority is trusted, then what it signed, and at last that an old one
// is not trusted any more. own is Fettle's authority, which always is; candidate is what an issuer gave, nil where nothing is to
// be served of it. A pair that is over is not served any more, since clients trust own too.
func (s serving) next(own []byte, candidate *serving, wanted bool, now time.Time) serving {
	need, settled := s.needs(own, candidate), now.Sub(s.since) >= settleRoots
	switch {
	case s.isNew(candidate):
		s.roots = need
	case !pki.Contains(s.roots, need):
		s.roots, s.since = pki.Bundle(need, s.roots), now
	case s.shows(candidate):
		if settled {
			s.roots = need
		}
	case candidate != nil && (settled || bytes.Equal(s.authority, candidate.authority)):
		s.pair, s.authority, s.since = candidate.pair, candidate.authority, now
	case candidate == nil && (!wanted || expired(s.pair, now)):
		s.pair, s.authority, s.since = pki.Pair{}, nil, now
	}
	return s
}

// needs are the authorities of all that is served, or is about to be.
func (s serving) needs(own []byte, candidate *serving) []byte {
	if candidate == nil {
		return pki.Bundle(own, s.authority)
	}
	return pki.Bundle(own, s.authority, candidate.authority)
}

// isNew reports whether nothing was published yet, and no issuer has a part in what is going to be.
func (s serving) isNew(candidate *serving) bool { return len(s.roots) == 0 && candidate == nil }

// shows reports whether what is served is the candidate, or Fettle's own where there is none.
func (s serving) shows(candidate *serving) bool {
	if candidate == nil {
		return len(s.pair.Certificate) == 0
	}
	return s.same(candidate.pair)
}

func (s serving) same(pair pki.Pair) bool {
	return bytes.Equal(s.pair.Certificate, pair.Certificate) && bytes.Equal(s.pair.Key, pair.Key)
}

// expired reports whether the time of a certificate has passed, or it can't be read.
func expired(pair pki.Pair, now time.Time) bool {
	_, until, err := pki.Validity(pair.Certificate)
	return err != nil || !now.Before(until)
}

// writeTo adds what is published to the contents of the Secret <name>-server.
func (s serving) writeTo(data map[string][]byte) {
	data[keyRoots] = s.roots
	if len(s.pair.Certificate) > 0 {
		data[keyServed], data[keyServedKey], data[keyServedAuthority] = s.pair.Certificate, s.pair.Key, s.authority
	}
}

// annotations of that Secret.
func (s serving) annotations() map[string]string {
	if s.since.IsZero() {
		return nil
	}
	return map[string]string{annotationRootsSince: s.since.UTC().Format(time.RFC3339)}
}
