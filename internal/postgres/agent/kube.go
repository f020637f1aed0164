package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
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
	backup     rest.Interface
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
	database, errDatabase := objectClient(config, others, databasev1alpha1.GroupVersion, databasev1alpha1.AddToScheme)
	backup, errBackup := objectClient(config, others, backupv1alpha1.GroupVersion, backupv1alpha1.AddToScheme)
	if err := errors.Join(err, errWatched, errCore, errDatabase, errBackup); err != nil {
		return nil, fmt.Errorf("clients for the API server: %w", err)
	}
	return &kube{
		lease: leases.RESTClient(), leaseWatch: watched.RESTClient(), core: core, database: database, backup: backup,
	}, nil
}

// objectClient reads objects of one of Fettle's API groups.
func objectClient(config *rest.Config, client *http.Client, group schema.GroupVersion, register func(*runtime.Scheme) error) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := register(scheme); err != nil {
		return nil, fmt.Errorf("scheme of %s: %w", group, err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &group
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
// config/admission/agents.yaml bounds further what they may change in a pod. secrets are those with the keys of the object store.
func PolicyRules(cluster string, instances int, secrets ...string) []rbacv1.PolicyRule {
	pods := make([]string, instances)
	for i := range pods {
		pods[i] = agentapi.Pod(cluster, i)
	}
	own := []string{cluster}
	rules := []rbacv1.PolicyRule{
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
	if len(secrets) > 0 {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: secrets, Verbs: []string{"get"},
		})
	}
	return rules
}

// RecoveryRules are the further permissions of the agents of a cluster that restores a backup: to read the Backup, if the spec names
// one, and the Secrets of its destination. The destination is nil while it is unknown.
func RecoveryRules(backup string, from *backupv1alpha1.Destination) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	if backup != "" {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{backupv1alpha1.GroupVersion.Group}, Resources: []string{"backups"}, ResourceNames: []string{backup}, Verbs: []string{"get"},
		})
	}
	if from == nil {
		return rules
	}
	var names []string
	if ref := from.CredentialsSecretRef; ref != nil {
		names = append(names, ref.Name)
	}
	if ref := from.CASecretRef; ref != nil && !slices.Contains(names, ref.Name) {
		names = append(names, ref.Name)
	}
	if len(names) > 0 {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get"},
		})
	}
	return rules
}
