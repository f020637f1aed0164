package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fettle-dev/fettle/internal/testenv"
	"github.com/fettle-dev/fettle/test/audit"
)

// Users of the contenders: ordinary ServiceAccounts, which the API server's priority and fairness limits.
const (
	fettleUser     = testenv.OperatorUser
	benchNamespace = "fettle-bench"
	naiveUser      = "system:serviceaccount:" + benchNamespace + ":naive"
	rawUser        = "system:serviceaccount:" + benchNamespace + ":raw"
)

// bench is an API server with the fixtures to compare contenders on it.
type bench struct {
	options     options
	env         *testenv.Env
	admin       client.WithWatch
	audit       *audit.Recorder
	folder      string
	kubeconfigs map[string]string  // by user
	written     string             // the children of a WebApp, as the first contender wrote them
	version     string             // of the API server
	cancel      context.CancelFunc // of the fake Deployment controller
}

func newBench(ctx context.Context, o options) (*bench, error) {
	if os.Getenv(testenv.SharedVariable) != "" {
		return nil, fmt.Errorf("%s is set: a benchmark needs its own API server, with fsync", testenv.SharedVariable)
	}
	var control *envtest.Environment
	env, err := testenv.Start(testenv.Options{Configure: func(e *envtest.Environment) { control = e }})
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, env: env, kubeconfigs: map[string]string{}}
	if err := b.prepare(ctx, control); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func (b *bench) prepare(ctx context.Context, control *envtest.Environment) (err error) {
	if b.folder, err = os.MkdirTemp("", "fettle-bench-"); err != nil {
		return err
	}
	discover, err := discovery.NewDiscoveryClientForConfig(b.env.Admin)
	if err != nil {
		return err
	}
	server, err := discover.ServerVersion()
	if err != nil {
		return fmt.Errorf("version of the API server: %w", err)
	}
	b.version = server.GitVersion
	if b.admin, err = client.NewWithWatch(b.env.Admin, client.Options{Scheme: scheme()}); err != nil {
		return err
	}
	// Fettle requires a Deployment controller that has seen the Deployment before a WebApp is Ready.
	ctx, b.cancel = context.WithCancel(ctx)
	if _, err = b.env.StartDataPlane(ctx); err != nil {
		return err
	}
	if b.audit, err = audit.New(b.env.AuditLog, b.env.Admin); err != nil {
		return err
	}
	if err := b.writeKubeconfig(fettleUser, b.env.Operator); err != nil {
		return err
	}
	for _, user := range []string{naiveUser, rawUser} {
		made, err := control.AddUser(envtest.User{Name: user, Groups: []string{
			"system:serviceaccounts", "system:serviceaccounts:" + benchNamespace,
		}}, nil)
		if err != nil {
			return fmt.Errorf("create user %s: %w", user, err)
		}
		if err := b.writeKubeconfig(user, made.Config()); err != nil {
			return err
		}
	}
	return b.grant(ctx)
}

func (b *bench) writeKubeconfig(user string, config *rest.Config) error {
	file := clientcmdapi.NewConfig()
	file.Clusters["bench"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	file.CurrentContext = "bench"
	b.kubeconfigs[user] = filepath.Join(b.folder, fmt.Sprintf("kubeconfig-%d", len(b.kubeconfigs)))
	if err := clientcmd.WriteToFile(*file, b.kubeconfigs[user]); err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return nil
}

// grant grants permissions to the contenders except Fettle.
func (b *bench) grant(ctx context.Context) error {
	verbs := []string{"get", "list", "watch", "create", "update", "patch"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: benchNamespace},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"apps.fettle.dev"}, Resources: []string{"webapps", "webapps/status"}, Verbs: verbs},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: verbs},
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: verbs},
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: benchNamespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: naiveUser},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: rawUser},
		},
	}
	return errors.Join(b.admin.Create(ctx, role), b.admin.Create(ctx, binding))
}

func (b *bench) stop() {
	if b.cancel != nil {
		b.cancel()
	}
	if err := errors.Join(b.env.Stop(), os.RemoveAll(b.folder)); err != nil {
		fmt.Fprintln(os.Stderr, "bench: stop:", err)
	}
}
