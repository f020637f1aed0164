package rollout

import (
	"strings"
	"time"
)

// firstPublication ends the annotation of contents that replaced none.
const firstPublication = " first"

// PublishedAt returns the PublishedAnnotation of contents that are about to be written. live is the annotation of the existing object (in
// versioned mode: of the previous version), existed whether there is one, and changed whether the contents differ.
func PublishedAt(live string, existed, changed bool, now time.Time) string {
	at := now.UTC().Format(time.RFC3339)
	switch {
	case !existed:
		return at + firstPublication
	case changed || live == "":
		return at
	default:
		return live
	}
}

// parsePublishedAt returns when contents were published, and whether they were the first. An invalid annotation gives the zero time.
func parsePublishedAt(stamp string) (at time.Time, first bool) {
	text, first := strings.CutSuffix(stamp, firstPublication)
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && first
}
