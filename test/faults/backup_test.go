package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/controllers"
	"github.com/fettle-dev/fettle/internal/backup/schedule"
)

const (
	bkpName = "shop"

	mysqlServer = `{type: mysql, connection: {host: db.example.com, database: shop, username: backup}}`
	daily       = `{source: ` + mysqlServer + `, destination: {uri: "s3://backups"}, schedule: "0 %[1]d * * *", verify: {schedule: "0 %[1]d * * *"}, timeoutSeconds: 604800}`
	suspended   = `{source: ` + mysqlServer + `, destination: {uri: "s3://backups"}, suspend: true, timeoutSeconds: 604800}`
	fromBackup  = `{from: {backup: shop}, to: {server: ` + mysqlServer + `}, timeoutSeconds: 604800}`
)

var (
	bkpBackups  = backupv1alpha1.GroupVersion.WithResource("backups")
	bkpRuns     = backupv1alpha1.GroupVersion.WithResource("backupruns")
	bkpRestores = backupv1alpha1.GroupVersion.WithResource("restores")
	bkpJobs     = batchv1.SchemeGroupVersion.WithResource("jobs")
	bkpChildren = []schema.GroupVersionResource{
		bkpBackups, bkpRuns, bkpRestores, bkpJobs, corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		rbacv1.SchemeGroupVersion.WithResource("roles"), rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
	}
)

// backupScenarios are a run of a schedule and its verification, two runs by hand of which the first one fails, and a restore. They have one clock, which stands
// just after a slot: so the name of the run of this slot is the same in all plans.
func backupScenarios(t *testing.T) []Scenario {
	slot := time.Now().UTC().Truncate(time.Hour).Add(2 * time.Hour) // a verification has 6 hours
	scheduled := schedule.RunName(bkpName, slot)
	verification := "verify-" + scheduled
	return scenariosOf(map[string][]Step{
		"schedule": {
			{Name: "create", Do: creates(&backupv1alpha1.Backup{}, bkpName, fmt.Sprintf(daily, slot.Hour())), Converged: all(phaseIs(bkpRuns, scheduled, "Running"), activeIs(scheduled))},
			{Name: "its run succeeds", Do: ends(&backupv1alpha1.BackupRun{}, scheduled, scheduled, ""),
				Converged: all(phaseIs(bkpRuns, scheduled, "Succeeded"), activeIs(""), Ready(bkpBackups, bkpName), phaseIs(bkpRestores, verification, "Running"))},
			{Name: "its verification succeeds", Do: ends(&backupv1alpha1.Restore{}, verification, "restore-"+verification, ""),
				Converged: all(phaseIs(bkpRestores, verification, "Succeeded"), verifiedIs(scheduled))},
		},
		"by-hand": {
			{Name: "create, and two runs", Do: createsTwoRuns, Converged: all(phaseIs(bkpRuns, "a", "Running"), phaseIs(bkpRuns, "b", "Pending"), activeIs("a"))},
			{Name: "one fails", Do: ends(&backupv1alpha1.BackupRun{}, "a", "a", backupv1alpha1.ReasonDumpFailed),
				Converged: all(phaseIs(bkpRuns, "a", "Failed"), phaseIs(bkpRuns, "b", "Running"), activeIs("b"))},
			{Name: "the other succeeds", Do: ends(&backupv1alpha1.BackupRun{}, "b", "b", ""),
				Converged: all(phaseIs(bkpRuns, "b", "Succeeded"), activeIs(""), Ready(bkpBackups, bkpName))},
		},
		"restore": {
			{Name: "create before its Backup", Do: creates(&backupv1alpha1.Restore{}, "back", fromBackup), Converged: phaseIs(bkpRestores, "back", "Pending")},
			{Name: "create the Backup", Do: creates(&backupv1alpha1.Backup{}, bkpName, suspended), Converged: all(phaseIs(bkpRestores, "back", "Running"), activeIs(""))},
			{Name: "it succeeds", Do: ends(&backupv1alpha1.Restore{}, "back", "restore-back", ""), Converged: phaseIs(bkpRestores, "back", "Succeeded")},
		},
	}, func(name string, steps []Step) Scenario {
		scenario := webScenario(t, "backup-"+name, steps)
		scenario.Primary, scenario.Children = bkpBackups, bkpChildren[1:]
		if name == "restore" {
			scenario.Primary, scenario.Children = bkpRestores, append([]schema.GroupVersionResource{bkpBackups, bkpRuns}, bkpChildren[3:]...)
		}
		scenario.Deletion = &Deletion{Object: map[string]Key{
			"schedule": {bkpBackups, bkpName}, "by-hand": {bkpRuns, "a"}, "restore": {bkpRestores, "back"},
		}[name]}
		if name == "restore" {
			scenario.Deletion.Step = 1
		}
		scenario.Rules = backupRules()
		scenario.Setup = func(mgr manager.Manager, namespace string) error {
			return controllers.Setup(mgr, controllers.Options{
				Namespaces: []string{namespace}, Workers: 5, WatchSecrets: true, AgentImage: "fettle:1", OperatorNamespace: metav1.NamespaceDefault,
				Clock: clocktesting.NewFakePassiveClock(slot.Add(time.Minute)),
			})
		}
		return scenario
	})
}

