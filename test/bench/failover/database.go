package failover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/test/acks"
)

const (
	// name of the PostgreSQL, and its number of instances.
	name, instances = "db", 3
	// writer is the clients' role and database.
	writer = "writer"
	// settleTime is how long the cluster may take to become healthy.
	settleTime = 5 * time.Minute
	// pollInterval is the time between two checks of a condition.
	pollInterval = 100 * time.Millisecond
)

// manifest is a typical database: its share of the CPU does not depend on other processes.
const manifest = `
spec:
  version: "15"
  storage: 1Gi
  replicas: 3
  deletionPolicy: Delete
  roles: [{name: writer, inRoles: [pg_monitor]}]
  databases: [{name: writer, owner: writer}]
  resources: {requests: {cpu: 250m, memory: 256Mi}}
`

// newDatabase returns a PostgreSQL with three instances.
func (s *suite) newDatabase(name string) (*databasev1alpha1.PostgreSQL, error) {
	pg := &databasev1alpha1.PostgreSQL{}
	if err := yaml.UnmarshalStrict([]byte(manifest), pg); err != nil {
		return nil, err
	}
	pg.Name, pg.Namespace = name, s.Namespace
	if s.Synchronous {
		pg.Spec.Synchronous = &databasev1alpha1.PostgreSQLSynchronous{Number: 1}
	}
	return pg, nil
}

func (s *suite) database() *databasev1alpha1.PostgreSQL {
	return &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
}

// create creates the namespace and, unless only creations are measured, the PostgreSQL with the clients' table.
func (s *suite) create(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	if err := s.client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("create namespace %s (-namespace selects another): %w", s.Namespace, err)
	}
	s.onCleanup("delete the namespace", func(ctx context.Context) error {
		err := errors.Join(client.IgnoreNotFound(s.client.Delete(ctx, s.database())), s.client.Delete(ctx, namespace))
		if err != nil {
			return err
		}
		return waitFor(ctx, cleanupTimeout, "deletion of the namespace", func(ctx context.Context) error {
			err := s.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("the namespace is still there"), err)
		})
	})
	pg, err := s.newDatabase(name)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := s.client.Create(ctx, pg); err != nil {
		return err
	}
	if err := waitFor(ctx, settleTime, "the Service and its password", s.findService); err != nil {
		return err
	}
	if err := s.waitHealthy(ctx); err != nil {
		return err
	}
	s.logf("the cluster is healthy after %s", time.Since(begun).Round(time.Millisecond))
	return nil
}

// findService reads the Service and its password, and creates the table.
func (s *suite) findService(ctx context.Context) error {
	service, secret, authority := &corev1.Service{}, &corev1.Secret{}, &corev1.Secret{}
	for key, object := range map[string]client.Object{name: service, name + "-role-" + writer: secret, name + "-ca": authority} {
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: key}, object); err != nil {
			return err
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Data["ca.crt"]) {
		return errors.New("the CA Secret has no certificate")
	}
	s.service = acks.Target{
		Address: service.Spec.ClusterIP + ":5432", User: writer, Password: string(secret.Data["password"]), Database: writer,
		TLS: &tls.Config{RootCAs: roots, ServerName: name + "." + s.Namespace + ".svc", MinVersion: tls.VersionTLS12},
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := s.service.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // the process's next word to it would be the same
	return acks.CreateTables(ctx, conn)
}

// nextInstance is the instance after pod.
func (s *suite) nextInstance(pod string) string {
	var ordinal int
	_, _ = fmt.Sscanf(pod, name+"-%d", &ordinal) // the pod is one of this PostgreSQL
	return fmt.Sprintf("%s-%d", name, (ordinal+1)%instances)
}

// waitFor waits until check returns nil.
func waitFor(ctx context.Context, limit time.Duration, what string, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited up to %s for %s: %w: %w", limit, what, ctx.Err(), errors.Join(last))
		case <-time.After(pollInterval):
		}
	}
}
