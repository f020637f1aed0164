// Package failover injects faults into the primary of a PostgreSQL on the local cluster. It measures how long clients have no acknowledged
// row, and counts lost rows.
package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/fettle-dev/fettle/api"
	"github.com/fettle-dev/fettle/test/acks"
	"github.com/fettle-dev/fettle/test/figures"
	"github.com/fettle-dev/fettle/test/localcluster"
)

// Options of a measurement.
type Options struct {
	// Runs is how often each row is measured. Rows selects rows, all by default. A row may have its own number, as in kill=25.
	Runs int
	Rows []string
	// Synchronous enables synchronous replication with one standby.
	Synchronous bool
	// Operator is up, zero or both: whether Fettle's operator runs during the measurement.
	Operator string
	// Namespace is created for the measurement, and deleted at the end.
	Namespace string
	// Folder for the results, and for the agents' logs of runs with problems. With Continue the existing results are kept and counted.
	Folder   string
	Continue bool
	// Command repeats the measurement.
	Command string
	// Log gets the progress.
	Log io.Writer
}

// Values of Options.Operator.
const (
	OperatorUp   = "up"
	OperatorZero = "zero"
	operatorBoth = "both"
)

// Validate reports all invalid options.
func (o Options) Validate() error {
	var errs []error
	if o.Runs < 1 || o.Runs > 1000 {
		errs = append(errs, fmt.Errorf("-runs=%d: must be from 1 to 1000", o.Runs))
	}
	if modes := []string{OperatorUp, OperatorZero, operatorBoth}; !slices.Contains(modes, o.Operator) {
		errs = append(errs, fmt.Errorf("-operator=%s: must be one of %v", o.Operator, modes))
	}
	for _, wanted := range o.Rows {
		name, count, counted := strings.Cut(wanted, "=")
		if !slices.Contains(Rows(), name) {
			errs = append(errs, fmt.Errorf("-rows: there is no %q, only %s", name, strings.Join(Rows(), ", ")))
		}
		if n, err := strconv.Atoi(count); counted && (err != nil || n < 1 || n > 1000) {
			errs = append(errs, fmt.Errorf("-rows: %s: must be from 1 to 1000", wanted))
		}
	}
	return errors.Join(errs...)
}

// runs is how often a row is measured; 0 if it is not selected.
func (o Options) runs(row string) int {
	if len(o.Rows) == 0 {
		return o.Runs
	}
	for _, wanted := range o.Rows {
		name, count, counted := strings.Cut(wanted, "=")
		if name != row {
			continue
		}
		if n, err := strconv.Atoi(count); counted && err == nil {
			return n
		}
		return o.Runs
	}
	return 0
}

// cleanupTimeout bounds one cleanup step.
const cleanupTimeout = 2 * time.Minute

// suite is a running measurement.
type suite struct {
	Options
	client    client.WithWatch
	clientset kubernetes.Interface
	local     *localcluster.Cluster
	service   acks.Target
	results   []Result
	// mode is whether the operator runs now.
	mode string
	// cleanups are the steps that revert the changes so far, last first.
	cleanups []step
}

// step reverts one change.
type step struct {
	what string
	do   func(ctx context.Context) error
}

// onCleanup registers a cleanup step, which runs at the end at the latest.
func (s *suite) onCleanup(what string, do func(ctx context.Context) error) {
	s.cleanups = append(s.cleanups, step{what, do})
}

// undo runs the cleanup steps beyond the first n, even if the context has ended.
func (s *suite) undo(ctx context.Context, n int) error {
	var errs []error
	for len(s.cleanups) > n {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		each, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		if err := last.do(each); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", last.what, err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

// Run measures, and writes the record even if it is interrupted. Broken promises about rows are an error, slow times are not.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "fettle-failover-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return err
	}
	s := &suite{Options: o}
	if o.Continue {
		if s.results, err = load(s.file(), figures.Commit()); err != nil {
			return err
		}
	}
	if s.local, err = localcluster.Open(ctx, folder); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.undo(ctx, 0))
		err = errors.Join(err, record(s.results).Write(o.Folder, "postgres"), broken(s.results))
	}()
	return s.measureAll(ctx)
}

// broken is nil if no result breaks a promise about rows.
func broken(results []Result) (all error) {
	for _, r := range results {
		if text := r.Broken(); text != "" {
			all = errors.Join(all, fmt.Errorf("%s %d, operator %s: %s", r.Row, r.Number, r.Operator, text))
		}
	}
	return all
}

func (s *suite) file() string { return filepath.Join(s.Folder, "postgres.jsonl") }

// logf logs a line.
func (s *suite) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Log, time.Now().UTC().Format("15:04:05 ")+format+"\n", args...) // an error of the log is ignored
}

// connect creates the clients.
func (s *suite) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", s.local.Kubeconfig())
	if err != nil {
		return fmt.Errorf("the local cluster is not running (make up): %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme, operatorsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if s.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	s.clientset, err = kubernetes.NewForConfig(config)
	return err
}

// measureAll creates the cluster and measures all rows, with and without the operator.
func (s *suite) measureAll(ctx context.Context) error {
	if err := s.create(ctx); err != nil {
		return err
	}
	for _, mode := range []string{OperatorUp, OperatorZero} {
		if s.Operator != mode && s.Operator != operatorBoth {
			continue
		}
		s.mode = mode
		if mode == OperatorZero {
			if err := s.removeOperator(ctx); err != nil {
				return err
			}
		}
		for _, row := range s.rows() {
			if err := s.repeat(ctx, row); err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
		}
	}
	return nil
}

// rows are the selected rows that are possible now.
func (s *suite) rows() []row {
	return slices.DeleteFunc(slices.Clone(allRows), func(r row) bool {
		return s.runs(r.name) == 0 || r.only != "" && r.only != s.mode || r.asynchronous && s.Synchronous
	})
}

// repeat measures one row.
func (s *suite) repeat(ctx context.Context, r row) error {
	for i := range s.runs(r.name) {
		results, err := s.measureOnce(ctx, r, i)
		if err != nil {
			return err
		}
		for i := range results {
			results[i].Command, results[i].Commit = s.Command, figures.Commit()
		}
		s.results = append(s.results, results...)
		if err := store(s.file(), s.results); err != nil {
			return err
		}
		for _, result := range results {
			s.logf("%s", result)
		}
	}
	return nil
}

// measureOnce measures one run, and reverts its changes.
func (s *suite) measureOnce(ctx context.Context, r row, number int) (results []Result, err error) {
	n := len(s.cleanups)
	defer func() { err = errors.Join(err, s.undo(ctx, n)) }()
	if r.begin {
		return s.measureCreation(ctx, r, number)
	}
	result, err := s.measureRun(ctx, r, number)
	return []Result{result}, err
}
