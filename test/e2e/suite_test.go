// Package e2e tests Fettle as users install it: on a cluster, by OLM through a Subscription, with the commands that people use. Run it with
// `make e2e`. The specs share one installation; the last ones remove and restore it.
package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/api"
	"github.com/fettle-dev/fettle/test/specs"
)

// The tested installation; config/subscription creates it.
const (
	operatorNamespace = "fettle-system"
	operatorName      = "fettle-controller-manager"
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":" + operatorName
	subscriptionName  = "fettle"
	leaseName         = "fettle.fettle.dev"
)

const (
	// soon is the timeout of a change without a new pod. It and later are ten times the usual duration, because the machine may be busy.
	soon = 90 * time.Second
	// later is the timeout of a change with a new pod.
	later = 5 * time.Minute
	// poll is the interval of Eventually.
	poll = 500 * time.Millisecond
)

var (
	config      *rest.Config
	k8s         client.Client
	kubectlPath string
	// local is true on the cluster of `make up`: its Services are reachable from here, and its audit log is readable.
	local = os.Getenv("CLUSTER") != "existing"
)

func TestE2E(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Skip("KUBECONFIG is not set: run `make e2e`")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyPollingInterval(poll)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = 60 * time.Minute
	reporter.Verbose = testing.Verbose()
	if folder := os.Getenv("E2E_REPORT_DIR"); folder != "" {
		reporter.JUnitReport = filepath.Join(folder, "e2e.xml")
	}
	specs.Run(t, local, "Fettle on a cluster", suite, reporter)
}

// One container, so the specs run in this order.
var _ = Describe("Fettle", func() {
	JustAfterEach(record, NodeTimeout(3*time.Minute))

	Describe("installed by OLM", olmSpecs)
	Describe("a user's commands", commandSpecs)
	Describe("a failing WebApp", failureSpecs)
	Describe("a rollout", rolloutSpecs)
	Describe("security", securitySpecs)
	Describe("a WebAppPolicy", policySpecs)
	Describe("a VoteConfig", voteSpecs)
	Describe("an AppConfig", configSpecs)
	Describe("a PostgreSQL", postgresSpecs)
	Describe("a Backup", backupSpecs)
	Describe("a shop", shopSpecs)
	Describe("while the operator is down", operatorDownSpecs)
	Describe("metrics", metricsSpecs)
	Describe("the API server's audit log", auditSpecs)
	Describe("removed by OLM", uninstallSpecs)
})

var _ = BeforeSuite(func(ctx SpecContext) {
	tools, err := exec.CommandContext(ctx, "../../hack/tools/bin", "kubernetes").Output()
	Expect(err).NotTo(HaveOccurred(), "cannot build kubectl: see `hack/tools/bin kubernetes`")
	kubectlPath = filepath.Join(strings.TrimSpace(string(tools)), "kubectl")

	config, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred(), "cannot use KUBECONFIG=%s: run `make up`", os.Getenv("KUBECONFIG"))
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, api.AddToScheme, operatorsv1alpha1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	k8s, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred(), "the cluster does not answer: run `make up`")

	subscription := &operatorsv1alpha1.Subscription{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: subscriptionName}, subscription)).To(Succeed(),
		"Fettle is not installed by OLM: run `make olm-install`")
	Eventually(ctx, installedPhase).WithTimeout(later).Should(Equal(operatorsv1alpha1.CSVPhaseSucceeded),
		"OLM has not installed Fettle: run `make olm-install`")
}, NodeTimeout(10*time.Minute))

// installedCSV is the ClusterServiceVersion that the Subscription has installed.
func installedCSV(ctx context.Context) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	subscription := &operatorsv1alpha1.Subscription{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: subscriptionName}, subscription); err != nil {
		return nil, err
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	return csv, k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: subscription.Status.InstalledCSV}, csv)
}

func installedPhase(ctx context.Context) (operatorsv1alpha1.ClusterServiceVersionPhase, error) {
	csv, err := installedCSV(ctx)
	if err != nil {
		return "", err
	}
	return csv.Status.Phase, nil
}