func backupRules() Rules {
	return Rules{
		Rotation: 4,
		// What a run needed is left alone when the run has ended, and a deleted run or Job is not started again.
		Impossible: func(p Plan) bool { return p.Kind == Deleted || p.Kind == Changed },
		Normalize: func(_ Kind, o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "status", "lastDurationSeconds")
		},
		InvalidChange: func(before, after *unstructured.Unstructured) error {
			was, is := phaseOf(before), phaseOf(after)
			if before.GetKind() != "Backup" && (was == "Succeeded" || was == "Failed") && is != was {
				return fmt.Errorf("phase went from %s to %s", was, is)
			}
			return nil
		},
		History: oneJobAtATime,
	}
}

// oneJobAtATime returns an error if two Jobs were active at the same time.
func oneJobAtATime(events []event) error {
	active := map[string]bool{}
	for _, e := range events {
		if e.Key.Resource != bkpJobs {
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(e.Object.Object, "status", "conditions")
		active[e.Key.Name] = e.Type != watch.Deleted && len(conditions) == 0
		running := 0
		for _, is := range active {
			if is {
				running++
			}
		}
		if running > 1 {
			return fmt.Errorf("Job %s started while another one was active", e.Key.Name)
		}
	}
	return nil
}

// creates creates an object of a kind with a spec.
func creates(kind client.Object, name, spec string) func(context.Context, *Client) error {
	return func(ctx context.Context, w *Client) error {
		object := kind.DeepCopyObject().(client.Object)
		if err := yaml.UnmarshalStrict([]byte("spec: "+spec), object); err != nil {
			return fmt.Errorf("spec of the scenario: %w", err)
		}
		object.SetName(name)
		object.SetNamespace(w.Namespace)
		return w.Create(ctx, object)
	}
}

func createsTwoRuns(ctx context.Context, w *Client) error {
	err := creates(&backupv1alpha1.Backup{}, bkpName, suspended)(ctx, w)
	for _, name := range []string{"a", "b"} {
		err = errors.Join(err, creates(&backupv1alpha1.BackupRun{}, name, "{backup: shop}")(ctx, w))
	}
	return err
}

// ends is the end of a run's pod, which reports a reason, success if it is empty, and of its Job.
func ends(kind client.Object, run, job, reason string) func(context.Context, *Client) error {
	return func(ctx context.Context, w *Client) error {
		object := kind.DeepCopyObject().(client.Object)
		object.SetName(run)
		object.SetNamespace(w.Namespace)
		reported, condition := reason, batchv1.JobFailed
		if reason == "" {
			reported, condition = backupv1alpha1.ReasonSucceeded, batchv1.JobComplete
		}
		report := fmt.Appendf(nil, `{"status":{"result":{"reason":%q,"message":"from the pod","storedBytes":7,"location":"s3://backups/x"}}}`, reported)
		if err := w.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, report)); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		return endJob(ctx, w, job, condition)
	}
}

// endJob is the controller of Jobs.
func endJob(ctx context.Context, w *Client, name string, condition batchv1.JobConditionType) error {
	job := &batchv1.Job{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, job); err != nil {
		return fmt.Errorf("end of Job: %w", err)
	}
	before, now := job.DeepCopy(), metav1.Now()
	job.Status.StartTime, job.Status.UncountedTerminatedPods = &now, &batchv1.UncountedTerminatedPods{}
	first, why := batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded
	if condition == batchv1.JobComplete {
		first, why = batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
	} else {
		job.Status.Failed = 1
	}
	for _, each := range []batchv1.JobConditionType{first, condition} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: each, Status: corev1.ConditionTrue, Reason: why, LastProbeTime: now, LastTransitionTime: now,
		})
	}
	return w.Status().Patch(ctx, job, client.MergeFrom(before))
}

func phaseOf(object *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return phase
}

func phaseIs(resource schema.GroupVersionResource, name, want string) func(View) error {
	return func(v View) error {
		object := v.Get(resource, name)
		if object == nil {
			return fmt.Errorf("%s %s does not exist", resource.Resource, name)
		}
		if is := phaseOf(object); is != want {
			return fmt.Errorf("%s %s is %q, not yet %s", resource.Resource, name, is, want)
		}
		return nil
	}
}

// activeIs requires that the Backup names an active run, or none.
func activeIs(want string) func(View) error {
	return func(v View) error {
		object := v.Get(bkpBackups, bkpName)
		if object == nil {
			return errors.New("the Backup does not exist")
		}
		is, _, _ := unstructured.NestedString(object.Object, "status", "activeRun")
		observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		if is != want || observed != object.GetGeneration() {
			return fmt.Errorf("the active run is %q, not yet %q", is, want)
		}
		return nil
	}
}

// verifiedIs requires that the Backup names the run that was verified last.
func verifiedIs(want string) func(View) error {
	return func(v View) error {
		object := v.Get(bkpBackups, bkpName)
		if object == nil {
			return errors.New("the Backup does not exist")
		}
		if is, _, _ := unstructured.NestedString(object.Object, "status", "lastVerifiedRun"); is != want {
			return fmt.Errorf("the last verified run is %q, not yet %q", is, want)
		}
		return nil
	}
}

func all(each ...func(View) error) func(View) error {
	return func(v View) error {
		for _, f := range each {
			if err := f(v); err != nil {
				return err
			}
		}
		return nil
	}
}
