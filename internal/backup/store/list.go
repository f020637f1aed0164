package store

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"gocloud.dev/blob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// pageSize is how many objects a store lists in one answer.
const pageSize = 1000

// List yields the objects whose names start with prefix, without those that Write could not have named.
func (s *Store) List(ctx context.Context, prefix string, yield func(name string, size int64) error) error {
	if plain := strings.TrimSuffix(prefix, "/"); plain != "" {
		if err := validPath(plain); err != nil {
			return invalid(err)
		}
	}
	for page := blob.FirstPageToken; len(page) > 0; {
		objects, next, err := s.page(ctx, prefix, page)
		if err != nil {
			return err
		}
		for _, object := range objects {
			name, ok := strings.CutPrefix(object.Key, s.where.folder)
			if !ok || !strings.HasPrefix(name, prefix) || validPath(name) != nil {
				continue
			}
			if err := yield(name, object.Size); err != nil {
				return err
			}
		}
		page = next
	}
	return nil
}

// page returns a page of a list, and how to ask for the next one; nil after the last one.
func (s *Store) page(ctx context.Context, prefix string, page []byte) (objects []*blob.ListObject, next []byte, err error) {
	err = s.answered(func() (err error) {
		objects, next, err = s.bucket.ListPage(ctx, page, pageSize, &blob.ListOptions{Prefix: s.where.folder + prefix})
		return err
	})
	if err == nil && bytes.Equal(page, next) {
		err = s.strange("the list repeats itself")
	}
	return objects, next, s.fail(ctx, opList, prefix, err)
}

// AbortUploads aborts uploads of objects whose names start with prefix that were begun before a time, and have not ended: those of a program
// that was killed. Google and Microsoft delete such uploads after a week. S3 keeps them.
func (s *Store) AbortUploads(ctx context.Context, prefix string, before time.Time) {
	abortUploads(ctx, s.bucket, s.where.bucket, s.where.folder+prefix, func(_ string, begun time.Time) bool {
		return !begun.IsZero() && begun.Before(before)
	})
}

// attributes of the object with a key. Without one, the error is ErrNotFound.
func (s *Store) attributes(ctx context.Context, key, name string) (a *blob.Attributes, err error) {
	err = s.answered(func() (err error) { a, err = s.bucket.Attributes(ctx, key); return err })
	return a, s.fail(ctx, opRead, name, err)
}

// answered calls a library. Those of S3 and Azure panic if an answer lacks what their own stores always send, such as the times in a list.
func (s *Store) answered(call func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = s.strange(fmt.Sprint(cause))
		}
	}()
	return call()
}

// strange is the error of an answer that no store of this type gives.
func (s *Store) strange(what string) error {
	return &Error{Reason: backupv1alpha1.ReasonStoreFailed, Permanent: true, Message: fmt.Sprintf(
		"%s://%s%s does not answer as a store of type %s: set endpoint to the store itself (%s)",
		schemes[s.where.kind], s.where.bucket, s.at(), s.where.kind, s.redact.text(what))}
}
