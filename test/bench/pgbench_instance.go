package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// pgInstance is a PostgreSQL with one instance on the cluster.
type pgInstance struct {
	client client.Client
	pg     *databasev1alpha1.PostgreSQL
	// service and pod are addresses.
	service, pod string
	// container is the container ID in the pod's status.
	container   string
	password    string
	certificate map[string][]byte
	// volume is the folder of its volume if that is on this machine; otherwise empty.
	volume string
	// facts are the settings chosen by initdb.
	facts map[string]string
}

// instanceReady bounds the time until the instance is Ready.
const instanceReady = 5 * time.Minute

// newPgInstance creates it in its own namespace. The result must be removed, also after an error.
func newPgInstance(ctx context.Context, config *rest.Config) (*pgInstance, error) {
	c, err := client.New(config, client.Options{Scheme: scheme()})
	if err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pgbench-"}}
	if err := c.Create(ctx, namespace); err != nil {
		return nil, fmt.Errorf("create namespace: %w", err)
	}
	in := &pgInstance{client: c, pg: &databasev1alpha1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "bench"},
		Spec: databasev1alpha1.PostgreSQLSpec{
			Version: pgVersion, Storage: resource.MustParse(pgStorage), Replicas: new(int32(1)), DeletionPolicy: databasev1alpha1.DeletionDelete,
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pgCPU)}},
			Roles: []databasev1alpha1.PostgreSQLRole{{
				Name: pgRole, InRoles: []databasev1alpha1.ParentRole{"pg_checkpoint", "pg_read_all_settings"},
			}},
			Databases: []databasev1alpha1.PostgreSQLDatabase{{Name: pgRole, Owner: pgRole}},
		},
	}}
	if err := c.Create(ctx, in.pg); err != nil {
		return in, fmt.Errorf("create PostgreSQL: %w", err)
	}
	fmt.Println("waiting until the instance is Ready")
	if err := in.await(ctx); err != nil {
		return in, err
	}
	if err := in.locate(ctx); err != nil {
		return in, err
	}
	return in, in.readSettings(ctx)
}

func (in *pgInstance) await(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, time.Second, instanceReady, true, func(ctx context.Context) (bool, error) {
		if err := in.client.Get(ctx, client.ObjectKeyFromObject(in.pg), in.pg); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(in.pg.Status.Conditions, fettlev1.Ready)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == in.pg.Generation, nil
	})
	if err != nil {
		return fmt.Errorf("the instance does not become Ready: %w: %v", err, in.pg.Status.Conditions)
	}
	return nil
}

// locate finds the addresses and the volume of the instance.
func (in *pgInstance) locate(ctx context.Context) error {
	get := func(name string, o client.Object) error {
		if err := in.client.Get(ctx, client.ObjectKey{Namespace: in.pg.Namespace, Name: name}, o); err != nil {
			return fmt.Errorf("get %T %q: %w", o, name, err)
		}
		return nil
	}
	service, pod, claim := &corev1.Service{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}
	password, certificate := &corev1.Secret{}, &corev1.Secret{}
	if err := errors.Join(
		get(in.pg.Name, service), get(in.pg.Status.Primary, pod), get("data-"+in.pg.Status.Primary, claim),
		get(in.pg.Name+"-role-"+pgRole, password), get(in.pg.Name+"-server", certificate),
	); err != nil {
		return err
	}
	in.service, in.pod, in.container = service.Spec.ClusterIP, pod.Status.PodIP, pod.Status.ContainerStatuses[0].ContainerID
	in.password, in.certificate = string(password.Data["password"]), certificate.Data
	volume := &corev1.PersistentVolume{}
	if err := in.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return fmt.Errorf("get the volume of %s: %w", claim.Name, err)
	}
	if volume.Spec.Local != nil {
		in.volume = volume.Spec.Local.Path
	}
	return nil
}

// readSettings reads how the instance's data directory was created.
func (in *pgInstance) readSettings(ctx context.Context) error {
	in.facts = map[string]string{}
	t := in.targets()[0]
	return t.withConn(ctx, func(conn *pgx.Conn) error {
		for name, question := range map[string]string{
			"server_version":  "SHOW server_version",
			"server_encoding": "SHOW server_encoding",
			"data_checksums":  "SHOW data_checksums",
			"wal_segment_mb":  "SELECT (setting::bigint >> 20)::text FROM pg_settings WHERE name = 'wal_segment_size'",
			"lc_collate":      "SELECT datcollate::text FROM pg_database WHERE datname = current_database()",
		} {
			var value string
			if err := conn.QueryRow(ctx, question).Scan(&value); err != nil {
				return fmt.Errorf("%s: %w", question, err)
			}
			in.facts[name] = value
		}
		return nil
	})
}

func (in *pgInstance) targets() []pgTarget {
	t := pgTarget{port: "5432", password: in.password}
	service, pod := t, t
	service.name, service.about, service.host = targetService, "an instance of Fettle through its Service", in.service
	pod.name, pod.about, pod.host = targetPod, "the same at its pod's address", in.pod
	return []pgTarget{service, pod}
}

func (in *pgInstance) remove(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in.pg.Namespace}}
	return client.IgnoreNotFound(in.client.Delete(ctx, namespace))
}

// sameFilesystem returns an error unless the data of both servers is on the same filesystem.
func sameFilesystem(volume, folder string) error {
	var a, b syscall.Statfs_t
	if err := errors.Join(syscall.Statfs(volume, &a), syscall.Statfs(folder, &b)); err != nil {
		return fmt.Errorf("filesystem of %q and %s: %w", volume, folder, err)
	}
	if a.Fsid != b.Fsid {
		return fmt.Errorf("the instance's volume %s and the bare server's data in %s are on different filesystems: choose another -pg-folder", volume, folder)
	}
	return nil
}
