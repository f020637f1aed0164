package webapppolicy

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	for name, tc := range map[string]struct {
		seen observed
		want gitops.Health
	}{
		"enforced":         {observed{served: true, called: true}, gitops.Ready},
		"not enforced":     {observed{called: true}, gitops.Degraded},
		"invalid selector": {observed{served: true, called: true, selectorErr: errors.New("no such operator")}, gitops.Blocked},
	} {
		p := &appsv1.WebAppPolicy{ObjectMeta: metav1.ObjectMeta{Name: "strict", Generation: 2}}
		setStatus(p, tc.seen)
		gitops.Check(t, name, p, tc.want)
		setStatus(p, observed{served: true, called: true})
		gitops.Check(t, "enforced after "+name, p, gitops.Ready)
	}
}
