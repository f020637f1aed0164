package dockerfile

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/fettle-dev/fettle/hack/image/layer"
)

// buildFrom builds the Dockerfile text in a context with the given files. The base image is named "base".
func buildFrom(t *testing.T, text string, files map[string]string) (v1.Image, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stages, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	pull := func(_ context.Context, name string) (v1.Image, error) {
		if name != "base" {
			return nil, errors.New("no image " + name)
		}
		files := layer.Set{}
		files.Add(layer.Text("/bin/opm", "#!", 0o755))
		return layer.Image(nil, "amd64", func(c *v1.Config) { c.User, c.Labels = "1001", map[string]string{"from": "base"} }, files)
	}
	builder := &Builder{Context: dir, Arch: "amd64", Pull: pull}
	return builder.Build(t.Context(), stages)
}

// contents returns the regular files of an image with their content and mode.
func contents(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	files := mutate.Extract(image)
	defer files.Close()
	found := map[string]string{}
	for reader := tar.NewReader(files); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			content, err := io.ReadAll(reader)
			if err != nil {
				t.Fatal(err)
			}
			found["/"+header.Name] = string(content) + " " + os.FileMode(header.Mode).String()
		}
	}
}

func TestBuild_bundle(t *testing.T) {
	image, err := buildFrom(t, `FROM scratch
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.channels.v1="candidate,stable"
COPY bundle/manifests /manifests/
COPY bundle/metadata/annotations.yaml /metadata/
COPY bundle/tests/config.yaml /tests/scorecard/renamed.yaml
`, map[string]string{
		"bundle/manifests/csv.yaml":            "csv",
		"bundle/manifests/sub/crd.yaml":        "crd",
		"bundle/metadata/annotations.yaml":     "annotations",
		"bundle/tests/config.yaml":             "scorecard",
		"bundle/metadata/not-in-the-image.txt": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"/manifests/csv.yaml":           "csv -rw-r--r--",
		"/manifests/sub/crd.yaml":       "crd -rw-r--r--",
		"/metadata/annotations.yaml":    "annotations -rw-r--r--",
		"/tests/scorecard/renamed.yaml": "scorecard -rw-r--r--",
	}
	if diff := cmp.Diff(want, contents(t, image)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{
		"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
		"operators.operatorframework.io.bundle.channels.v1":  "candidate,stable",
	}
	if diff := cmp.Diff(labels, file.Config.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestBuild_stages(t *testing.T) {
	image, err := buildFrom(t, `FROM base AS builder
ADD catalog /configs
ENTRYPOINT ["/of/the/builder"]
FROM base
WORKDIR /work
COPY --from=builder /configs /configs
COPY one two ./
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs"]
ENV A=1 PATH=/bin
ENV A=2
USER 1002
`, map[string]string{"catalog/package.yaml": "package", "one": "1", "two": "2"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"/bin/opm": "#! -rwxr-xr-x", "/configs/package.yaml": "package -rw-r--r--", "/work/one": "1 -rw-r--r--", "/work/two": "2 -rw-r--r--",
	}
	if diff := cmp.Diff(want, contents(t, image)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := v1.Config{
		User: "1002", Entrypoint: []string{"/bin/opm"}, Cmd: []string{"serve", "/configs"}, Env: []string{"PATH=/bin", "A=2"}, WorkingDir: "/work",
		Labels: map[string]string{"from": "base"},
	}
	if diff := cmp.Diff(config, file.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestBuild_rejects(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"base":    {"FROM elsewhere", "no image elsewhere"},
		"missing": {"FROM scratch\nCOPY absent /", "line 2: COPY: "},
		"outside": {"FROM scratch\nCOPY ../secret /", "is outside the build context"},
		"stage":   {"FROM scratch\nCOPY --from=later /a /a", `no earlier stage is named "later"`},
		"flag":    {"FROM scratch\nCOPY --chown=1 a /a", "--chown=1 is not supported"},
		"label":   {"FROM scratch\nLABEL a=1 b", `"b" is not key=value`},
		"of base": {"FROM base AS one\nFROM scratch\nCOPY --from=one /bin/opm /opm", "the stage has no file /bin/opm"},
	} {
		_, err := buildFrom(t, c.text, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q in it", name, err, c.want)
		}
	}
}

// A fake opm writes a cache file. The image must have the file with the same mode.
func TestBuild_runsOpm(t *testing.T) {
	dir := t.TempDir()
	opm := filepath.Join(dir, "opm")
	script := `#!/bin/sh
cache=${3#--cache-dir=}
mkdir -p "$cache" && cat "$2/package.yaml" >"$cache/digest" && chmod 640 "$cache/digest"
`
	if err := os.WriteFile(opm, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.yaml"), []byte("package"), 0o644); err != nil {
		t.Fatal(err)
	}
	stages, err := Parse(strings.NewReader("FROM scratch\nCOPY package.yaml /configs/\nRUN opm serve /configs --cache-dir=/tmp/cache --cache-only"))
	if err != nil {
		t.Fatal(err)
	}
	builder := &Builder{Context: dir, Arch: "amd64", Opm: opm}
	image, err := builder.Build(t.Context(), stages)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"/configs/package.yaml": "package -rw-r--r--", "/tmp/cache/digest": "package -rw-r-----"}
	if diff := cmp.Diff(want, contents(t, image)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
