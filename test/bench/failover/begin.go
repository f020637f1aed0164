package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// begin measures how long a new PostgreSQL takes until one of its instances, or all of them, are Ready. It is deleted then.
func (s *suite) begin(ctx context.Context, r row, number int) (Result, error) {
	result := Result{
		Row: r.name, Title: r.title, Operator: s.mode, Synchronous: s.Synchronous, Number: number, Limit: r.limit,
	}
	pg, err := s.newDatabase(fmt.Sprintf("new-%d", number))
	if err != nil {
		return result, err
	}
	s.later("delete "+pg.Name, func(ctx context.Context) error {
		if err := client.IgnoreNotFound(s.client.Delete(ctx, pg)); err != nil {
			return err
		}
		return s.gone(ctx, pg)
	})
	wanted := 1
	if r.name != "start" {
		wanted = instances
	}
	begun := time.Now()
	if err := s.client.Create(ctx, pg); err != nil {
		return result, err
	}
	err = until(ctx, settleTime, "instances that are ready", func(ctx context.Context) error {
		pods, err := s.pods(ctx, pg.Name)
		count := 0
		for _, pod := range pods {
			if ready(&pod) {
				count++
			}
		}
		if count >= wanted {
			return nil
		}
		return errors.Join(fmt.Errorf("%d of %d are", count, wanted), err)
	})
	result.Gap = time.Since(begun)
	return result, err
}

// gone waits until nothing of a PostgreSQL is left that would get in the way of the next.
func (s *suite) gone(ctx context.Context, pg client.Object) error {
	return until(ctx, cleanUp, pg.GetName()+" to go", func(ctx context.Context) error {
		pods, err := s.pods(ctx, pg.GetName())
		if err != nil || len(pods) > 0 {
			return errors.Join(fmt.Errorf("%d pods are left", len(pods)), err)
		}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(pg), pg); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is still there"), err)
		}
		return nil
	})
}
