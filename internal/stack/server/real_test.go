package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// startTimeout bounds the start of a server.
const startTimeout = time.Minute

// realServer is a server of this machine, with the arguments, files and environment of a pod.
type realServer struct {
	t    *testing.T
	dir  string
	main corev1.Container
	data map[string][]byte
}

func newRealServer(t *testing.T, set *corev1.PodSpec, secret *corev1.Secret) *realServer {
	t.Helper()
	s := &realServer{t: t, dir: testpg.Dir(t), main: set.Containers[0], data: secret.Data}
	for _, v := range set.Volumes {
		if v.Secret != nil {
			for _, item := range v.Secret.Items {
				s.write(item.Path, string(secret.Data[item.Key]))
			}
		}
	}
	return s
}

func (s *realServer) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// command runs as the user of testpg.Credential, with the environment of the container, and its files in the test's directory. values
// replaces values of the Secret.
func (s *realServer) command(arguments []string, values map[string]string) *exec.Cmd {
	s.t.Helper()
	local := make([]string, len(arguments))
	for i, a := range arguments {
		local[i] = strings.ReplaceAll(a, secretPath, s.dir)
	}
	cmd := exec.Command(local[0], local[1:]...) //nolint:gosec,noctx // a database server or client; the test ends it
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "HOME="+s.dir)
	for _, e := range s.main.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = string(s.data[e.ValueFrom.SecretKeyRef.Key])
			if other, ok := values[e.ValueFrom.SecretKeyRef.Key]; ok {
				value = other
			}
		}
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: testpg.Credential(s.t), Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts the server, and waits until the probe succeeds. The thread that starts the server lives as long as the server, because of
// Pdeathsig.
func (s *realServer) start(arguments []string, probe func() error) {
	s.t.Helper()
	log, cmd := &testpg.Log{}, s.command(arguments, nil)
	cmd.Stdout, cmd.Stderr = log, log
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for timeout := time.After(startTimeout); ; {
		err := probe()
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ended:
			s.t.Fatalf("%s ended: %v\n%s", arguments[0], err, log)
		case <-timeout:
			s.t.Fatalf("%s does not start: %v\n%s", arguments[0], err, log)
		}
	}
}

// run runs a probe.
func (s *realServer) run(probe []string, values map[string]string) error {
	s.t.Helper()
	if output, err := s.command(probe, values).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(probe, " "), err, output)
	}
	return nil
}

func (s *realServer) expect(what string, err error, succeeds bool) {
	s.t.Helper()
	if (err == nil) != succeeds {
		s.t.Errorf("%s: %v, want success: %v", what, err, succeeds)
	}
}

// TestCache_real starts a cache as the pod does, and runs its probes.
func TestCache_real(t *testing.T) {
	for _, kind := range []platformv1.CacheType{platformv1.Valkey, platformv1.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			c := &platformv1.Cache{Type: kind, Memory: resource.MustParse("16Mi"), EvictionPolicy: "volatile-lru"}
			if _, err := exec.LookPath(flavorOf(c).server); err != nil {
				t.Skip("needs Debian's package of the server: ", err)
			}
			in := Input{Namespace: "shop", Name: "shop-cache"}
			secret := CacheSecret(in, c, password)
			s := newRealServer(t, apply.Convert[corev1.PodSpec](cachePod(&in, c)), secret)
			port := fmt.Sprint(testpg.Port(t))
			client := func(arguments ...string) []string { return slices.Insert(arguments, 1, "-p", port) }
			ready := client(slices.Clone(s.main.ReadinessProbe.Exec.Command)...)
			s.expect("no server", s.run(ready, nil), false)
			s.start(append(s.main.Args, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir), func() error { return s.run(ready, nil) })
			s.expect("wrong password", s.run(ready, map[string]string{keyPassword: "wrong"}), false)
			s.expect("no password", s.run(ready, map[string]string{keyPassword: ""}), false)
			for setting, want := range map[string]string{
				"maxmemory": "16777216", "maxmemory-policy": "volatile-lru", "save": "", "appendonly": "no",
			} {
				output, err := s.command(client(flavorOf(c).client, "config", "get", setting), nil).CombinedOutput()
				if got := strings.TrimSpace(string(output)); err != nil || got != strings.TrimSpace(setting+"\n"+want) {
					t.Errorf("%s: %q, %v", setting, got, err)
				}
			}
			uri := strings.Replace(string(secret.Data[keyURI]), in.host()+":6379", "127.0.0.1:"+port, 1)
			s.expect("uri", s.run([]string{flavorOf(c).client, "-e", "-u", uri, "set", "a", "b"}, map[string]string{keyPassword: ""}), true)
		})
	}
}

// TestMySQL_real starts MariaDB as the pod does, and runs the probes of both types: Debian's programs have the names of MySQL too.
func TestMySQL_real(t *testing.T) {
	in, m := Input{Namespace: "shop", Name: "shop-db"}, &platformv1.MySQL{Type: platformv1.TypeMariaDB, DatabaseName: "app"}
	secret := MySQLSecret(in, m, password, rootPassword)
	s := newRealServer(t, apply.Convert[corev1.PodSpec](mysqlPod(&in, m)), secret)
	port := fmt.Sprint(testpg.Port(t))
	login := func(with string) {
		s.write(keyClientConf, strings.NewReplacer("port=3306", "port="+port, password, with).Replace(string(secret.Data[keyClientConf])))
	}
	login(password)
	mysql := mysqlPod(&in, &platformv1.MySQL{Type: platformv1.TypeMySQL, DatabaseName: "app"}).Containers[0]
	for name, probe := range map[string][]string{"MariaDB": s.main.StartupProbe.Exec.Command, "MySQL": mysql.StartupProbe.Exec.Command} {
		s.expect(name+" without a server", s.run(probe, nil), false)
	}

	// As the official image initializes the data directory.
	data, socket := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "socket")
	options := []string{"--datadir=" + data, "--socket=" + socket, "--pid-file=" + filepath.Join(s.dir, "pid"), "--innodb-buffer-pool-size=32M"}
	if err := s.run(append([]string{"mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db"}, options[0]), nil); err != nil {
		t.Fatalf("%v (hack/databases.sh installs it)", err)
	}
	init := s.command(append([]string{"/usr/sbin/mariadbd", "--bootstrap"}, options...), nil)
	init.Stdin = strings.NewReader("flush privileges;\ncreate database app;\ncreate user app@'%' identified by '" + password + "';\ngrant all on app.* to app@'%';\n")
	if output, err := init.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}

	arguments := slices.Concat([]string{"/usr/sbin/" + s.main.Args[0]}, s.main.Args[1:], options, []string{"--port=" + port, "--bind-address=127.0.0.1"})
	s.start(arguments, func() error { return s.run(s.main.StartupProbe.Exec.Command, nil) })
	for name, c := range map[string]corev1.Container{"MariaDB": s.main, "MySQL": *apply.Convert[corev1.Container](mysql)} {
		login(password)
		s.expect(name+" ready", s.run(c.ReadinessProbe.Exec.Command, nil), true)
		s.expect(name+" alive", s.run(c.LivenessProbe.Exec.Command, nil), true)
		login("wrong")
		s.expect(name+" ready with a wrong password", s.run(c.ReadinessProbe.Exec.Command, nil), false)
		s.expect(name+" alive with a wrong password", s.run(c.LivenessProbe.Exec.Command, nil), true)
	}
}
