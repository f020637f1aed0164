// Package manifest reads and writes the descriptions of complete backups. docs/backup-format.md describes them for people.
package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

// Format is the version of the layout. A reader refuses newer ones.
const Format = 1

const (
	folder   = "runs"
	fileName = "manifest.json"
	maxSize  = 8 << 20 // of a manifest in bytes
	maxParts = 100_000
)

// ErrInvalid reports a manifest that is damaged, or from a newer version.
var ErrInvalid = errors.New("invalid manifest")

// Manifest describes a complete backup. It is written last: what has no manifest is not a backup.
type Manifest struct {
	Format    int    `json:"format"`
	Namespace string `json:"namespace"`
	Backup    string `json:"backup"`
	Run       string `json:"run"`
	// Method is Logical or Physical.
	Method string `json:"method"`
	// Type of the server: PostgreSQL, MySQL or MongoDB.
	Type          string    `json:"type"`
	ServerVersion string    `json:"serverVersion"`
	Started       time.Time `json:"started"`
	Completed     time.Time `json:"completed"`
	Compression   string    `json:"compression"`
	Encrypted     bool      `json:"encrypted"`
	Parts         []Part    `json:"parts"`
	// Programs are the versions of the programs by name.
	Programs map[string]string `json:"programs,omitempty"`
	// Physical is set for this method only.
	Physical *Physical `json:"physical,omitempty"`
}

// Part is a dump or a base backup, in one object or in several.
type Part struct {
	// Name of the object, or of the first one, below the folder of the run.
	Name     string `json:"name"`
	Database string `json:"database,omitempty"`
	// Objects is the number of tables and other objects of users in the database; 0 if there are none, or if it is not known.
	Objects int64 `json:"objects,omitempty"`
	// Size in the store, and RawSize before compression, in bytes.
	Size    int64 `json:"size"`
	RawSize int64 `json:"rawSize"`
	// SHA256 of what the store has, in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Segments are the objects of a part that is too large for one. Read it with Open.
	Segments []Segment `json:"segments,omitempty"`
}

// Physical is what recovery needs to know of a base backup.
type Physical struct {
	SystemIdentifier string `json:"systemIdentifier"`
	Timeline         uint32 `json:"timeline"`
	StartLSN         string `json:"startLSN"`
	EndLSN           string `json:"endLSN"`
	// StartWAL is the first WAL segment that recovery needs.
	StartWAL string `json:"startWAL"`
	// WALSegmentSize in bytes.
	WALSegmentSize int64 `json:"walSegmentSize"`
}

