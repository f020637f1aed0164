package store

import (
	"maps"
	"time"
)

// Impatient shortens the pauses between retries.
func Impatient() Option {
	return func(o *options) {
		o.retries = retries{attempts: 3, first: 10 * time.Millisecond, long: 100 * time.Millisecond, total: 300 * time.Millisecond}
	}
}

// Route has connections to an address, such as login.example.com:443, go to another one.
func Route(address, to string) Option {
	return func(o *options) {
		o.routes = maps.Clone(o.routes)
		if o.routes == nil {
			o.routes = map[string]string{}
		}
		o.routes[address] = to
	}
}

// Silence is how long a connection may move no byte.
func Silence(d time.Duration) Option { return func(o *options) { o.silence = d } }
