// Package fakes3 is an S3 server in memory, for faults that no real server has on request. It starts at once and needs no program;
// package teststores has real servers.
package fakes3

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// Bucket is the only one.
const Bucket = "backups"

// metadataPrefix is that of the headers with the metadata of an object.
const metadataPrefix = "X-Amz-Meta-"

// Object is what the server has under a key.
type Object struct {
	Content  []byte
	Metadata http.Header
	// Modified is when it was stored; a fixed time if it is zero.
	Modified time.Time
}

func (o *Object) modified() time.Time {
	if o.Modified.IsZero() {
		return time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	}
	return o.Modified.UTC()
}

// Server is safe for concurrent use. Its fields are set before the first request.
type Server struct {
	URL string
	// Stored changes an object after it was stored, and may return an HTTP status to answer with, or 0.
	Stored func(key string, o *Object) (status int)
	// Locked refuses to delete objects.
	Locked bool
	// Unlisted is the end of the keys that lists lack, although the objects exist; "" for none.
	Unlisted string
	// Intercept may answer a request itself, and then returns true.
	Intercept func(w http.ResponseWriter, r *http.Request) bool

	mutex   sync.Mutex
	objects map[string]*Object
	deleted []string
	uploads map[string]time.Time
}

// Start starts a server, which the end of the test stops.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{objects: map[string]*Object{}, uploads: map[string]time.Time{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Destination of the server. Its address is on the loopback interface.
func (s *Server) Destination() backupv1alpha1.Destination {
	return backupv1alpha1.Destination{Type: backupv1alpha1.StoreS3, Bucket: Bucket, Endpoint: s.URL}
}

// Files are the contents of a Secret with keys.
func Files() map[string][]byte {
	return map[string][]byte{"access-key-id": []byte("AKIATESTTESTTEST"), "secret-access-key": []byte("secretsecretsecret")}
}

// Put stores an object.
func (s *Server) Put(key, content string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.objects[key] = &Object{Content: []byte(content)}
}

// PutAt stores an object that was modified at a time.
func (s *Server) PutAt(key, content string, modified time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.objects[key] = &Object{Content: []byte(content), Modified: modified}
}

// BeginUpload has an upload in parts that was begun at a time and has not ended.
func (s *Server) BeginUpload(key string, begun time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.uploads[key] = begun
}

// Uploads are the keys of the uploads that have not ended, sorted.
func (s *Server) Uploads() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Sorted(maps.Keys(s.uploads))
}

// Keys are those of all objects, sorted.
func (s *Server) Keys() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Deleted are the keys of all requests to delete, in their order.
func (s *Server) Deleted() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.deleted)
}

// ServeHTTP answers the requests for single objects and for lists. Uploads in parts can be listed and aborted only.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Intercept != nil && s.Intercept(w, r) {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+Bucket), "/")
	object := s.objects[key]
	switch {
	case key == "" && r.URL.Query().Has("uploads"):
		s.listUploads(w, r.URL.Query().Get("prefix"))
	case key == "":
		s.list(w, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodDelete && r.URL.Query().Has("uploadId"):
		delete(s.uploads, key)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		s.put(w, r, key)
	case r.Method == http.MethodDelete && s.Locked:
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		s.deleted = append(s.deleted, key)
		w.WriteHeader(http.StatusNoContent)
	case object == nil:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		maps.Copy(w.Header(), object.Metadata)
		w.Header().Set("Last-Modified", object.modified().Format(http.TimeFormat))
		w.Header().Set("Content-Length", strconv.Itoa(len(object.Content)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(object.Content)
		}
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, key string) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return // the connection was cut
	}
	o := &Object{Content: content, Metadata: http.Header{}}
	for name, values := range r.Header {
		if strings.HasPrefix(name, metadataPrefix) {
			o.Metadata[name] = values
		}
	}
	s.objects[key] = o
	if s.Stored == nil {
		return
	}
	if status := s.Stored(key, o); status != 0 {
		w.WriteHeader(status)
	}
}

func (s *Server) list(w http.ResponseWriter, prefix string) {
	_, _ = io.WriteString(w, "<ListBucketResult>")
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if s.Unlisted != "" && strings.HasSuffix(key, s.Unlisted) {
			continue
		}
		if strings.HasPrefix(key, prefix) {
			_, _ = fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><LastModified>%s</LastModified></Contents>",
				key, len(s.objects[key].Content), s.objects[key].modified().Format(time.RFC3339))
		}
	}
	_, _ = io.WriteString(w, "</ListBucketResult>")
}

func (s *Server) listUploads(w http.ResponseWriter, prefix string) {
	_, _ = io.WriteString(w, "<ListMultipartUploadsResult>")
	for key, begun := range s.uploads {
		if strings.HasPrefix(key, prefix) {
			_, _ = fmt.Fprintf(w, "<Upload><Key>%s</Key><UploadId>1</UploadId><Initiated>%s</Initiated></Upload>", key, begun.UTC().Format(time.RFC3339))
		}
	}
	_, _ = io.WriteString(w, "</ListMultipartUploadsResult>")
}
