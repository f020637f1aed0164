package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/runner"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
)

// backupMemory makes the garbage collector keep the pod at about 100 MiB, whatever the size of the database. It is not a hard limit, in
// bytes.
const backupMemory = 64 << 20

// backupCommand backs up or restores databases: it is the process of the pod of a BackupRun or Restore.
func backupCommand() *cobra.Command {
	temp := ""
	c := &cobra.Command{
		Use:   "backup",
		Short: "Back up or restore databases, in the pod of a BackupRun or Restore",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			debug.SetMemoryLimit(backupMemory)
			log := agent.NewLogger(c.ErrOrStderr(), slog.LevelInfo)
			config, err := job.Decode(os.Getenv(job.EnvConfig))
			if err != nil {
				return &exitError{job.ExitRefused, err}
			}
			cluster, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find a cluster (KUBECONFIG or the pod's ServiceAccount): %w", err)
			}
			report, err := newStatusReporter(cluster, config)
			if err != nil {
				return err
			}
			err = runner.Run(c.Context(), config, runner.Options{Report: report, Log: log, Temp: temp})
			if failure, ok := errors.AsType[*runner.Error](err); ok && failure.Permanent {
				return &exitError{job.ExitRefused, err}
			}
			return err
		},
	}
	c.AddCommand(temporaryServerCommand(), temporaryFetchCommand())
	c.Flags().StringVar(&temp, "temp-dir", "/tmp", "folder in memory for the files with passwords that programs read")
	return c
}

// statusReporter writes the status of a BackupRun or Restore by patches that leave the fields of the operator alone.
type statusReporter struct {
	client                    rest.Interface
	resource, namespace, name string
}

func newStatusReporter(cluster *rest.Config, c *job.Config) (*statusReporter, error) {
	config := rest.CopyConfig(cluster)
	config.APIPath, config.GroupVersion = "/apis", &backupv1alpha1.GroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	resource := "restores"
	if c.Backup != nil {
		resource = "backupruns"
	}
	return &statusReporter{client: client, resource: resource, namespace: c.Namespace, name: c.Object}, nil
}

// patch sets a field as a whole. A merge patch would leave what an earlier attempt wrote into fields that are now empty.
func (r *statusReporter) patch(ctx context.Context, field string, value any) error {
	body, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status/" + field, "value": value}})
	if err != nil {
		return fmt.Errorf("encode status.%s: %w", field, err)
	}
	err = r.client.Patch(types.JSONPatchType).Namespace(r.namespace).Resource(r.resource).Name(r.name).SubResource("status").Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("patch status.%s of %s %s: %w", field, r.resource, r.name, err)
	}
	return nil
}

// Progress sets status.progress.
func (r *statusReporter) Progress(ctx context.Context, p backupv1alpha1.Progress) error {
	return r.patch(ctx, "progress", p)
}

// resultBackoff retries the report of a result for about two minutes: without it, the whole run would be repeated.
var resultBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 7, Cap: 32 * time.Second}

// Result sets status.result.
func (r *statusReporter) Result(ctx context.Context, result backupv1alpha1.RunResult) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, resultBackoff, func(ctx context.Context) (bool, error) {
		last = r.patch(ctx, "result", result)
		if apierrors.IsNotFound(last) || apierrors.IsForbidden(last) || apierrors.IsInvalid(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	return errors.Join(err, last)
}
