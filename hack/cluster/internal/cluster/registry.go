package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// startRegistry serves images, over TLS, from a folder.
func (u *upRun) startRegistry(ctx context.Context, say note) (string, error) {
	say("the compilation of hack/image")
	program, _, err := u.buildImageTool(ctx)
	if err != nil {
		return "", err
	}
	say("the registry")
	if err := u.renderMirrors(); err != nil {
		return "", err
	}
	// Its program is not part of the Version: an up from another checkout must not break off a push of this one.
	spec := process.Spec{Name: "registry", Path: program, Args: []string{
		"registry", "--dir", u.Path("registry"), "--addr", registryAddr,
		"--cert", u.certs.registry.Cert, "--key", u.certs.registry.Key,
	}}
	started, err := ensure(ctx, u.super, spec, httpProbe("https://"+registryAddr+"/v2/"), 3*time.Minute)
	return verb(started), err
}

// clusterImages makes the images that the cluster itself runs, and puts them into the registry.
func (u *upRun) clusterImages(ctx context.Context, say note) (string, error) {
	return u.pushImages(ctx, say, "--cluster")
}

// allImages makes all images that stand in for those of the internet: web servers, databases and so on.
func (u *upRun) allImages(ctx context.Context, say note) (string, error) {
	if u.small {
		return "left out", nil
	}
	return u.pushImages(ctx, say)
}

// pushImages has hack/image make stand-in images. What has been made before comes from the cache.
func (u *upRun) pushImages(ctx context.Context, say note, which ...string) (string, error) {
	hack, err := checkout()
	if err != nil {
		return "", err
	}
	args := append([]string{
		"stand-ins", "--hack", hack, "--registry", registryAddr, "--ca", u.certs.authority.CertFile(),
		"--cache", filepath.Join(u.Cache, "images"),
	}, which...)
	if err := noted(ctx, u.super.LogFile("images"), []string{"FETTLE_CACHE=" + u.Cache}, say, u.Path("bin", "image"), args...); err != nil {
		return "", fmt.Errorf("make the images: %w", err)
	}
	return "in the registry", nil
}
