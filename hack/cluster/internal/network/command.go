package network

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// run executes a command of iproute2 or iptables and returns its standard output. netns is the file of the network namespace
// to run in; empty means the host's. The error includes the standard error.
func run(ctx context.Context, netns, stdin, name string, args ...string) (string, error) {
	full := append([]string{name}, args...)
	if netns != "" {
		full = append([]string{"nsenter", "--net=" + netns, "--"}, full...)
	}
	cmd := exec.CommandContext(ctx, full[0], full[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &stdout, &stderr, strings.NewReader(stdin)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(full, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// batch runs several commands with one `ip -batch`.
func batch(ctx context.Context, netns string, commands []string) error {
	_, err := run(ctx, netns, strings.Join(commands, "\n")+"\n", "ip", "-batch", "-")
	return err
}
