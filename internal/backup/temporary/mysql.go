package temporary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// systemPath are the folders of the programs of servers, which PATH may lack.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// mysqlServer is a process that runs.
type mysqlServer struct {
	process *os.Process
	done    chan struct{}
}

func (m *mysqlServer) exited() <-chan struct{} { return m.done }

// kill needs no orderly end: the data is deleted.
func (m *mysqlServer) kill(context.Context) error {
	err := m.process.Kill()
	<-m.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// startMySQL starts an empty server of MySQL or MariaDB.
func (o Options) startMySQL(ctx context.Context) (database, error) {
	folder := filepath.Dir(MySQLSocket(o.Folder))
	data := filepath.Join(o.Data, "mysql")
	if err := os.RemoveAll(data); err != nil { // of an earlier attempt of the container
		return nil, fmt.Errorf("remove old data: %w", err)
	}
	for _, dir := range []string{folder, data, filepath.Join(data, "data"), filepath.Join(data, "tmp"), filepath.Join(data, "files")} {
		if err := o.makeDir(dir); err != nil {
			return nil, err
		}
	}
	program, install, err := mysqlPrograms(filepath.Join(data, "data"))
	if err != nil {
		return nil, err
	}
	if err := o.program(ctx, data, install[0], install[1:]...).Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: see the log of the container database", filepath.Base(install[0]), err)
	}
	cmd := o.program(ctx, data, program,
		"--no-defaults", "--datadir="+filepath.Join(data, "data"), "--socket="+MySQLSocket(o.Folder), "--pid-file="+filepath.Join(data, "pid"),
		"--tmpdir="+filepath.Join(data, "tmp"), "--skip-networking", "--local-infile=0", "--secure-file-priv="+filepath.Join(data, "files"),
		// Events of the backup do not run.
		"--event-scheduler=OFF", "--loose-mysqlx=0", "--loose-skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
		"--max-allowed-packet=1G")
	return launch(ctx, cmd, MySQLSocket(o.Folder))
}

func (o Options) makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	if c := o.Credential; c != nil {
		return os.Chown(dir, int(c.Uid), int(c.Gid))
	}
	return nil
}

// mysqlPrograms returns the server, and the program with arguments that creates its data. Programs of MariaDB come first: its images have
// both names.
func mysqlPrograms(data string) (program string, install []string, err error) {
	find := func(name string) string {
		for _, dir := range filepath.SplitList(systemPath) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path
			}
		}
		return ""
	}
	maria, installer := find("mariadbd"), find("mariadb-install-db")
	if maria != "" && installer != "" {
		return maria, []string{installer, "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db"}, nil
	}
	if mysqld := find("mysqld"); mysqld != "" {
		return mysqld, []string{mysqld, "--no-defaults", "--initialize-insecure", "--datadir=" + data}, nil
	}
	return "", nil, &Error{backupv1alpha1.ReasonProgramMissing, "the image has no mariadbd and mariadb-install-db, and no mysqld: set pod.image to an official image"}
}

func (o Options) program(ctx context.Context, dir, name string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + systemPath, "HOME=" + dir, "TMPDIR=" + filepath.Join(dir, "tmp"), "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = o.Output, o.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.Credential, Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// mysqlPoll is the time between two attempts to connect.
const mysqlPoll = 100 * time.Millisecond

// launch starts a server, and waits until it listens. The thread that starts it lives as long as it, because of Pdeathsig.
func launch(ctx context.Context, cmd *exec.Cmd, socket string) (database, error) {
	m := &mysqlServer{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(m.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log has the reason
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	m.process = cmd.Process
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			return m, conn.Close()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), m.kill(ctx))
		case <-m.done:
			return nil, fmt.Errorf("%s exited before it accepted connections: see the log of the container database", filepath.Base(cmd.Path))
		case <-time.After(mysqlPoll):
		}
	}
}
