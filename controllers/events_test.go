package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// eventReasons are the type and reason of each event about app.
func eventReasons(ctx context.Context, app *appsv1.WebApp) []string {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(user.List(ctx, list, client.InNamespace(app.Namespace))).To(Succeed())
	var reasons []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Name == app.Name && e.Regarding.Kind == "WebApp" {
			Expect(e.Note).NotTo(BeEmpty())
			reasons = append(reasons, e.Type+" "+e.Reason)
		}
	}
	return reasons
}

// warnings are what the events about objects of a kind warn of, with the object that each is about. The API server has some of its
// own about Services.
func warnings(ctx context.Context, namespace, kind string) []string {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(user.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	var found []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Type == corev1.EventTypeWarning && e.Regarding.Kind == kind {
			found = append(found, fmt.Sprintf("%s %s: %s", e.Regarding.Name, e.Reason, e.Note))
		}
	}
	return found
}
