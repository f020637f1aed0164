package faults

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/testenv/fakepg"
)

const (
	physical = `{postgresRef: shop, method: Physical, destination: {uri: "s3://backups"}, suspend: true}`
	inPlace  = `{from: {backup: base}, to: {postgresRef: shop}, overwrite: shop, targetTime: "2026-03-01T12:00:00Z"}`
)

var inPlaceChildren = append([]schema.GroupVersionResource{bkpBackups, bkpRestores}, pgChildren...)

// inPlaceSteps are a restore of a PostgreSQL in place that succeeds, and one that fails and is taken back.
func inPlaceSteps() []Step {
	return []Step{
		{Name: "create", Do: func(ctx context.Context, w *Client) error {
			return errors.Join(setsPostgreSQL(oneInstance)(ctx, w), creates(&backupv1alpha1.Backup{}, "base", physical)(ctx, w))
		}, Converged: pgRuns(1)},
		{Name: "restore in place", Do: creates(&backupv1alpha1.Restore{}, "good", inPlace), Converged: all(phaseIs(bkpRestores, "good", "Succeeded"), volumesAre(2))},
		{Name: "a restore that fails", Do: func(ctx context.Context, w *Client) error {
			kubeletOf(w.Namespace).Update(func(p *fakepg.Kubelet) {
				p.ChangeStatus[pgName+"-0"] = func(s *agentapi.Status) {
					if s.Volumes > 2 {
						s.Ready, s.Reason, s.Message = false, databasev1alpha1.ReasonTargetTooEarly, "choose a later target"
					}
				}
			})
			return creates(&backupv1alpha1.Restore{}, "early", inPlace)(ctx, w)
		}, Converged: all(phaseIs(bkpRestores, "early", "Failed"), volumesAre(2))},
	}
}

// volumesAre requires that the PostgreSQL runs on these volumes, that nothing restores it any more, and that its first volume is kept.
func volumesAre(want int64) func(View) error {
	return func(v View) error {
		if err := pgRuns(1)(v); err != nil {
			return err
		}
		pg := v.Get(postgreSQLs, pgName)
		is, _, _ := unstructured.NestedInt64(pg.Object, "status", "volumes")
		_, restored := pg.GetAnnotations()[databasev1alpha1.AnnotationRecovery]
		if is != want || restored || v.Get(pgClaims, agentapi.Claim(pgName, 1, 0)) == nil {
			return fmt.Errorf("runs on the volumes %d with %v, not yet on %d", is, pg.GetAnnotations(), want)
		}
		return nil
	}
}

// inPlaceRules inject faults into the writes that the restore and the PostgreSQL agree by. Other scenarios have those to its children.
func inPlaceRules() Rules {
	rules := pgRules(false)
	rules.Rotation *= 2
	skip, valid := rules.SkipByDefault, backupRules().InvalidChange
	rules.SkipByDefault = func(p Plan) bool {
		return skip(p) || p.Object.Resource != bkpRestores && p.Object.Resource != postgreSQLs
	}
	rules.InvalidChange = func(before, after *unstructured.Unstructured) error {
		if before.GetKind() == "Restore" {
			return valid(before, after)
		}
		return regenerated(before, after)
	}
	rules.Normalize = func(kind Kind, o *unstructured.Unstructured) {
		normalizePostgreSQL(kind, o)
		if o.GetKind() == "Restore" {
			unstructured.RemoveNestedField(o.Object, "status", "startTime")
			unstructured.RemoveNestedField(o.Object, "status", "completionTime")
		}
	}
	return rules
}
