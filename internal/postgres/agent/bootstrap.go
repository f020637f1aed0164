package agent

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// firstData makes the data directory of a new cluster, an empty one or a copy of a server, with programs of the version that
// the object asks for alone.
func (a *Agent) firstData(object *databasev1alpha1.PostgreSQL) func(context.Context) error {
	initdb := object.Spec.Bootstrap.Initdb
	options := server.InitOptions{Locale: initdb.Locale, ICULocale: initdb.ICULocale, WALSegmentSize: int(initdb.WALSegmentSizeMB)}
	wrong := a.sameMajor(object)
	return func(ctx context.Context) error {
		if wrong != nil {
			return wrong
		}
		if object.Spec.Bootstrap.PgBasebackup != nil {
			return a.imported(ctx, object.Spec.Bootstrap.PgBasebackup)
		}
		if err := a.unmark(); err != nil {
			return err
		}
		return a.server.Init(ctx, options)
	}
}

// sameMajor says that the image is of another major version than the object, whose parameters are judged by its version.
func (a *Agent) sameMajor(object *databasev1alpha1.PostgreSQL) error {
	first, _, _ := strings.Cut(object.Spec.Version, ".")
	if object.Spec.Version == "" || first == strconv.Itoa(a.major) {
		return nil
	}
	return fmt.Errorf("spec.version is %s, and the image has PostgreSQL %s: set spec.image to an image of version %s", object.Spec.Version, a.version, first)
}
