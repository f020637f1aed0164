package apply

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// requests records the manager's requests to the API server, except watches and their first lists.
type requests struct {
	mu  sync.Mutex
	all []request
}

type request struct {
	verb string
	path string
	code int
}

func (r request) String() string {
	return r.verb + " " + r.path
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (rs *requests) transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		made := request{verb: r.Method, path: r.URL.Path}
		if answer != nil {
			made.code = answer.StatusCode
		}
		rs.mu.Lock()
		defer rs.mu.Unlock()
		rs.all = append(rs.all, made)
		return answer, err
	})
}

// in returns the requests for the objects of one namespace.
func (rs *requests) in(namespace string) []request {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(rs.all), func(r request) bool {
		return !strings.Contains(r.path, "/namespaces/"+namespace+"/")
	})
}
