package webapp

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// TestServiceExists: the first status tells the URL of a Service that the cache does not show yet, and never that of another one's Service.
func TestServiceExists(t *testing.T) {
	app := &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "1"}}
	own, foreign := &corev1.Service{}, &corev1.Service{}
	own.OwnerReferences = []metav1.OwnerReference{{UID: app.UID, Controller: new(true)}}
	for name, c := range map[string]struct {
		service        *corev1.Service
		found, current bool
		want           bool
	}{
		"just written":      {&corev1.Service{}, false, false, true},
		"there":             {own, true, true, true},
		"another one's":     {foreign, true, true, false},
		"not written":       {&corev1.Service{}, false, true, false},
		"written once more": {own, true, false, true},
	} {
		if got := serviceExists(app, c.service, c.found, c.current); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
