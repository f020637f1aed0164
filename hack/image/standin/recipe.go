// Package standin builds stand-in images, which replace public images if no public registry is reachable. They have the same names,
// paths, users and entrypoints, and are built from Go modules and Debian packages. They are for the local cluster only and have the
// label dev.fettle.stand-in=true.
package standin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/fettle-dev/fettle/hack/image/layer"
)

// format is part of every cache key. Increase it when the same recipe builds another image.
const format = 1

//go:embed rootfs
var rootfs embed.FS

// Recipe describes how an image is built. The fields and the files in rootfs determine the image's content. Their hash is the cache
// key, so a change of a field name, too, rebuilds the images.
type Recipe struct {
	// Name is a short, unique name.
	Name string
	// Images are the names to push the image under. A recipe without names is only a base of other recipes.
	Images []string
	// Cluster is true if the local cluster needs the image.
	Cluster bool
	// OnDemand images are built only by name, because their Debian release may remove the packages at any time.
	OnDemand bool `json:"-"`
	// From is the base recipe; empty means scratch.
	From string
	// Suite is the Debian release to bootstrap.
	Suite string
	// Busybox adds a static shell with its applets.
	Busybox bool
	// Tools are programs of hack/tools: FAMILY/BINARY to the path in the image.
	Tools map[string]string
	// Programs are built from Go packages of this module: package to the path in the image.
	Programs map[string]string
	// Packages are Debian packages to install; they need a Debian base.
	Packages []string
	// Before and After are shell scripts that run in the image as root, before and after the installation of Packages.
	Before, After string
	// Files are directories in rootfs to copy to /. Their *.sh and bin/* are executable.
	Files []string
	// Links are symbolic links: path to target.
	Links map[string]string
	// Folders are directories to create, with their modes, owned by root.
	Folders map[string]int64
	// Without are path.Match patterns of paths to exclude from the image.
	Without []string
	// Config is the image configuration. It is not inherited from the base.
	Config v1.Config
}

// key returns the cache key of the image. base is the key of the base; versions are the versions of the tools and programs.
func (r *Recipe) key(base string, versions map[string]string) (string, error) {
	files := map[string]string{}
	for _, dir := range r.Files {
		err := fs.WalkDir(rootfs, path.Join("rootfs", dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := rootfs.ReadFile(name)
			files[name] = string(content)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	content, err := json.Marshal([]any{format, base, r, files, versions})
	if err != nil {
		return "", fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:12]), nil
}

// ownFiles returns the entries of Files, Links and Folders.
func (r *Recipe) ownFiles() (layer.Set, error) {
	set := layer.Set{}
	for _, dir := range r.Files {
		root := path.Join("rootfs", dir)
		err := fs.WalkDir(rootfs, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := rootfs.ReadFile(name)
			mode := int64(0o644)
			if strings.HasSuffix(name, ".sh") || path.Base(path.Dir(name)) == "bin" {
				mode = 0o755
			}
			set.Add(layer.Text(strings.TrimPrefix(name, root), string(content), mode))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for name, target := range r.Links {
		set.Add(layer.Symlink(name, target))
	}
	for name, mode := range r.Folders {
		set.Add(layer.Dir(name, mode))
	}
	return set, nil
}

// needsNetwork reports whether the recipe downloads from a Debian mirror.
func (r *Recipe) needsNetwork() bool { return r.Suite != "" || len(r.Packages) > 0 || r.Busybox }

func (r *Recipe) configure(c *v1.Config) {
	*c = *r.Config.DeepCopy()
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels["dev.fettle.stand-in"] = "true"
	if len(r.Images) > 0 {
		c.Labels["dev.fettle.stand-in.for"] = r.Images[0]
	}
}

// skip reports whether a path is excluded: files that containers do not need, and the patterns in Without.
func (r *Recipe) skip(name string) bool {
	for _, dir := range []string{
		"/dev", "/proc", "/sys", "/run", "/tmp", "/usr/share/doc", "/usr/share/man", "/usr/share/info", "/usr/share/locale",
		"/usr/share/i18n", "/usr/share/lintian", "/var/cache/apt", "/var/cache/debconf", "/var/lib/apt/lists", "/var/log/apt",
	} {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	switch name {
	case "/etc/resolv.conf", "/etc/hostname", "/usr/sbin/policy-rc.d", "/etc/machine-id",
		"/var/log/bootstrap.log", "/var/log/dpkg.log", "/var/log/alternatives.log", "/var/log/faillog", "/var/log/lastlog":
		return true
	}
	for _, pattern := range r.Without {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}
