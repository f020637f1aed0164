package failover

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// lagPause is the time between two reads of the lag, lagAge the maximum age of a report at the time of the fault.
	lagPause, lagAge = 250 * time.Millisecond, 5 * time.Second
	lagMetric        = "fettle_postgresql_standby_flush_lag_bytes"
)

// watchLag reads the lag in the primary's metrics, in asynchronous mode. The returned function stops it, and returns the maximum in the
// seconds before at.
func (s *suite) watchLag(ctx context.Context, p primary) func(at time.Time) int64 {
	if s.Synchronous {
		return func(time.Time) int64 { return 0 }
	}
	type report struct {
		at    time.Time
		bytes int64
	}
	var reports []report
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for sleep(ctx, lagPause) == nil {
			if bytes, err := readLag(ctx, p.pod.Status.PodIP); err == nil {
				reports = append(reports, report{time.Now(), bytes})
			}
		}
	})
	return func(at time.Time) (most int64) {
		cancel()
		group.Wait()
		for _, r := range reports {
			if age := at.Sub(r.at); age >= 0 && age <= lagAge {
				most = max(most, r.bytes)
			}
		}
		return most
	}
}

// readLag reads an agent's metrics; the result is the lag of the slowest standby.
func readLag(ctx context.Context, ip string) (most int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ip+":9187/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), lagMetric+"{") {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", lagMetric, err)
		}
		most = max(most, int64(value))
	}
	return most, nil
}

// follow writes the agents' logs into a folder. The returned function stops it, and removes the logs unless keep is true.
func (s *suite) follow(ctx context.Context, folder string) func(ctx context.Context, keep bool) {
	folder = filepath.Join(s.Folder, "postgres-logs", folder)
	if err := os.RemoveAll(folder); err != nil {
		s.logf("logs: %s", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		s.logf("logs: %s", err)
	}
	begun := time.Now()
	following, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for i := range instances {
		group.Go(func() {
			pod := fmt.Sprintf("%s-%d", name, i)
			s.copyLog(following, pod, filepath.Join(folder, pod+".log"), &corev1.PodLogOptions{Follow: true, SinceSeconds: new(int64(1))})
		})
	}
	return func(ctx context.Context, keep bool) {
		cancel()
		group.Wait()
		if !keep {
			_ = os.RemoveAll(folder) // it only takes space
			return
		}
		for i := range instances { // a pod or container may have been replaced
			pod := fmt.Sprintf("%s-%d", name, i)
			s.copyLog(ctx, pod, filepath.Join(folder, pod+"-now.log"), &corev1.PodLogOptions{SinceSeconds: new(int64(time.Since(begun).Seconds() + 1))})
		}
	}
}

func (s *suite) copyLog(ctx context.Context, pod, file string, options *corev1.PodLogOptions) {
	options.Container = "postgres"
	out, err := os.Create(file)
	if err != nil {
		s.logf("logs: %s", err)
		return
	}
	defer out.Close() //nolint:errcheck // the end of a truncated log shows it
	in, err := s.clientset.CoreV1().Pods(s.Namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		return
	}
	defer in.Close() //nolint:errcheck // only read
	if _, err := io.Copy(out, in); err != nil {
		_, _ = fmt.Fprintln(out, err)
	}
}
