package v1alpha1

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// maxVolumes is the highest number of volumes.
const maxVolumes = 999

// RequestedVolumes returns the number of the volumes that the annotation fettle.dev/volumes asks for, 1 without it. ok is false if the
// annotation is no number from 1 to 999.
func (pg *PostgreSQL) RequestedVolumes() (number int, ok bool) {
	text, set := pg.Annotations[AnnotationVolumes]
	if !set {
		return 1, true
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > maxVolumes || strconv.Itoa(number) != text {
		return 0, false
	}
	return number, true
}

// RestoredBy returns the name and the UID of the Restore that restores pg in place; "" for none.
func (pg *PostgreSQL) RestoredBy() (name string, uid types.UID) {
	name, id, _ := strings.Cut(pg.Annotations[AnnotationRecovery], "/")
	return name, types.UID(id)
}
