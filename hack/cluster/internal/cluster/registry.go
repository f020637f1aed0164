package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// startRegistry starts the image registry, which serves a directory over TLS.
func (u *upRun) startRegistry(ctx context.Context, report reporter) (string, error) {
	report("the build of hack/image")
	program, _, err := u.buildImageTool(ctx)
	if err != nil {
		return "", err
	}
	report("the registry")
	if err := u.renderMirrors(); err != nil {
		return "", err
	}
	// The binary's digest is not in Version: `up` in another checkout must not interrupt a push of this one.
	spec := process.Spec{Name: "registry", Path: program, Args: []string{
		"registry", "--dir", u.Path("registry"), "--addr", registryAddr,
		"--cert", u.certs.registry.Cert, "--key", u.certs.registry.Key,
	}}
	started, err := ensure(ctx, u.super, spec, httpProbe("https://"+registryAddr+"/v2/"), 3*time.Minute)
	return startState(started), err
}

// clusterImages builds the images that the cluster needs and pushes them to the registry.
func (u *upRun) clusterImages(ctx context.Context, report reporter) (string, error) {
	return u.pushImages(ctx, report, "--cluster")
}

// otherImages builds and pushes all other stand-in images: web servers, databases and so on.
func (u *upRun) otherImages(ctx context.Context, report reporter) (string, error) {
	if u.clusterImagesOnly {
		return "skipped", nil
	}
	return u.pushImages(ctx, report)
}

// pushImages builds stand-in images with hack/image and pushes them. Images in the cache are not rebuilt.
func (u *upRun) pushImages(ctx context.Context, report reporter, which ...string) (string, error) {
	hack, err := findHackDir()
	if err != nil {
		return "", err
	}
	args := append([]string{
		"stand-ins", "--hack", hack, "--registry", registryAddr, "--ca", u.certs.ca.CertFile(),
		"--cache", filepath.Join(u.Cache, "images"),
	}, which...)
	if err := runReporting(ctx, u.super.LogFile("images"), []string{"FETTLE_CACHE=" + u.Cache}, report, u.Path("bin", "image"), args...); err != nil {
		return "", fmt.Errorf("build the images: %w", err)
	}
	return "in the registry", nil
}
