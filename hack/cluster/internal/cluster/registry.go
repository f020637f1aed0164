package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// registryFile holds the template values of the registry's configuration.
type registryFile struct {
	Dir, Address, Cert, Key string
}

// startRegistry starts the image registry, which serves a directory over TLS.
func (u *upRun) startRegistry(ctx context.Context, report reporter) (string, error) {
	if err := u.renderMirrors(); err != nil {
		return "", err
	}
	file := u.Path("conf", "registry.yaml")
	config, err := renderTo(file, "registry.yaml", registryFile{
		Dir: u.Path("registry"), Address: registryAddr, Cert: u.certs.registry.Cert, Key: u.certs.registry.Key,
	})
	if err != nil {
		return "", err
	}
	report("the registry")
	spec := process.Spec{Name: "registry", Path: "docker-registry", Version: config, Args: []string{"serve", file}}
	started, err := ensure(ctx, u.super, spec, httpProbe("https://"+registryAddr+"/v2/"), 3*time.Minute)
	return startState(started), err
}

// clusterImages builds the images that the cluster needs and pushes them to the registry.
func (u *upRun) clusterImages(ctx context.Context, report reporter) (string, error) {
	return u.pushImages(ctx, report, "cluster")
}

// otherImages builds and pushes all other stand-in images: databases and so on.
func (u *upRun) otherImages(ctx context.Context, report reporter) (string, error) {
	if u.clusterImagesOnly {
		return "skipped", nil
	}
	return u.pushImages(ctx, report, "all")
}

// pushImages builds stand-in images and pushes them. Layers in the cache are not rebuilt.
func (u *upRun) pushImages(ctx context.Context, report reporter, which string) (string, error) {
	hack, err := findHackDir()
	if err != nil {
		return "", err
	}
	env := []string{"FETTLE_CACHE=" + u.Cache, "FETTLE_CLUSTER=" + u.State, "CLUSTER=local", "REGISTRY=" + registryAddr}
	script := filepath.Join(hack, "image", "stand-ins.sh")
	if err := runReporting(ctx, u.super.LogFile("images"), env, report, script, which); err != nil {
		return "", fmt.Errorf("build the images: %w", err)
	}
	return "in the registry", nil
}
