// Package registry is an OCI registry whose blobs and manifests are on disk.
//
// It wraps go-containerregistry's registry, which stores blobs on disk but manifests in memory. This package saves accepted manifests to
// disk and restores them at the next start. A complete registry (distribution, zot) would add some sixty modules and a configuration
// file.
package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	upstream "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const maxManifest = 4 << 20 // a common limit of registries

// Handler serves the registry's API and stores its state in one directory.
type Handler struct {
	serve     http.Handler
	manifests string
	mu        sync.Mutex // serializes writes of manifests, in memory and on disk
}

// savedManifest is the file format of a manifest.
type savedManifest struct {
	Path        string `json:"path"` // path of the request: /v2/<repository>/manifests/<tag or digest>
	ContentType string `json:"contentType"`
	Body        []byte `json:"body"`
}

// New opens the registry in dir and creates dir if it does not exist. Request errors are logged to logger.
func New(dir string, logger *log.Logger) (*Handler, error) {
	blobs, manifests := filepath.Join(dir, "blobs"), filepath.Join(dir, "manifests")
	for _, subdir := range []string{blobs, manifests} {
		if err := os.MkdirAll(subdir, 0o755); err != nil {
			return nil, fmt.Errorf("create the registry's directory: %w", err)
		}
	}
	h := &Handler{
		serve:     upstream.New(upstream.Logger(logger), upstream.WithBlobHandler(upstream.NewDiskBlobHandler(blobs))),
		manifests: manifests,
	}
	return h, h.restore()
}

// ServeHTTP handles a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isManifest := strings.HasPrefix(r.URL.Path, "/v2/") && strings.Contains(r.URL.Path, "/manifests/")
	if !isManifest || r.Method != http.MethodPut && r.Method != http.MethodDelete {
		h.serve.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	response := httptest.NewRecorder()
	h.serve.ServeHTTP(response, r)
	if err := h.persist(r, body, response.Result()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	maps.Copy(w.Header(), response.Header())
	w.WriteHeader(response.Code)
	w.Write(response.Body.Bytes()) //nolint:errcheck // the client may have disconnected
}

// persist saves the change of a request to disk. It saves a manifest under its tag and under its digest: after a change of the tag, the
// old manifest can still be pulled by digest.
func (h *Handler) persist(r *http.Request, body []byte, response *http.Response) error {
	switch {
	case r.Method == http.MethodDelete && response.StatusCode == http.StatusAccepted:
		return os.Remove(h.file(r.URL.Path))
	case r.Method == http.MethodPut && response.StatusCode == http.StatusCreated:
		digest := r.URL.Path[:strings.LastIndex(r.URL.Path, "/")+1] + response.Header.Get("Docker-Content-Digest")
		for _, name := range []string{digest, r.URL.Path} {
			if err := h.save(savedManifest{Path: name, ContentType: r.Header.Get("Content-Type"), Body: body}); err != nil {
				return fmt.Errorf("save the manifest: %w", err)
			}
		}
	}
	return nil
}

func (h *Handler) file(requestPath string) string {
	return filepath.Join(h.manifests, url.QueryEscape(requestPath)+".json")
}

func (h *Handler) save(m savedManifest) error {
	content, err := json.Marshal(m)
	if err != nil {
		return err
	}
	file := h.file(m.Path)
	part := file + ".part"
	if err := os.WriteFile(part, content, 0o644); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// restore loads the saved manifests into the registry. It loads images before the indexes that refer to them, and retries indexes until
// none is accepted.
func (h *Handler) restore() error {
	images, indexes, err := h.load()
	if err != nil {
		return fmt.Errorf("load the registry's manifests: %w", err)
	}
	for _, m := range images {
		h.put(m)
	}
	for left := len(indexes) + 1; len(indexes) > 0 && len(indexes) < left; {
		left = len(indexes)
		indexes = slices.DeleteFunc(indexes, h.put)
	}
	return nil
}

func (h *Handler) load() (images, indexes []savedManifest, err error) {
	entries, err := os.ReadDir(h.manifests)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		file := filepath.Join(h.manifests, entry.Name())
		if filepath.Ext(file) == ".part" {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, err
			}
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		var m savedManifest
		if err := json.Unmarshal(content, &m); err != nil {
			return nil, nil, fmt.Errorf("%s is corrupt: remove the file and push its image again: %w", file, err)
		}
		if types.MediaType(m.ContentType).IsIndex() {
			indexes = append(indexes, m)
		} else {
			images = append(images, m)
		}
	}
	return images, indexes, nil
}

// put uploads the manifest and reports whether the registry accepted it.
func (h *Handler) put(m savedManifest) bool {
	request := httptest.NewRequest(http.MethodPut, m.Path, bytes.NewReader(m.Body))
	request.Header.Set("Content-Type", m.ContentType)
	response := httptest.NewRecorder()
	h.serve.ServeHTTP(response, request)
	return response.Code == http.StatusCreated
}
