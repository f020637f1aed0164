package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

const (
	// apiDialTimeout bounds the connection to the API server.
	apiDialTimeout = 2 * time.Second
	// apiTimeout bounds a request that is not about the Lease.
	apiTimeout = 5 * time.Second
)

// kube is the API server. Requests about the Lease have their own connections: over HTTP/1.1 a request that times out closes its
// connection, so the next request never waits for a peer that is gone.
type kube struct {
	lease rest.Interface
	// leaseWatch may hang without harm, because it only saves time.
	leaseWatch rest.Interface
	core       coreclient.CoreV1Interface
	database   rest.Interface
}

func newKube(config *rest.Config) (*kube, error) {
	single, err := httpClient(config)
	if err != nil {
		return nil, err
	}
	others, err := httpClient(config)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	leases, err := coordinationclient.NewForConfigAndClient(config, single)
	watched, errWatched := coordinationclient.NewForConfigAndClient(config, others)
	core, errCore := coreclient.NewForConfigAndClient(config, others)
	database, errDatabase := databaseClient(config, others)
	if err := errors.Join(err, errWatched, errCore, errDatabase); err != nil {
		return nil, fmt.Errorf("clients for the API server: %w", err)
	}
	return &kube{
		lease: leases.RESTClient(), leaseWatch: watched.RESTClient(), core: core, database: database,
	}, nil
}

// databaseClient reads objects of the kind PostgreSQL.
func databaseClient(config *rest.Config, client *http.Client) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := databasev1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme of PostgreSQL: %w", err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &databasev1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	return rest.RESTClientForConfigAndClient(config, client)
}

// watchOne calls seen with each event of one object, until seen returns false, the context ends or the API server closes the
// watch.
func watchOne(ctx context.Context, all *rest.Request, name, version string, seen func(watch.Event) bool) error {
	events, err := all.
		Param("watch", "true").
		Param("fieldSelector", fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()).
		Param("resourceVersion", version).
		Param("timeoutSeconds", "300").
		Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch %s: %w", name, err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if !seen(event) {
			break
		}
	}
	return nil
}

// httpClient has its own transport.
func httpClient(config *rest.Config) (*http.Client, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("TLS to the API server: %w", err)
	}
	if tlsConfig != nil {
		tlsConfig.NextProtos = []string{"http/1.1"}
	}
	dialer := &net.Dialer{Timeout: apiDialTimeout, KeepAlive: 5 * time.Second}
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: apiDialTimeout,
		MaxIdleConns:        4, IdleConnTimeout: time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("credentials for the API server: %w", err)
	}
	return &http.Client{Transport: transport}, nil
}

// PolicyRules are the permissions of the agents of a cluster in its namespace, by name where possible.
// config/admission/agents.yaml bounds further what they may change in a pod.
func PolicyRules(cluster string, instances int) []rbacv1.PolicyRule {
	pods := make([]string, instances)
	for i := range pods {
		pods[i] = agentapi.Pod(cluster, i)
	}
	own := []string{cluster}
	return []rbacv1.PolicyRule{
		{ // the holder creates the Lease again after a deletion
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: own,
			Verbs: []string{"get", "watch", "update", "create"},
		},
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"pods"}, ResourceNames: pods, Verbs: []string{"get", "patch"}},
		{
			APIGroups: []string{databasev1alpha1.GroupVersion.Group}, Resources: []string{"postgresqls"}, ResourceNames: own,
			Verbs: []string{"get", "watch"},
		},
		// RBAC cannot restrict the creation of objects by name.
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create"}},
	}
}
