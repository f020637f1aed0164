package controllers_test

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fettle-dev/fettle/internal/testenv/fakepg"
)

// stopTimeout is how long the fake kubelet may take to stop.
const stopTimeout = 30 * time.Second

// stopped waits until the fake has stopped. One that hangs does not fail the spec, which is over: the report names what it waits for.
func stopped(fake *databases) {
	done := make(chan struct{})
	go func() {
		fake.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(stopTimeout):
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a strings.Builder returns no errors
		AddReportEntry("the fake kubelet has not stopped", stacks.String())
	}
}

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
			stopped(fake)
		}
	})
	Expect(err).NotTo(HaveOccurred())
	return fake
}