var (
	labelPattern  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	partPattern   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@+=-]{0,254}$`)
	sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
	lsnPattern    = regexp.MustCompile(`^[0-9A-F]{1,8}/[0-9A-F]{1,8}$`)
	walPattern    = regexp.MustCompile(`^[0-9A-F]{24}$`)
	systemPattern = regexp.MustCompile(`^[0-9]{1,20}$`)
)

// Folder returns the folder of a run in the store.
func Folder(run string) string { return path.Join(folder, run) }

// object returns the name of the manifest of a run.
func object(run string) string { return path.Join(folder, run, fileName) }

// Size of the backup in the store, in bytes.
func (m *Manifest) Size() int64 {
	size := int64(0)
	for _, part := range m.Parts {
		size += part.Size
	}
	return size
}

// Validate returns ErrInvalid if a field cannot be.
func (m *Manifest) Validate() error {
	if m.Format != Format {
		return invalid("format %d is not known, only %d: use a newer version of Fettle", m.Format, Format)
	}
	for _, name := range []string{m.Namespace, m.Backup, m.Run} {
		if !labelPattern.MatchString(name) {
			return invalid("%q is not a name", name)
		}
	}
	if m.Completed.IsZero() || m.Started.IsZero() || m.Completed.Before(m.Started) {
		return invalid("started %s and completed %s cannot be", m.Started, m.Completed)
	}
	if len(m.Parts) == 0 || len(m.Parts) > maxParts {
		return invalid("a backup has 1 to %d parts, not %d", maxParts, len(m.Parts))
	}
	seen := map[string]bool{fileName: true}
	for _, part := range m.Parts {
		if err := part.validate(seen); err != nil {
			return err
		}
	}
	return m.validateMethod()
}

func (m *Manifest) validateMethod() error {
	switch backupv1alpha1.BackupMethod(m.Method) {
	case backupv1alpha1.MethodLogical:
		if m.Physical != nil {
			return invalid("method Logical has no field physical")
		}
		return nil
	case backupv1alpha1.MethodPhysical:
	default:
		return invalid("method %q is not known", m.Method)
	}
	p := m.Physical
	switch {
	case p == nil:
		return invalid("method Physical needs the field physical")
	case !systemPattern.MatchString(p.SystemIdentifier), p.Timeline == 0, !walPattern.MatchString(p.StartWAL):
		return invalid("system identifier %q, timeline %d or WAL segment %q cannot be", p.SystemIdentifier, p.Timeline, p.StartWAL)
	case !lsnPattern.MatchString(p.StartLSN), !lsnPattern.MatchString(p.EndLSN):
		return invalid("LSN %q or %q cannot be", p.StartLSN, p.EndLSN)
	case p.WALSegmentSize < 1<<20 || p.WALSegmentSize > 1<<30 || p.WALSegmentSize&(p.WALSegmentSize-1) != 0:
		return invalid("WAL segments cannot have %d bytes", p.WALSegmentSize)
	}
	return nil
}

func invalid(format string, values ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, values...))
}

// Encode returns the manifest as JSON.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return append(raw, '\n'), nil
}

// Decode reads and validates a manifest. Its errors are ErrInvalid.
func Decode(raw []byte) (*Manifest, error) {
	m := &Manifest{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(m); err != nil {
		return nil, invalid("%v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid("something follows the JSON object")
	}
	return m, m.Validate()
}

// Write validates and stores the manifest, and reads it back.
func Write(ctx context.Context, s *store.Store, m *Manifest) error {
	raw, err := m.Encode()
	if err != nil {
		return err
	}
	if _, err := s.Write(ctx, object(m.Run), nil, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}); err != nil {
		return err
	}
	want, err := Decode(raw)
	if err != nil {
		return err
	}
	got, err := Read(ctx, s, m.Run)
	if err == nil && !reflect.DeepEqual(got, want) {
		err = &store.Error{Reason: backupv1alpha1.ReasonStoredDiffers,
			Message: fmt.Sprintf("%s: the store has another manifest than was sent: check the store", s.URI(object(m.Run)))}
	}
	return err
}

// Read returns the manifest of a run. The error is store.ErrNotFound without one, and ErrInvalid if it is damaged or of another run.
func Read(ctx context.Context, s *store.Store, run string) (*Manifest, error) {
	r, err := s.Read(ctx, object(run))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	if len(raw) > maxSize {
		return nil, invalid("it is larger than %d bytes", maxSize)
	}
	m, err := Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.URI(object(run)), err)
	}
	if m.Run != run {
		return nil, fmt.Errorf("%s: %w", s.URI(object(run)), invalid("it is of run %q", m.Run))
	}
	return m, nil
}

// List returns the complete backups, the oldest first, and the runs whose manifest is damaged.
func List(ctx context.Context, s *store.Store) (complete []*Manifest, damaged []string, err error) {
	var runs []string
	err = s.List(ctx, folder+"/", func(name string, _ int64) error {
		run, file := path.Split(strings.TrimPrefix(name, folder+"/"))
		if run = strings.TrimSuffix(run, "/"); file == fileName && labelPattern.MatchString(run) {
			runs = append(runs, run)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, run := range runs {
		m, err := Read(ctx, s, run)
		switch {
		case errors.Is(err, ErrInvalid):
			damaged = append(damaged, run)
		case errors.Is(err, store.ErrNotFound): // deleted since
		case err != nil:
			return nil, nil, err
		default:
			complete = append(complete, m)
		}
	}
	slices.SortFunc(complete, func(a, b *Manifest) int {
		if order := a.Completed.Compare(b.Completed); order != 0 {
			return order
		}
		return strings.Compare(a.Run, b.Run)
	})
	return complete, damaged, nil
}

// Delete deletes a backup: first the manifest, so that what an interruption leaves is not a backup.
func Delete(ctx context.Context, s *store.Store, run string) error {
	if err := s.Delete(ctx, object(run)); err != nil {
		return err
	}
	var names []string
	if err := s.List(ctx, Folder(run)+"/", func(name string, _ int64) error {
		names = append(names, name)
		return nil
	}); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
