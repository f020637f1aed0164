package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// SharedVariable is the environment variable with the directory of a shared API server.
const SharedVariable = "FETTLE_TEST_SERVER"

// sharedFile is the file with the connection data of a shared API server.
const sharedFile = "server.json"

type sharedConfig struct {
	AuditLog  string
	Admin     []byte // kubeconfig files
	Operator  []byte
	DataPlane []byte
}

// Share writes the connection data for other test binaries, and returns the value of SharedVariable. The directory contains
// private keys: only its owner can read it, and Stop removes it.
func (e *Env) Share() (string, error) {
	dir, err := os.MkdirTemp("", "fettle-test-server-")
	if err != nil {
		return "", fmt.Errorf("create the directory of the shared API server: %w", err)
	}
	before := e.stop
	e.stop = func() error { return errors.Join(before(), os.RemoveAll(dir)) }
	state := sharedConfig{AuditLog: e.AuditLog}
	for config, to := range map[*rest.Config]*[]byte{e.Admin: &state.Admin, e.Operator: &state.Operator, e.DataPlane: &state.DataPlane} {
		if *to, err = kubeconfig(config); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(state)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, sharedFile), data, 0o600)
}

func join(dir string) (*Env, error) {
	data, err := os.ReadFile(filepath.Join(dir, sharedFile))
	if err != nil {
		return nil, fmt.Errorf("%s=%s has no API server, unset it: %w", SharedVariable, dir, err)
	}
	var state sharedConfig
	if err := json.Unmarshal(data, &state); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, sharedFile), err)
	}
	env := &Env{AuditLog: state.AuditLog}
	for from, to := range map[*[]byte]**rest.Config{&state.Admin: &env.Admin, &state.Operator: &env.Operator, &state.DataPlane: &env.DataPlane} {
		if *to, err = clientcmd.RESTConfigFromKubeConfig(*from); err != nil {
			return nil, fmt.Errorf("read the kubeconfig in %s: %w", dir, err)
		}
	}
	return env, nil
}

func kubeconfig(config *rest.Config) ([]byte, error) {
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	data, err := clientcmd.Write(*file)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return data, nil
}
