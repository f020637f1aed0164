package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/fettle-dev/fettle/internal/testenv"
)

// Stage is shared by the plans of all scenarios, which run side by side.
type Stage struct {
	ctx       context.Context // of the watches
	env       *testenv.Env
	slots     chan struct{} // one for each concurrent plan
	mapper    meta.RESTMapper
	observer  dynamic.Interface
	history   *history
	dataPlane *testenv.DataPlane
}

// fixture is shared by the plans of a scenario.
type fixture struct {
	*Stage
	scenario *Scenario
	options  Options
}

// NewStage watches and simulates the data plane until ctx ends. At most that many plans run at the same time.
func NewStage(ctx context.Context, env *testenv.Env, concurrent int) (*Stage, error) {
	observer, err := dynamic.NewForConfig(as(env.Admin, "faults-judge"))
	if err != nil {
		return nil, fmt.Errorf("client of the observer: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(env.Admin)
	if err != nil {
		return nil, fmt.Errorf("client for discovery: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(env.Admin, httpClient)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	dataPlane, err := env.StartDataPlane(ctx)
	if err != nil {
		return nil, err
	}
	history := &history{client: observer, watched: map[schema.GroupVersionResource]bool{}, namespaces: map[string]*namespaceLog{}}
	return &Stage{ctx, env, make(chan struct{}, concurrent), mapper, observer, history, dataPlane}, nil
}

// as sets the user agent of a configuration, from which the API server takes the name of the field manager.
func as(config *rest.Config, agent string) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = agent
	return config
}

// user is the transport of a plan's user: it records the created objects and the versions to wait for.
type user struct {
	next http.RoundTripper

	mu    sync.Mutex
	made  map[Key]bool
	wrote map[Key]string // resourceVersion
	rvs   map[string]int // writes by the resulting version
}

func (u *user) RoundTrip(request *http.Request) (*http.Response, error) {
	record, err := describe(request)
	if err != nil {
		return nil, err
	}
	response, err := u.next.RoundTrip(request)
	if err != nil || !record.Write || response.StatusCode >= 400 {
		return response, err
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	u.mu.Lock()
	defer u.mu.Unlock()
	key := Key{record.Resource, record.Name}
	if request.Method == http.MethodDelete { // the step itself checks the deletion
		delete(u.made, key)
		delete(u.wrote, key)
		return response, nil
	}
	if response.StatusCode == http.StatusCreated {
		u.made[key] = true
	}
	if _, version := identity(data); version != "" {
		u.wrote[key] = version
		u.rvs[version]++
	}
	return response, nil
}

// seen reports whether a view shows all writes of the user to the kinds that the history watches.
func (u *user) seen(v View, follows func(Key) bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, version := range u.wrote {
		if follows(key) && !v.reached(key, version) && v.objects[key] != nil {
			return false
		}
		if follows(key) && u.made[key] && v.objects[key] == nil {
			return false
		}
	}
	return true
}

// created reports whether the user created an object.
func (u *user) created(key Key) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.made[key]
}

func (s *fixture) newUser(namespace string) (*user, *Client, error) {
	u := &user{made: map[Key]bool{}, wrote: map[Key]string{}, rvs: map[string]int{}}
	config := as(s.env.Admin, agentUser)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		u.next = next
		return u
	})
	// JSON, so that the answers can be read
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	c, err := client.New(config, client.Options{Scheme: s.scenario.Scheme, Mapper: s.mapper})
	if err != nil {
		return nil, nil, fmt.Errorf("client of the user: %w", err)
	}
	return u, &Client{Client: client.NewNamespacedClient(c, namespace), Namespace: namespace, DataPlane: s.dataPlane}, nil
}

// clean deletes the objects of a plan, so thousands of plans fit into one etcd.
func (s *fixture) clean(namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, resource := range s.scenario.resources() {
		// An object that cannot be deleted stays in a namespace that is no longer used.
		_ = s.observer.Resource(resource).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{})
	}
	_ = s.env.DropNamespace(ctx, namespace) // likewise
	s.history.close(namespace)
}
