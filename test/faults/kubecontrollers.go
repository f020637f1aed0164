package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeControllers are the controllers of Kubernetes that F13 and F14 need. The others would write what the harness simulates.
var kubeControllers = []string{"garbage-collector-controller", "namespace-controller", "persistentvolumeclaim-protection-controller"}

// StartControllers runs kubeControllers until stop is called. stop returns an error if they have exited before.
func (s *Stage) StartControllers() (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "fettle-controllers-")
	if err != nil {
		return nil, fmt.Errorf("create the directory of kube-controller-manager: %w", err)
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfig(s.env.Admin), path); err != nil { // only its owner can read it
		return nil, errors.Join(fmt.Errorf("write kubeconfig: %w", err), os.RemoveAll(dir))
	}
	ctx, cancel := context.WithCancel(s.ctx)
	var output bytes.Buffer
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		"--kubeconfig="+path, "--controllers="+strings.Join(kubeControllers, ","), "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=1000", "--concurrent-namespace-syncs=20")
	command.Stderr = &output
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	if err := command.Start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start kube-controller-manager: %w", err), os.RemoveAll(dir))
	}
	var exit error // valid once ended is closed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit = command.Wait()
	}()
	return func() error {
		var early error
		select {
		case <-ended:
			early = fmt.Errorf("kube-controller-manager exited early: %w\n%s", exit, output.String())
		default:
			cancel()
			<-ended
		}
		cancel()
		return errors.Join(early, os.RemoveAll(dir))
	}, nil
}

func kubeconfig(config *rest.Config) clientcmdapi.Config {
	const name = "faults"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return *file
}
