package walarchive

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// compressed is the suffix of segments in the store.
const compressed = ".zst"

// timelineDigits are the digits of a timeline at the start of a name. The rest of a segment's name is its position: names of one
// timeline sort by position.
const timelineDigits = 8

var (
	segmentName = regexp.MustCompile(`^[0-9A-F]{24}$`)
	partialName = regexp.MustCompile(`^[0-9A-F]{24}\.partial$`)
	labelName   = regexp.MustCompile(`^[0-9A-F]{24}\.[0-9A-F]{8}\.backup$`)
	historyName = regexp.MustCompile(`^[0-9A-F]{8}\.history$`)
	systemID    = regexp.MustCompile(`^[0-9]{1,20}$`)
)

// IsSegment reports whether name is that of a complete segment.
func IsSegment(name string) bool { return segmentName.MatchString(name) }

// objectName returns the name of a file of pg_wal in the store, below the folder of the system.
func objectName(name string) (string, error) {
	switch {
	case segmentName.MatchString(name), partialName.MatchString(name):
		return path.Join(name[:timelineDigits], name) + compressed, nil
	case labelName.MatchString(name):
		return path.Join(name[:timelineDigits], name), nil
	case historyName.MatchString(name):
		return name, nil
	}
	return "", fmt.Errorf("%q is no name of a WAL file", name)
}

// timelineFolder is the folder of the segments of a timeline.
func timelineFolder(timeline uint32) string { return fmt.Sprintf("%08X", timeline) }

// timelineOf returns the timeline at the start of a name.
func timelineOf(name string) (uint32, bool) {
	if len(name) < timelineDigits {
		return 0, false
	}
	timeline, err := strconv.ParseUint(name[:timelineDigits], 16, 32)
	return uint32(timeline), err == nil && timeline > 0
}

// positionOf returns the position of a segment, partial segment or backup label in the store; "" for other files.
func positionOf(object string) string {
	name := strings.TrimSuffix(path.Base(object), compressed)
	if len(name) < len("000000010000000000000001") || !segmentName.MatchString(name[:24]) {
		return ""
	}
	return name[timelineDigits:24]
}

// Next returns the segment after name on the same timeline. segmentSize is in bytes.
func Next(name string, segmentSize int64) (string, error) {
	if !segmentName.MatchString(name) || segmentSize <= 0 {
		return "", fmt.Errorf("%q is no WAL segment", name)
	}
	high, errHigh := strconv.ParseUint(name[8:16], 16, 32)
	low, errLow := strconv.ParseUint(name[16:], 16, 32)
	if errHigh != nil || errLow != nil {
		return "", fmt.Errorf("%q is no WAL segment", name)
	}
	perFile := uint64(1<<32) / uint64(segmentSize) // PostgreSQL starts the low number again after 4 GiB
	if low++; low >= perFile {
		high, low = high+1, 0
	}
	return fmt.Sprintf("%s%08X%08X", name[:timelineDigits], high, low), nil
}
