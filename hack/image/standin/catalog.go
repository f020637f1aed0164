package standin

import (
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Recipes returns all recipes. A base comes before the recipes that use it.
func Recipes() []*Recipe {
	return slices.Concat(clusterImages(), webServers(), databases())
}

// Names returns the short names of the recipes with an image, without the on-demand ones. With cluster, it returns only the images that
// the local cluster needs.
func Names(cluster bool) []string {
	var names []string
	for _, r := range Recipes() {
		if len(r.Images) > 0 && !r.OnDemand && (r.Cluster || !cluster) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Find returns a recipe by its short name or by the full name of one of its images.
func Find(name string) (*Recipe, bool) {
	for _, r := range Recipes() {
		if len(r.Images) > 0 && (r.Name == name || slices.Contains(r.Images, name)) {
			return r, true
		}
	}
	return nil, false
}

func findRecipe(name string) (*Recipe, bool) {
	for _, r := range Recipes() {
		if r.Name == name {
			return r, true
		}
	}
	return nil, false
}

func clusterImages() []*Recipe {
	return []*Recipe{
		{
			Name: "pause", Cluster: true,
			Images:   []string{"registry.k8s.io/pause:3.10"},
			Programs: map[string]string{"image/pause": "/pause"},
			Config:   v1.Config{User: "65535:65535", Entrypoint: []string{"/pause"}, Env: []string{defaultPath}},
		},
		{
			Name: "coredns", Cluster: true,
			Images: []string{"registry.k8s.io/coredns/coredns:v1.14.1"},
			Tools:  map[string]string{"coredns/coredns": "/coredns"},
			Config: v1.Config{User: "65532:65532", Entrypoint: []string{"/coredns"}, Env: []string{defaultPath}, WorkingDir: "/"},
		},
		{
			Name: "busybox", Cluster: true, // the scorecard unpacks bundles with this image
			Images: []string{
				"docker.io/library/busybox:1.36", "docker.io/library/busybox:latest",
				"quay.io/operator-framework/scorecard-untar:latest", "quay.io/operator-framework/scorecard-storage:latest",
			},
			Busybox: true,
			Folders: map[string]int64{"/tmp": 0o1777, "/root": 0o700},
			Config:  v1.Config{Cmd: []string{"sh"}, Env: []string{defaultPath}},
		},
		{
			Name: "opm", From: "busybox", Cluster: true,
			Images: []string{"quay.io/operator-framework/opm:v1.73.0", "quay.io/operator-framework/opm:latest"},
			Tools:  map[string]string{"opm/opm": "/bin/opm", "opm/grpc_health_probe": "/bin/grpc_health_probe"},
			Config: v1.Config{User: "1001", Entrypoint: []string{"/bin/opm"}, Env: []string{defaultPath}, WorkingDir: "/"},
		},
		{
			Name: "olm", From: "busybox", Cluster: true,
			Images: []string{"quay.io/operator-framework/olm:v0.45.0"},
			Tools: map[string]string{
				"olm/olm": "/bin/olm", "olm/catalog": "/bin/catalog", "olm/package-server": "/bin/package-server",
				"olm/copy-content": "/bin/copy-content", "olm/cpb": "/bin/cpb",
			},
			Config: v1.Config{User: "1001", Entrypoint: []string{"/bin/olm"}, Env: []string{defaultPath}, WorkingDir: "/"},
		},
		{
			Name: "scorecard-test", From: "busybox",
			Images:  []string{"quay.io/operator-framework/scorecard-test:v1.42.2"},
			Tools:   map[string]string{"operator-sdk/scorecard-test": "/usr/local/bin/scorecard-test"},
			Folders: map[string]int64{"/opt/scorecard-test": 0o755},
			Config: v1.Config{
				User: "1001", Entrypoint: []string{"/usr/local/bin/scorecard-test"}, WorkingDir: "/opt/scorecard-test",
				Env: []string{defaultPath, "HOME=/opt/scorecard-test", "USER_NAME=scorecard-test", "USER_UID=1001"},
			},
		},
	}
}

// versions returns the image names of a repository with the tags.
func versions(repository string, tags ...string) []string {
	names := make([]string, 0, len(tags))
	for _, tag := range tags {
		names = append(names, repository+":"+tag)
	}
	return names
}

// systemUser returns a script that creates a user with the UID of the official image.
func systemUser(name, id, home string) string {
	return strings.NewReplacer("NAME", name, "ID", id, "HOME", home).Replace(
		"groupadd -r -g ID NAME\nuseradd -r -u ID -g NAME -d HOME -s /bin/sh NAME\n")
}
