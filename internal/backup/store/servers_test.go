package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

const folder = "shop/nightly"

// random writes the same random bytes for a size.
func random(size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{}), size)
}

func from(r io.Reader) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	}
}

func list(t *testing.T, s *store.Store) []string {
	t.Helper()
	names := []string{}
	if err := s.List(t.Context(), "", func(name string, _ int64) error {
		names = append(names, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestServers runs what needs only one start of the stores.
func TestServers(t *testing.T) {
	servers := teststores.Start(t)
	for _, server := range servers { // measured alone
		t.Run("memory of an upload is bounded/"+string(server.Type), func(t *testing.T) { memory(t, server) })
	}
	for _, server := range servers {
		t.Run(string(server.Type), func(t *testing.T) {
			t.Parallel()
			t.Run("round trip", func(t *testing.T) { roundTrip(t, server) })
			t.Run("interrupted upload leaves no object", func(t *testing.T) { interrupted(t, server) })
			t.Run("a failure in the middle is retried", func(t *testing.T) { retried(t, server) })
			t.Run("storage class and encryption", func(t *testing.T) { placement(t, server) })
			t.Run("failures", func(t *testing.T) { failures(t, server) })
		})
	}
}

func roundTrip(t *testing.T, server teststores.Server) {
	s := server.Open(t, folder)
	for name, size := range map[string]int64{"runs/a/manifest.json": 100, "runs/a/large.zst": 35<<20 + 1, "wal/empty": 0} {
		written, err := s.Write(t.Context(), name, map[string]string{"sha256": "0a"}, from(random(size)))
		if err != nil || written != size {
			t.Fatalf("%s: wrote %d: %v", name, written, err)
		}
		a, err := s.Attributes(t.Context(), name)
		if err != nil || a.Size != size || a.Metadata["sha256"] != "0a" || len(a.Metadata) != 1 || time.Since(a.ModTime).Abs() > time.Hour {
			t.Errorf("%s: attributes %+v: %v", name, a, err)
		}
		readSame(t, s, name, size)
	}
	if got, want := list(t, s), []string{"runs/a/large.zst", "runs/a/manifest.json", "wal/empty"}; !slices.Equal(got, want) {
		t.Errorf("list %v, want %v", got, want)
	}
	if got := list(t, server.Open(t, "shop/night")); len(got) > 0 {
		t.Errorf("another Backup lists %v", got)
	}
	for _, name := range append(list(t, s), "runs/a/none") {
		if err := s.Delete(t.Context(), name); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
		if _, err := s.Read(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("read %s: %v, want ErrNotFound", name, err)
		}
		if _, err := s.Attributes(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("attributes %s: %v, want ErrNotFound", name, err)
		}
	}
}

// readSame checks that an object has the random bytes.
func readSame(t *testing.T, s *store.Store, name string, size int64) {
	t.Helper()
	r, err := s.Read(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, want := sha256.New(), sha256.New()
	_, err = io.Copy(got, r)
	_, wantErr := io.Copy(want, random(size))
	if err := errors.Join(err, wantErr, r.Close()); err != nil || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("%s: other contents: %v", name, err)
	}
}

func interrupted(t *testing.T, server teststores.Server) {
	const half = 26 << 20 // several parts
	broken := errors.New("dump failed")
	ctx, cancel := context.WithCancel(t.Context())
	requests := atomic.Int32{}
	cut := server.Through(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if (r.Method == http.MethodPut || r.Method == http.MethodPost) && requests.Add(1) > 2 && r.ContentLength > 1<<20 {
				_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	for name, c := range map[string]struct {
		ctx    context.Context
		server teststores.Server
		tail   func() error
		want   func(error) bool
	}{
		"source fails": {t.Context(), server, func() error { return broken }, func(err error) bool { return errors.Is(err, broken) }},
		"canceled": {ctx, server, func() error {
			cancel()
			return nil
		}, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"connection cut": {t.Context(), cut, func() error { return nil }, func(err error) bool {
			return reason(err) == backupv1alpha1.ReasonStoreUnreachable
		}},
	} {
		s := c.server.Open(t, folder, store.Impatient())
		_, err := s.Write(c.ctx, "runs/b/half.dump", nil, func(w io.Writer) error {
			if err := from(random(half))(w); err != nil {
				return err
			}
			return c.tail()
		})
		if !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
		if got := list(t, server.Open(t, folder)); len(got) > 0 {
			t.Errorf("%s: %v remain", name, got)
		}
		if server.Type == backupv1alpha1.StoreS3 {
			if parts := files(t, filepath.Join(server.Dir, teststores.Bucket)); len(parts) > 0 {
				t.Errorf("%s: parts remain: %v", name, parts)
			}
		}
	}
}

// files returns the files with contents below a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func memory(t *testing.T, server teststores.Server) {
	const limit = 64 << 20 // a run may use 128 MiB
	// As in the pod: without a limit, what the collector has not freed yet would count too.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	size := int64(64 << 20)
	if server.Type == backupv1alpha1.StoreS3 { // whose library has the most buffers
		size = 256 << 20
	}
	s := server.Open(t, folder)
	debug.FreeOSMemory()
	before := heap()
	peak, source := uint64(0), random(size)
	_, err := s.Write(t.Context(), "runs/c/large", nil, func(w io.Writer) error {
		for { // without ReadFrom, as a compressor writes
			if _, err := io.CopyN(w, source, 1<<20); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			peak = max(peak, heap())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("peak is %d MiB over %d MiB", (peak-min(peak, before))>>20, before>>20)
	if peak > before+limit {
		t.Errorf("peak is %d MiB over the %d MiB before, limit %d MiB", (peak-before)>>20, before>>20, limit>>20)
	}
	if err := s.Delete(t.Context(), "runs/c/large"); err != nil {
		t.Error(err)
	}
}

// heap is how many bytes the heap uses.
func heap() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples)
	sum := uint64(0)
	for _, sample := range samples {
		sum += sample.Value.Uint64()
	}
	return sum
}

// reason returns the reason of an error of the store.
func reason(err error) string {
	if known := (*store.Error)(nil); errors.As(err, &known) {
		return known.Reason
	}
	return ""
}

// answering is a handler that always gives the same answer.
func answering(status int, contentType, body string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("X-Ms-Error-Code", between(body, "<Code>", "</Code>"))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	}
}

func between(text, start, end string) string {
	_, text, _ = strings.Cut(text, start)
	text, _, _ = strings.Cut(text, end)
	return text
}

func failures(t *testing.T, server teststores.Server) {
	type failure struct {
		server    teststores.Server
		want      string
		permanent bool
		says      string
	}
	cases := map[string]failure{}
	add := func(name, want string, permanent bool, says string, change func(*teststores.Server)) {
		changed := server
		changed.Keys.Files = map[string][]byte{}
		maps.Copy(changed.Keys.Files, server.Keys.Files)
		change(&changed)
		cases[name] = failure{changed, want, permanent, says}
	}
	add("bucket missing", backupv1alpha1.ReasonBucketMissing, true, "create it", func(s *teststores.Server) { s.Destination.Bucket = "missing" })
	add("unreachable", backupv1alpha1.ReasonStoreUnreachable, false, "does not answer", func(s *teststores.Server) {
		s.Destination.Endpoint = "https://127.0.0.1:1"
	})
	add("no such host", backupv1alpha1.ReasonStoreUnreachable, false, "does not answer", func(s *teststores.Server) {
		s.Destination.Endpoint = "https://store.invalid"
	})
	add("CA unknown", backupv1alpha1.ReasonStoreUntrusted, true, "caSecretRef", func(s *teststores.Server) { s.Keys.CA = nil })
	add("503", backupv1alpha1.ReasonStoreFailed, false, "503", func(s *teststores.Server) {
		*s = s.Through(t, answering(http.StatusServiceUnavailable, "application/xml", "<Error><Code>ServiceUnavailable</Code></Error>"))
	})
	add("403", backupv1alpha1.ReasonStoreForbidden, true, "grant ", func(s *teststores.Server) {
		*s = s.Through(t, answering(http.StatusForbidden, "application/xml", "<Error><Code>AccessDenied</Code></Error>"))
	})
	switch server.Type {
	case backupv1alpha1.StoreS3:
		add("wrong key", backupv1alpha1.ReasonStoreForbidden, true, "SignatureDoesNotMatch", func(s *teststores.Server) {
			s.Keys.Files["secret-access-key"] = []byte("wrong")
		})
		add("wrong region", backupv1alpha1.ReasonBucketMissing, true, "correct region", func(s *teststores.Server) { s.Destination.Region = "eu-central-1" })
		add("key expired", backupv1alpha1.ReasonStoreForbidden, true, "ExpiredToken", func(s *teststores.Server) {
			*s = s.Through(t, answering(http.StatusBadRequest, "application/xml", "<Error><Code>ExpiredToken</Code><Message>The token has expired</Message></Error>"))
		})
		add("clock skew", backupv1alpha1.ReasonStoreForbidden, false, "correct the clock", func(s *teststores.Server) {
			*s = s.Through(t, answering(http.StatusForbidden, "application/xml", "<Error><Code>RequestTimeTooSkewed</Code></Error>"))
		})
		add("403 with a key", backupv1alpha1.ReasonStoreForbidden, true, "kms:GenerateDataKey", func(s *teststores.Server) {
			*s = s.Through(t, answering(http.StatusForbidden, "application/xml", "<Error><Code>AccessDenied</Code></Error>"))
			s.Destination.ServerSideEncryption = &backupv1alpha1.ServerSideEncryption{Type: backupv1alpha1.EncryptionKMS}
		})
		for code, field := range map[string]string{"InvalidStorageClass": "storageClass", "KMS.NotFoundException": "serverSideEncryption.kmsKeyID"} {
			add(code, backupv1alpha1.ReasonStoreInvalid, true, "rejects "+field, func(s *teststores.Server) {
				*s = s.Through(t, answering(http.StatusBadRequest, "application/xml", "<Error><Code>"+code+"</Code></Error>"))
			})
		}
	case backupv1alpha1.StoreGCS:
		add("key revoked", backupv1alpha1.ReasonStoreForbidden, true, "invalid_grant", func(s *teststores.Server) {
			tokens := s.Through(t, answering(http.StatusBadRequest, "application/json", `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`))
			old := between(string(s.Keys.Files["service-account.json"]), `"token_uri":"`, `"`)
			s.Keys.Files["service-account.json"] = bytes.ReplaceAll(s.Keys.Files["service-account.json"], []byte(old), []byte(tokens.Destination.Endpoint))
		})
	case backupv1alpha1.StoreAzure:
		add("wrong key", backupv1alpha1.ReasonStoreForbidden, true, "InvalidAuthenticationInfo", func(s *teststores.Server) {
			s.Keys.Files["account-key"] = []byte("d3Jvbmc=")
		})
		add("SAS expired", backupv1alpha1.ReasonStoreForbidden, true, "Auth", func(s *teststores.Server) {
			delete(s.Keys.Files, "account-key")
			s.Keys.Files["sas-token"] = []byte("?sv=2023-01-03&st=2020-01-01T00%3A00%3A00Z&se=2020-01-02T00%3A00%3A00Z&sr=c&sp=rwdl&sig=c2lnbmF0dXJlLW9mLXRlc3Q%3D")
		})
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.server.Open(t, folder, store.Impatient())
			_, writeErr := s.Write(t.Context(), "runs/d/x", nil, from(strings.NewReader("x")))
			listErr := s.List(t.Context(), "", func(string, int64) error { return nil })
			for _, err := range []error{writeErr, listErr} {
				known := (*store.Error)(nil)
				if !errors.As(err, &known) || known.Reason != c.want || known.Permanent != c.permanent || !strings.Contains(known.Message, c.says) {
					t.Errorf("want %s (permanent: %v): %#v\n%v", c.want, c.permanent, known, err)
				}
			}
		})
	}
}

func retried(t *testing.T, server teststores.Server) {
	uploads := atomic.Int32{}
	flaky := server.Through(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1<<20 && uploads.Add(1) == 2 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	s := flaky.Open(t, folder)
	if _, err := s.Write(t.Context(), "runs/e/x", nil, from(random(26<<20))); err != nil || uploads.Load() < 2 {
		t.Fatalf("after %d uploads: %v", uploads.Load(), err)
	}
	if err := s.Delete(t.Context(), "runs/e/x"); err != nil {
		t.Error(err)
	}
}

// placement checks the requests that create an object: what a store does with a storage class or a key is its own.
func placement(t *testing.T, server teststores.Server) {
	type creation struct {
		request string // a regular expression
		has     []string
	}
	var wanted []creation
	d := &server.Destination
	switch server.Type {
	case backupv1alpha1.StoreS3:
		d.StorageClass, d.ServerSideEncryption = "STANDARD_IA", &backupv1alpha1.ServerSideEncryption{Type: backupv1alpha1.EncryptionKMS, KMSKeyID: "alias/backups"}
		has := []string{"X-Amz-Storage-Class: STANDARD_IA", "X-Amz-Server-Side-Encryption: aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id: alias/backups"}
		wanted = []creation{{"^PUT .*small.*PutObject", has}, {"^POST .*large.*uploads", has}}
	case backupv1alpha1.StoreGCS:
		d.StorageClass, d.ServerSideEncryption = "NEARLINE", &backupv1alpha1.ServerSideEncryption{Type: backupv1alpha1.EncryptionKMS, KMSKeyID: "projects/a/locations/b/keyRings/c/cryptoKeys/d"}
		has := []string{`"storageClass":"NEARLINE"`, "kmsKeyName=projects%2Fa%2Flocations%2Fb%2FkeyRings%2Fc%2FcryptoKeys%2Fd"}
		wanted = []creation{{"^POST .*small.*projection=full", has}, {"^POST .*large.*projection=full", has}}
	case backupv1alpha1.StoreAzure:
		d.StorageClass, d.ServerSideEncryption = "Cool", &backupv1alpha1.ServerSideEncryption{EncryptionScope: "backups"}
		tier, scope := "X-Ms-Access-Tier: Cool", "X-Ms-Encryption-Scope: backups"
		wanted = []creation{{`^PUT .*small`, []string{tier, scope}}, {`^PUT .*large\?.*comp=block\r`, []string{scope}}, {`^PUT .*large\?comp=blocklist`, []string{tier, scope}}}
	}
	requests := make(chan string, 100)
	s := server.Through(t, recording(requests)).Open(t, folder, store.Impatient())
	for name, size := range map[string]int64{"runs/f/small": 100, "runs/f/large": 17 << 20} {
		if _, err := s.Write(t.Context(), name, nil, from(random(size))); err != nil {
			t.Error(err)
		}
		if err := s.Delete(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	close(requests)
	var found []string
	for request := range requests {
		found = append(found, request)
	}
	for _, w := range wanted {
		created := slices.DeleteFunc(slices.Clone(found), func(request string) bool { return !regexp.MustCompile(w.request).MatchString(request) })
		if len(created) == 0 {
			t.Errorf("no request is %s:\n%s", w.request, strings.Join(found, "\n"))
		}
		for _, request := range created {
			for _, text := range w.has {
				if !strings.Contains(request, text) {
					t.Errorf("no %s in %s", text, request)
				}
			}
		}
	}
}

// recording sends the first line, the headers and a short body of each request to a channel.
func recording(requests chan<- string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text := &strings.Builder{}
			_, _ = text.WriteString(r.Method + " " + r.URL.String() + "\r\n")
			_ = r.Header.Write(text)
			if r.ContentLength < 4<<10 { // else it is contents
				body, err := io.ReadAll(r.Body)
				if err != nil {
					panic(http.ErrAbortHandler)
				}
				_, _ = text.Write(body)
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
			requests <- text.String()
			next.ServeHTTP(w, r)
		})
	}
}

func TestWrite_objectTruncatedAfterUploadIsDetected(t *testing.T) {
	server := teststores.Start(t, backupv1alpha1.StoreS3)[0]
	truncating := server.Through(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				for _, file := range files(t, filepath.Join(server.Dir, teststores.Bucket)) {
					if err := os.Truncate(file, 10); err != nil {
						t.Error(err)
					}
				}
			}
			next.ServeHTTP(w, r)
		})
	})
	s := truncating.Open(t, folder)
	if _, err := s.Write(t.Context(), "runs/a/x", nil, from(random(100))); reason(err) != backupv1alpha1.ReasonStoredDiffers {
		t.Errorf("%v, want StoredDiffers", err)
	}
	if got := list(t, s); len(got) > 0 {
		t.Errorf("%v remain", got)
	}
}
