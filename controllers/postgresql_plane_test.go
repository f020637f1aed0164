package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fettle-dev/fettle/internal/testenv/fakepg"
)

// databases is what runs the instances of one namespace.
type databases = fakepg.Kubelet

func startDatabases(ctx context.Context, namespace string) *databases {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fake, err := fakepg.Start(ctx, env.DataPlane, fakepg.Options{
		Namespace: namespace, Log: func(err error) { fmt.Fprintln(GinkgoWriter, err) },
	})
	DeferCleanup(func() {
		cancel()
		if fake != nil {
			fake.Wait()
		}
	})
	Expect(err).NotTo(HaveOccurred())
	return fake
}
