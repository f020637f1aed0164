package postgresql

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// TestWhatIsSaidOfTheSource holds that a copy which can't be made is told by Ready, with a reason of its own; one that is under way
// is no trouble, however long it takes.
func TestWhatIsSaidOfTheSource(t *testing.T) {
	for _, c := range []struct {
		status  agentapi.Status
		reason  string
		message string
		phase   databasev1alpha1.PostgreSQLPhase
		state   databasev1alpha1.InstanceState
	}{
		{agentapi.Status{Reason: "SourceRejected", Message: "a:5432 refuses the password"}, "SourceRejected", "pg-0 is not ready: a:5432 refuses the password",
			databasev1alpha1.PhaseFailed, databasev1alpha1.InstanceFailed},
		{agentapi.Status{Reason: "Copying", Message: "copies the data of a:5432"}, "Copying", "pg-0 copies the data of a:5432",
			databasev1alpha1.PhaseCreating, databasev1alpha1.InstanceStarting},
		{agentapi.Status{Message: "waits for initdb"}, "InstanceNotReady", "pg-0 is not ready: waits for initdb",
			databasev1alpha1.PhaseFailed, databasev1alpha1.InstanceStarting},
	} {
		seen := &observed{at: time.Now(), cluster: *picture(2, "N N")}
		seen.cluster.instances[0].status = &c.status
		pg := wanting(2)
		pg.CreationTimestamp = metav1.NewTime(seen.at.Add(-time.Hour))
		setStatus(pg, seen)
		for _, condition := range pg.Status.Conditions {
			if condition.Type == databasev1alpha1.PostgreSQLPrimaryReady && (condition.Reason != c.reason || condition.Message != c.message) {
				t.Errorf("%s: %s: %s", c.reason, condition.Reason, condition.Message)
			}
		}
		if pg.Status.Phase != c.phase || pg.Status.InstanceStatuses[0].State != c.state || pg.Status.InstanceStatuses[0].Message != c.status.Message {
			t.Errorf("%s: phase %s, instance %+v", c.reason, pg.Status.Phase, pg.Status.InstanceStatuses[0])
		}
	}
}
