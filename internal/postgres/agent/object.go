package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

const (
	resourcePostgreSQL = "postgresqls"
	// objectPause is the time between two tries to read the object, objectWatch the duration of one watch.
	objectPause, objectWatch = 2 * time.Second, 10 * time.Minute
)

// objectStore watches the PostgreSQL object, and keeps the last valid one for a start without the API server. It is safe for
// concurrent use.
type objectStore struct {
	api             rest.Interface
	namespace, name string
	file            string
	log             *slog.Logger
	// valid returns why an object is invalid: then it is not saved. changed is called when there is a new version.
	valid   func(*databasev1alpha1.PostgreSQL) error
	changed func()

	mutex  sync.Mutex
	object *databasev1alpha1.PostgreSQL
	// fromVolume means that object was loaded from the volume: the API server may have a newer one.
	fromVolume bool
	saved      []byte
}

// Get returns the object, nil before it was ever seen, and whether it is only known from the volume. The caller must not change
// it.
func (s *objectStore) Get() (object *databasev1alpha1.PostgreSQL, kept bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.object, s.fromVolume
}

// Load reads the object from the volume; there may be none. An unreadable file counts as none, so a damaged file keeps no
// instance down: the API server has the object. Load fails if the file belongs to another PostgreSQL.
func (s *objectStore) Load() error {
	content, err := os.ReadFile(s.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	object := &databasev1alpha1.PostgreSQL{}
	if err == nil {
		err = json.Unmarshal(content, object)
	}
	if err != nil {
		s.log.Warn("failed to load PostgreSQL object from the volume: waiting for the API server", "file", s.file, "error", err.Error())
		return nil
	}
	if object.Name != s.name {
		return fmt.Errorf("last known object in %s is of %q, not of %q: the volume belongs to another PostgreSQL", s.file, object.Name, s.name)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.object == nil {
		s.object, s.fromVolume, s.saved = object, true, content
	}
	return nil
}

func (s *objectStore) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.follow(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("failed to read PostgreSQL object", "error", err.Error())
		}
		sleep(ctx, objectPause)
	}
}

func (s *objectStore) follow(ctx context.Context) error {
	each, cancel := context.WithTimeout(ctx, apiTimeout)
	object := &databasev1alpha1.PostgreSQL{}
	err := s.api.Get().Namespace(s.namespace).Resource(resourcePostgreSQL).Name(s.name).Do(each).Into(object)
	cancel()
	if err != nil {
		return fmt.Errorf("read PostgreSQL %s: %w", s.name, err)
	}
	s.store(object)
	each, cancel = context.WithTimeout(ctx, objectWatch)
	defer cancel()
	all := s.api.Get().Namespace(s.namespace).Resource(resourcePostgreSQL)
	return watchOne(each, all, s.name, object.ResourceVersion, func(event watch.Event) bool {
		seen, ok := event.Object.(*databasev1alpha1.PostgreSQL)
		if !ok || event.Type == watch.Deleted {
			return false // the next read shows what is wrong
		}
		s.store(seen)
		return true
	})
}

// store keeps the object, and saves it on the volume if a relevant part has changed.
func (s *objectStore) store(object *databasev1alpha1.PostgreSQL) {
	object = trim(object)
	content, err := json.Marshal(object)
	if err != nil {
		s.log.Error("failed to encode PostgreSQL object", "error", err.Error())
		return
	}
	s.mutex.Lock()
	same := string(content) == string(s.saved)
	s.object, s.fromVolume, s.saved = object, false, content
	s.mutex.Unlock()
	if same {
		return
	}
	s.changed()
	if s.valid(object) != nil {
		return
	}
	if err := server.WriteFile(s.file, content); err != nil {
		s.log.Warn("failed to save PostgreSQL object on the volume", "error", err.Error())
	}
}

// trim removes everything that an instance does not depend on.
func trim(in *databasev1alpha1.PostgreSQL) *databasev1alpha1.PostgreSQL {
	out := &databasev1alpha1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Name: in.Name, Namespace: in.Namespace, UID: in.UID, Generation: in.Generation},
		Spec:       in.Spec,
	}
	for _, key := range []string{databasev1alpha1.AnnotationFenced, databasev1alpha1.AnnotationSwitchover, databasev1alpha1.AnnotationReclone, databasev1alpha1.AnnotationAcceptDataLoss, databasev1alpha1.AnnotationVolumes} {
		if value, ok := in.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	return out
}

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
