package failover

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

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
