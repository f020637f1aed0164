package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// effort is what a program and its children needed.
type effort struct {
	seconds, cpu float64
	memory       float64 // MiB, at most, of memory that is not of files
}

func (e effort) String() string {
	return fmt.Sprintf("%5.1f s, CPU %5.1f s, %3.0f MiB", e.seconds, e.cpu, e.memory)
}

// memoryInterval is the time between two looks at the memory.
const memoryInterval = 20 * time.Millisecond

// run runs a program as PostgreSQL's user until it ends and what it wrote below the folders is on disk.
func (b *backupBench) run(command *exec.Cmd, written ...string) (effort, error) {
	syscall.Sync() // what was written before is not its burden
	var output bytes.Buffer
	if command.Stdout == nil {
		command.Stdout = &output
	}
	command.Stderr, command.Dir = &output, b.folder
	b.inGroup(command)
	started := time.Now()
	if err := command.Start(); err != nil {
		return effort{}, err
	}
	// A program of Go shows what it waits for.
	defer time.AfterFunc(b.options.limit, func() { _ = command.Process.Signal(syscall.SIGQUIT) }).Stop()
	ended, peak := make(chan struct{}), make(chan float64)
	go func() {
		most := 0.0
		for {
			select {
			case <-ended:
				peak <- most
				return
			case <-time.After(memoryInterval):
				most = max(most, treeMemory(command.Process.Pid))
			}
		}
	}()
	err := command.Wait()
	close(ended)
	e := effort{cpu: (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds(), memory: <-peak}
	if err != nil {
		return e, fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, output.String())
	}
	for _, dir := range written {
		if err := syncTree(dir); err != nil {
			return e, err
		}
	}
	e.seconds = time.Since(started).Seconds()
	return e, nil
}

// stopTime is how long a program may take to end.
const stopTime = 5 * time.Second

// inGroup makes a program run as PostgreSQL's user, and end together with its children.
func (b *backupBench) inGroup(command *exec.Cmd) {
	command.SysProcAttr, command.WaitDelay = &syscall.SysProcAttr{Credential: b.server.credential, Setpgid: true}, stopTime
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}

// treeMemory is the memory of a process and its descendants in MiB, without that of files, which the kernel can drop.
func treeMemory(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // it has ended
	}
	total := 0.0
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		if key != "RssAnon" && key != "RssShmem" {
			continue
		}
		number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		if kib, err := strconv.ParseFloat(number, 64); err == nil {
			total += kib / 1024
		}
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, thread := range threads {
		children, _ := os.ReadFile(thread) // it may have ended
		for child := range strings.FieldsSeq(string(children)) {
			if number, err := strconv.Atoi(child); err == nil {
				total += treeMemory(number)
			}
		}
	}
	return total
}

// syncTree flushes all files below a folder.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // it is only read
		return f.Sync()
	})
}

// treeSize is the size of all files below a folder in bytes.
func treeSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // a file may just be deleted
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}
