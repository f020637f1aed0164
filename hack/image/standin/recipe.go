// Package standin makes images that take the place of public ones where no registry can be reached: the same names, paths, users and
// entry points, made from Go modules and Debian packages. They are for the local cluster, and labelled dev.fettle.stand-in=true.
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

// format is part of every key: raise it when the same recipe gives another image.
const format = 1

//go:embed rootfs
var rootfs embed.FS

// Recipe says how one image is made. All that decides what is in the image is in here or in the folder rootfs, so that the key of a
// recipe tells whether a cached image is still the right one.
type Recipe struct {
	// Name is short, and unique among the recipes.
	Name string
	// Images are the names that the image is pushed under. A recipe without any is a base of others.
	Images []string
	// Cluster says that the local cluster needs the image to start.
	Cluster bool
	// OnDemand is made only when it is asked for by name: its release of Debian may lose the packages any day.
	OnDemand bool `json:"-"`
	// From is the recipe that this one adds to; empty is scratch.
	From string
	// Suite makes a Debian root of that release.
	Suite string
	// Busybox adds a static shell with its applets.
	Busybox bool
	// Tools are programs of hack/tools: FAMILY/BINARY to the path in the image.
	Tools map[string]string
	// Programs are built from Go packages of this module: package to the path in the image.
	Programs map[string]string
	// Packages are installed by apt; needs a Debian base.
	Packages []string
	// Before and After are shell scripts that run inside the image, as root, around the installation.
	Before, After string
	// Files are folders of rootfs that are copied to the root. Their *.sh and bin/* are executable.
	Files []string
	// Links are symbolic links: path to target.
	Links map[string]string
	// Folders are made with these modes, owned by root.
	Folders map[string]int64
	// Without are patterns (of path.Match) of what is left out of the image.
	Without []string
	// Config is how the image is run. The base's is not inherited.
	Config v1.Config
}

// key identifies what the recipe makes. Versions are the folders of the tools that it uses, in which their pinned versions are hashed.
func (r *Recipe) key(base string, versions map[string]string) (string, error) {
	files := map[string]string{}
	for _, folder := range r.Files {
		err := fs.WalkDir(rootfs, path.Join("rootfs", folder), func(name string, d fs.DirEntry, err error) error {
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

// own are the entries that need nothing but the recipe.
func (r *Recipe) own() (layer.Set, error) {
	set := layer.Set{}
	for _, folder := range r.Files {
		root := path.Join("rootfs", folder)
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
		set.Add(layer.Folder(name, mode))
	}
	return set, nil
}

// fetches says whether the recipe needs a mirror of Debian.
func (r *Recipe) fetches() bool { return r.Suite != "" || len(r.Packages) > 0 || r.Busybox }

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

// skip says whether a path is left out: what no container reads, and what the recipe names.
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
