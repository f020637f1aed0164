package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// measureCreation measures how long a new PostgreSQL takes until its first instance is Ready, and until all are Ready. It then deletes the
// PostgreSQL.
func (s *suite) measureCreation(ctx context.Context, r row, number int) ([]Result, error) {
	pg, err := s.newDatabase(fmt.Sprintf("new-%d", number))
	if err != nil {
		return nil, err
	}
	s.onCleanup("delete "+pg.Name, func(ctx context.Context) error {
		if err := client.IgnoreNotFound(s.client.Delete(ctx, pg)); err != nil {
			return err
		}
		return s.waitDeleted(ctx, pg)
	})
	first := Result{Row: r.name, Title: r.title, Operator: s.mode, Synchronous: s.Synchronous, Number: number, Limit: r.limit}
	all := first
	all.Title, all.Limit = "three instances Ready after apply", 20*time.Second
	begun := time.Now()
	if err := s.client.Create(ctx, pg); err != nil {
		return nil, err
	}
	err = waitFor(ctx, settleTime, "ready instances", func(ctx context.Context) error {
		pods, err := s.pods(ctx, pg.Name)
		count := 0
		for _, pod := range pods {
			if ready(&pod) {
				count++
			}
		}
		if count > 0 && first.Gap == 0 {
			first.Gap = time.Since(begun)
		}
		if count == instances {
			return nil
		}
		return errors.Join(fmt.Errorf("%d are", count), err)
	})
	all.Gap = time.Since(begun)
	return []Result{first, all}, err
}

// waitDeleted waits until no object of a PostgreSQL is left that would conflict with the next one.
func (s *suite) waitDeleted(ctx context.Context, pg client.Object) error {
	return waitFor(ctx, cleanupTimeout, pg.GetName()+" to go", func(ctx context.Context) error {
		pods, err := s.pods(ctx, pg.GetName())
		if err != nil || len(pods) > 0 {
			return errors.Join(fmt.Errorf("%d pods are left", len(pods)), err)
		}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(pg), pg); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the PostgreSQL is still there"), err)
		}
		return nil
	})
}
