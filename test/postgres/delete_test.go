package postgres

import (
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDelete_permissionsFirst: the garbage collector may delete the permissions of the agents before their pods. PostgreSQL is shut down,
// and the agent does not wait for the Lease until it is killed.
func TestDelete_permissionsFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	primary := c.waitSettled()
	c.deleted = true
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}
	if err := c.client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	c.eventually("a rejected renewal", timeout, func() bool { return strings.Contains(primary.log.text(), "lease update was rejected") })
	from := len(primary.log.text())
	agent, _ := primary.pids()
	if err := syscall.Kill(agent, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-primary.ended:
	case <-time.After(time.Minute):
		t.Fatalf("the agent does not exit:\n%s", primary.logSince(from))
	}
	if log := primary.logSince(from); !strings.Contains(log, "database system is shut down") {
		t.Errorf("PostgreSQL was not shut down:\n%s", log)
	}
}
