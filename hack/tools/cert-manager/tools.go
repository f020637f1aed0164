// Command cert-manager runs cert-manager's controllers for Certificates and for CA and self-signed issuers, and its CA injector, in one
// process. cert-manager publishes these packages as a Go module, but not its commands. Issuers with external dependencies, such as ACME,
// and the webhooks, which only validate, are omitted.
//
//	cert-manager KUBECONFIG
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util"
	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cert-manager KUBECONFIG")
		os.Exit(2)
	}
	ctrl.SetLogger(klog.NewKlogr())
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exited := make(chan error)
	running, err := startControllers(ctx, kubeconfig, exited)
	if err != nil {
		return err
	}
	running++
	go func() { exited <- injectCAs(ctx, kubeconfig) }()
	err = <-exited // all exit with the context; an earlier exit is an error
	cancel()
	for range running - 1 {
		<-exited
	}
	return err
}

// startControllers starts all registered controllers and returns their number. Each sends its error to exited when it exits.
func startControllers(ctx context.Context, kubeconfig string, exited chan<- error) (int, error) {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	shared, err := factory.Build()
	if err != nil {
		return 0, fmt.Errorf("build clients: %w", err)
	}
	var controllers []controller.Interface
	for name, build := range controller.Known() {
		c, err := build(factory)
		if err != nil {
			return 0, fmt.Errorf("build controller %s: %w", name, err)
		}
		controllers = append(controllers, c)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	for _, c := range controllers {
		go func() { exited <- c.Run(2, ctx) }()
	}
	return len(controllers), nil
}

// injectCAs injects CA certificates into annotated webhook configurations until ctx is done.
func injectCAs(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, certmanagerv1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config = util.RestConfigWithUserAgent(config, "cainjector") // the user agent is the field manager of its applies
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		// It watches only the metadata of Secrets, so a cache of their content may be older than the event.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return fmt.Errorf("build the CA injector: %w", err)
	}
	if err := cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor:        map[string]bool{cainjector.ValidatingWebhookConfigurationName: true},
	}); err != nil {
		return fmt.Errorf("set up the CA injector: %w", err)
	}
	return manager.Start(ctx)
}
