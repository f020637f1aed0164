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
	program, digest, err := u.buildImageTool(ctx)
	if err != nil {
		return "", err
	}
	say("the registry")
	if err := u.renderMirrors(); err != nil {
		return "", err
	}
	spec := process.Spec{Name: "registry", Path: program, Version: digest, Args: []string{
		"registry", "--dir", u.Path("registry"), "--addr", registryAddr,
		"--cert", u.certs.registry.Cert, "--key", u.certs.registry.Key,
	}}
	started, err := ensure(ctx, u.super, spec, httpProbe("https://"+registryAddr+"/v2/"), 30*time.Second)
	return verb(started), err
}

// pushImages makes the images that stand in for those of the internet, and puts them into the registry. What has been
// made before comes from the cache.
func (u *upRun) pushImages(ctx context.Context, say note) (string, error) {
	for _, family := range []string{"coredns", "olm", "opm"} {
		if _, err := u.tools(ctx, family, say); err != nil {
			return "", err
		}
	}
	hack, err := checkout()
	if err != nil {
		return "", err
	}
	say("images, see %s", u.super.LogFile("images"))
	err = logged(ctx, u.super.LogFile("images"), []string{"FETTLE_CACHE=" + u.Cache, "FETTLE_HACK=" + hack}, u.Path("bin", "image"), "stand-ins",
		"--registry", registryAddr, "--ca", u.certs.authority.CertFile(), "--cache", filepath.Join(u.Cache, "images"))
	if err != nil {
		return "", fmt.Errorf("make the images: %w", err)
	}
	return "in the registry", nil
}
