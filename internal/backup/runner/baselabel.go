package runner

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// baseBackup is what is known of a base backup from its contents.
type baseBackup struct {
	label label
	// end is the position up to which it must be recovered.
	end wal.LSN
}

// label is the content of backup_label.
type label struct {
	start    wal.LSN
	segment  string
	timeline wal.Timeline
}

// read reads the archive to its end while it is stored. An error says why it is not complete. PostgreSQL sends its control file
// last, and pg_basebackup adds the manifest of PostgreSQL.
func (b *baseBackup) read(_ context.Context, dump io.Reader) error {
	const labelName, lastName, manifestName, maxLabel = "backup_label", "global/pg_control", "backup_manifest", 64 << 10
	entries, labelled, controlled := tar.NewReader(&skipper{Reader: bufio.NewReaderSize(dump, copySize)}), false, false
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the base backup: %w", err)
		}
		switch header.Name {
		case lastName:
			controlled = header.Size > 0
		case labelName:
			content, err := io.ReadAll(io.LimitReader(entries, maxLabel))
			if err == nil {
				b.label, err = parseLabel(content)
			}
			if err != nil {
				return err
			}
			labelled = true
		case manifestName:
			if b.end, err = endOfBackup(entries); err != nil {
				return err
			}
		}
	}
	if !labelled || !controlled || b.end == 0 {
		return errors.New("backup_label, pg_control or backup_manifest is missing")
	}
	return nil
}

// lastRange is the end of the WAL that a base backup needs, in its manifest. The newest timeline is the first.
var lastRange = regexp.MustCompile(`"WAL-Ranges": \[\s*\{ "Timeline": [0-9]+, "Start-LSN": "[0-9A-F/]+", "End-LSN": "([0-9A-F]+/[0-9A-F]+)" \}`)

// endOfBackup reads the manifest of PostgreSQL. It has a line for each file, and this is after them: only the end is kept. The position
// of the server, later, is not a substitute: it may be in a segment that an idle server does not complete.
func endOfBackup(manifest io.Reader) (wal.LSN, error) {
	const keep = 16 << 10
	var tail, chunk []byte = nil, make([]byte, keep)
	for {
		n, err := manifest.Read(chunk)
		tail = append(tail, chunk[:n]...)
		tail = tail[max(0, len(tail)-keep):]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read the base backup: %w", err)
		}
	}
	match := lastRange.FindSubmatch(tail)
	if match == nil {
		return 0, errors.New("backup_manifest does not tell the end of the base backup")
	}
	return wal.ParseLSN(string(match[1]))
}

// skipper lets the reader of an archive skip files without a copy.
type skipper struct {
	*bufio.Reader

	at int64 // relative to where the skips began
}

// Seek moves forward from the current position: all that package tar needs.
func (s *skipper) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || offset < 0 {
		return s.at, errors.ErrUnsupported
	}
	skipped, err := s.Discard(int(offset))
	s.at += int64(skipped)
	return s.at, err
}

var (
	labelStart    = regexp.MustCompile(`(?m)^START WAL LOCATION: ([0-9A-F]+/[0-9A-F]+) \(file ([0-9A-F]{24})\)$`)
	labelTimeline = regexp.MustCompile(`(?m)^START TIMELINE: ([0-9]+)$`)
)

func parseLabel(content []byte) (out label, err error) {
	start, timeline := labelStart.FindSubmatch(content), labelTimeline.FindSubmatch(content)
	if start == nil || timeline == nil {
		return out, errors.New("backup_label has no position or no timeline")
	}
	number, err := strconv.ParseUint(string(timeline[1]), 10, 32)
	if err != nil {
		return out, fmt.Errorf("backup_label: %w", err)
	}
	out.segment, out.timeline = string(start[2]), wal.Timeline(number)
	out.start, err = wal.ParseLSN(string(start[1]))
	return out, err
}
