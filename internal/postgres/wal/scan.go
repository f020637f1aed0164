package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Format of the WAL, the same from PostgreSQL 13 to 18: pages with a header, and records that may span pages.
const (
	pageSize        = 8192
	shortHeader     = 24
	longHeader      = 40 // on the first page of a segment
	recordHeader    = 24
	infoOffset      = 16 // in the header of a record
	rmgrOffset      = 17
	crcOffset       = 20
	infoMask        = 0xF0
	infoSwitch      = 0x40 // of rmgrXLOG: the next record is in the next segment
	rmgrXLOG        = 0
	maxRecord       = 1 << 30
	flagContinued   = 0x0001 // the page starts with the rest of a record
	flagOverwritten = 0x0008 // the page overwrites the rest of an incomplete record
)

// segmentFile is the name of the file in pg_wal that contains a position.
func segmentFile(timeline Timeline, at LSN, segmentSize int64) string {
	size := LSN(segmentSize) //nolint:gosec // sizes are positive
	perID := LSN(1<<32) / size
	number := at / size
	return fmt.Sprintf("%08X%08X%08X", uint32(timeline), uint32(number/perID), uint32(number%perID)) //nolint:gosec // by the form
}

// OpenSegment opens a segment file by name (see segmentFile). It returns os.ErrNotExist if there is none.
type OpenSegment func(name string) (io.ReadCloser, error)

// errEndOfWAL means that no further record can be read.
var errEndOfWAL = errors.New("end of WAL")

// Scan reads the records of a timeline from Start, which must be the start of a record. An interrupted scan can be resumed.
type Scan struct {
	Timeline Timeline
	Start    LSN

	end, previous LSN
}

// End returns the end of the last complete record, with a valid checksum and the right predecessor. Crash recovery would
// stop there.
func (s *Scan) End(ctx context.Context, segmentSize int64, open OpenSegment) (LSN, error) {
	s.end = max(s.end, s.Start)
	r := &reader{ctx: ctx, timeline: s.Timeline, segmentSize: LSN(segmentSize), open: open, page: make([]byte, pageSize)} //nolint:gosec // positive
	defer r.close()
	for {
		at, next, err := r.record(s.end, s.previous)
		if errors.Is(err, errEndOfWAL) || errors.Is(err, os.ErrNotExist) {
			return s.end, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read WAL at %s: %w", s.end, err)
		}
		if at != 0 {
			s.previous = at
		}
		s.end = next
	}
}

// reader reads the pages of a timeline in order.
type reader struct {
	ctx         context.Context
	timeline    Timeline
	segmentSize LSN
	open        OpenSegment

	file io.ReadCloser
	// pageStart is the position of page. It is 0 before the first page.
	pageStart LSN
	page      []byte
	body      []byte
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close() // opened for reading
	}
	r.file = nil
}

// header is the size of the header of a page.
func (r *reader) header(page LSN) LSN {
	if page%r.segmentSize == 0 {
		return longHeader
	}
	return shortHeader
}

// load reads the page at a position.
func (r *reader) load(page LSN) error {
	if page == r.pageStart && r.pageStart != 0 {
		return nil
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.file == nil || page%r.segmentSize == 0 {
		r.close()
		file, err := r.open(segmentFile(r.timeline, page, int64(r.segmentSize))) //nolint:gosec // it was one
		if err != nil {
			return err
		}
		r.file = file
		if _, err := io.CopyN(io.Discard, file, int64(page%r.segmentSize)); err != nil { //nolint:gosec // less than a segment
			return endOfWAL(err)
		}
	}
	r.pageStart = page
	if _, err := io.ReadFull(r.file, r.page); err != nil {
		return endOfWAL(err)
	}
	if LSN(binary.NativeEndian.Uint64(r.page[8:])) != page {
		return errEndOfWAL // a recycled segment
	}
	return nil
}

// endOfWAL converts the end of a file to errEndOfWAL.
func endOfWAL(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errEndOfWAL
	}
	return err
}

func (r *reader) flags() uint16 { return binary.NativeEndian.Uint16(r.page[2:]) }

// record reads the record at from, after the record at previous (0 if unknown). It returns where the record starts after
// the page header, and where it ends. at is 0 for an overwritten record.
func (r *reader) record(from, previous LSN) (at, next LSN, err error) {
	at = from
	if at%pageSize == 0 {
		at += r.header(at)
	}
	if err := r.load(at - at%pageSize); err != nil {
		return 0, 0, err
	}
	// The length never crosses the end of a page: records are aligned to eight bytes.
	length := binary.NativeEndian.Uint32(r.page[at%pageSize:])
	if length < recordHeader || length > maxRecord {
		return 0, 0, errEndOfWAL
	}
	next, overwritten, err := r.collect(at, int(length))
	if err != nil || overwritten {
		return 0, next, err
	}
	if err := r.verify(previous); err != nil {
		return 0, 0, err
	}
	if r.body[rmgrOffset] == rmgrXLOG && r.body[infoOffset]&infoMask == infoSwitch {
		next = (next + r.segmentSize - 1) / r.segmentSize * r.segmentSize // the rest of the segment is empty
	}
	return at, next, nil
}

// collect joins the parts of a record.
func (r *reader) collect(at LSN, length int) (next LSN, overwritten bool, err error) {
	r.body = r.body[:0]
	for {
		part := r.page[at%pageSize:]
		part = part[:min(len(part), length-len(r.body))]
		r.body = append(r.body, part...)
		at += LSN(len(part))
		if len(r.body) == length {
			return (at + 7) &^ 7, false, nil
		}
		if err := r.load(at); err != nil {
			return 0, false, err
		}
		if r.flags()&flagOverwritten != 0 {
			return at, true, nil
		}
		if r.flags()&flagContinued == 0 || int(binary.NativeEndian.Uint32(r.page[16:])) != length-len(r.body) {
			return 0, false, errEndOfWAL
		}
		at += r.header(at)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verify checks the checksum of the record and its link to the previous record.
func (r *reader) verify(previous LSN) error {
	sum := crc32.Update(0, castagnoli, r.body[recordHeader:])
	sum = crc32.Update(sum, castagnoli, r.body[:crcOffset])
	if sum != binary.NativeEndian.Uint32(r.body[crcOffset:]) {
		return errEndOfWAL
	}
	if previous != 0 && LSN(binary.NativeEndian.Uint64(r.body[8:])) != previous {
		return errEndOfWAL
	}
	return nil
}
