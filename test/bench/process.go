package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a running contender.
type process struct {
	command *exec.Cmd
	log     string
	done    chan struct{}
	err     error // once done is closed
}

// start runs a contender; its output is appended to its own log.
func (b *bench) start(c contender) (*process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{log: filepath.Join(b.options.out, "logs", c.name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has it open too
	p.command = exec.Command(binary, append([]string{contendCommand}, c.arguments...)...)
	p.command.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfigs[c.user])
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop stops the process, and returns an error if it had exited already.
func (p *process) stop() error {
	select {
	case <-p.done:
		return p.failure()
	default:
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		if err := p.command.Process.Kill(); err != nil {
			return err
		}
		<-p.done
	}
	return nil
}

// failure is why the process exited early; call it after done is closed.
func (p *process) failure() error {
	return fmt.Errorf("the contender exited early (log: %s): %w", p.log, cmp.Or(p.err, errors.New("exit code 0")))
}

func (p *process) usage() (usage, error) { return usageOf(p.command.Process.Pid) }
