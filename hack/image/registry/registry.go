// Package registry is an OCI registry whose blobs and manifests are on disk.
//
// It is go-containerregistry's registry, which keeps blobs on disk but manifests in memory: what it accepts is also written down
// here, and given to it again at the next start. A complete registry (distribution, zot) would bring some sixty modules for a
// feature of this size, and a configuration of its own.
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

const maxManifest = 4 << 20 // the limit that registries commonly set

// Handler serves the registry's API and keeps its state in one folder.
type Handler struct {
	serve     http.Handler
	manifests string
	mu        sync.Mutex // orders the writes of manifests, in memory and on disk
}

// saved is a manifest as it is on disk.
type saved struct {
	Path        string `json:"path"` // of the request, /v2/<repository>/manifests/<tag or digest>
	ContentType string `json:"contentType"`
	Body        []byte `json:"body"`
}

// New opens the registry in folder, which is made if need be. Errors of requests go to logger.
func New(folder string, logger *log.Logger) (*Handler, error) {
	blobs, manifests := filepath.Join(folder, "blobs"), filepath.Join(folder, "manifests")
	for _, dir := range []string{blobs, manifests} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make the registry's folder: %w", err)
		}
	}
	h := &Handler{
		serve:     upstream.New(upstream.Logger(logger), upstream.WithBlobHandler(upstream.NewDiskBlobHandler(blobs))),
		manifests: manifests,
	}
	return h, h.replay()
}

// ServeHTTP answers one request.
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
	answer := httptest.NewRecorder()
	h.serve.ServeHTTP(answer, r)
	if err := h.record(r, body, answer.Result()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes()) //nolint:errcheck // a client that has gone needs no answer
}

// record writes down what the request changed. A manifest is kept under its tag and under its digest, so that moving the tag loses
// nothing that is pulled by digest.
func (h *Handler) record(r *http.Request, body []byte, answer *http.Response) error {
	switch {
	case r.Method == http.MethodDelete && answer.StatusCode == http.StatusAccepted:
		return os.Remove(h.file(r.URL.Path))
	case r.Method == http.MethodPut && answer.StatusCode == http.StatusCreated:
		digest := r.URL.Path[:strings.LastIndex(r.URL.Path, "/")+1] + answer.Header.Get("Docker-Content-Digest")
		for _, name := range []string{digest, r.URL.Path} {
			if err := h.save(saved{Path: name, ContentType: r.Header.Get("Content-Type"), Body: body}); err != nil {
				return fmt.Errorf("save the manifest: %w", err)
			}
		}
	}
	return nil
}

func (h *Handler) file(requestPath string) string {
	return filepath.Join(h.manifests, url.QueryEscape(requestPath)+".json")
}

func (h *Handler) save(m saved) error {
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

// replay gives the saved manifests to the registry: images before the indexes that name them, and indexes until none is accepted.
func (h *Handler) replay() error {
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

func (h *Handler) load() (images, indexes []saved, err error) {
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
		var m saved
		if err := json.Unmarshal(content, &m); err != nil {
			return nil, nil, fmt.Errorf("%s is damaged, remove it and push its image again: %w", file, err)
		}
		if types.MediaType(m.ContentType).IsIndex() {
			indexes = append(indexes, m)
		} else {
			images = append(images, m)
		}
	}
	return images, indexes, nil
}

// put says whether the registry accepted the manifest.
func (h *Handler) put(m saved) bool {
	request := httptest.NewRequest(http.MethodPut, m.Path, bytes.NewReader(m.Body))
	request.Header.Set("Content-Type", m.ContentType)
	answer := httptest.NewRecorder()
	h.serve.ServeHTTP(answer, request)
	return answer.Code == http.StatusCreated
}
