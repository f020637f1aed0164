package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/testenv/fakepg"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
)

// Changes by users to a running PostgreSQL.

// expandableStorageClass creates a storage class that allows expansion.
func expandableStorageClass(t *testing.T) {
	t.Helper()
	c, err := client.New(env.Admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "grows"}, Provisioner: "example.com/fake", AllowVolumeExpansion: new(true)}
	if err := c.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
}

// replaces gives the pods another template, and waits until each was re-created from it.
func replaces(name, spec string) Step {
	return Step{Name: name, Do: setsPostgreSQL(spec), Converged: func(v View) error {
		if err := pgRuns(2)(v); err != nil {
			return err
		}
		const at = "fettle.dev/revision"
		wanted, _, _ := unstructured.NestedString(v.Get(pgSets, pgName).Object, "spec", "template", "metadata", "annotations", at)
		for _, key := range v.Keys(pgPods) {
			if is := v.objects[key].GetAnnotations()[at]; is != wanted {
				return fmt.Errorf("%s has template %q, not %q", key, is, wanted)
			}
		}
		return nil
	}}
}

// restarts makes the agents request a restart, as for a parameter that needs it, and waits until each was restarted once.
func restarts(name, spec string) Step {
	return Step{Name: name, Do: func(ctx context.Context, w *Client) error {
		kubeletOf(w.Namespace).Update(func(p *fakepg.Kubelet) {
			p.PendingRestart[pgName+"-0"], p.PendingRestart[pgName+"-1"] = []string{"max_connections"}, []string{"max_connections"}
		})
		return setsPostgreSQL(spec)(ctx, w)
	}, Converged: func(v View) error {
		if err := pgRuns(2)(v); err != nil {
			return err
		}
		var restarted []string
		kubeletOf(v.Get(postgreSQLs, pgName).GetNamespace()).Update(func(p *fakepg.Kubelet) { restarted = slices.Sorted(slices.Values(p.Restarted)) })
		if want := []string{pgName + "-0", pgName + "-1"}; !slices.Equal(restarted, want) {
			return fmt.Errorf("restarted are %v, not %v", restarted, want)
		}
		return nil
	}}
}

// growsVolumes waits until all PVCs, including future ones, have the new size.
func growsVolumes(name, spec string) Step {
	return Step{Name: name, Do: setsPostgreSQL(spec), Converged: func(v View) error {
		set := v.Get(pgSets, pgName)
		if set == nil {
			return errors.New("there is no StatefulSet")
		}
		templates, _, _ := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
		if size, _, _ := unstructured.NestedString(templates[0].(map[string]any), "spec", "resources", "requests", "storage"); size != "2Gi" {
			return errors.New("new PVCs would request " + size)
		}
		for _, key := range v.Keys(pgClaims) {
			if size, _, _ := unstructured.NestedString(v.objects[key].Object, "status", "capacity", "storage"); size != "2Gi" {
				return fmt.Errorf("%s has %s", key, size)
			}
		}
		for _, key := range v.Keys(pgPods) {
			if metav1.GetControllerOfNoCopy(v.objects[key]) == nil {
				return fmt.Errorf("%s is owned by no StatefulSet", key)
			}
		}
		return pgRuns(2)(v)
	}}
}

// switches requests another primary.
func switches(name, primary string) Step {
	return Step{Name: name, Converged: primaryIs(primary), Do: func(ctx context.Context, w *Client) error {
		return changes(ctx, w, func(pg *databasev1alpha1.PostgreSQL) error {
			metav1.SetMetaDataAnnotation(&pg.ObjectMeta, databasev1alpha1.AnnotationSwitchover, "any")
			return nil
		})
	}}
}

func primaryIs(pod string) func(View) error {
	return func(v View) error {
		if p := v.Get(pgPods, pod); p == nil || p.GetLabels()[databasev1alpha1.LabelRole] != databasev1alpha1.LabelRolePrimary {
			return fmt.Errorf("%s is not primary", pod)
		}
		if err := pgRuns(2)(v); err != nil {
			return err
		}
		pg := v.Get(postgreSQLs, pgName)
		if told, _, _ := unstructured.NestedString(pg.Object, "status", "primary"); told != pod {
			return fmt.Errorf("status names %q", told)
		}
		if pg.GetAnnotations()[databasev1alpha1.AnnotationSwitchover] != "" {
			return errors.New("the annotation is there")
		}
		return nil
	}
}

// rotates requests a new password, and waits until the server has the published password.
func rotates(name string) Step {
	const secret = pgName + "-credentials"
	return Step{Name: name, Do: func(ctx context.Context, w *Client) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			s := &corev1.Secret{}
			if err := w.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: secret}, s); err != nil {
				return err
			}
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, databasev1alpha1.AnnotationRotate, "1")
			return w.Update(ctx, s)
		})
	}, Converged: func(v View) error {
		s := v.Get(pgSecrets, secret)
		if s == nil || s.GetAnnotations()[databasev1alpha1.AnnotationRotated] != "1" {
			return errors.New("the password was not rotated")
		}
		if err := serverHasPassword(s); err != nil {
			return err
		}
		return pgRuns(2)(v)
	}}
}

// serverHasPassword is nil if the server has the published password, according to the last applied objects.
func serverHasPassword(secret *unstructured.Unstructured) error {
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	login, password := decoded(data["user"]), decoded(data["password"])
	var told agentapi.Desired
	kubeletOf(secret.GetNamespace()).Update(func(p *fakepg.Kubelet) {
		if len(p.Applied) > 0 {
			told = p.Applied[len(p.Applied)-1]
		}
	})
	for _, role := range told.Roles {
		switch {
		case role.Name == login && testscram.Matches(role.Verifier, password):
			return nil
		case config.SecondLogin(role.Name) == login && role.SecondLogin != nil && role.SecondLogin.Allowed && testscram.Matches(role.SecondLogin.Verifier, password):
			return nil
		}
	}
	return fmt.Errorf("the server does not have the published password of %s", login)
}

// keepsData changes the deletionPolicy, and waits until data would be kept.
func keepsData(name, spec string) Step { return hasOwners(name, spec, 0) }

// dropsData changes the deletionPolicy, and waits until data would be deleted.
func dropsData(name, spec string) Step { return hasOwners(name, spec, 1) }

// hasOwners waits until passwords have that number of owners. PVCs never have an owner: the garbage collector would delete them by an old
// spec.
func hasOwners(name, spec string, owners int) Step {
	return Step{Name: name, Do: setsPostgreSQL(spec), Converged: func(v View) error {
		for key, object := range v.objects {
			want := 0
			if strings.HasSuffix(key.Name, "-credentials") {
				want = owners
			} else if key.Resource != pgClaims {
				continue
			}
			if n := len(object.GetOwnerReferences()); n != want {
				return fmt.Errorf("%s has %d owners", key, n)
			}
		}
		return pgRuns(1)(v)
	}}
}

// deletesPostgreSQL waits until only that number of objects is left, which outlive a PostgreSQL.
func deletesPostgreSQL(name string, left int) Step {
	return Step{Name: name, AfterRestart: true, Do: func(ctx context.Context, w *Client) error {
		return w.Delete(ctx, &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: pgName, Namespace: w.Namespace}})
	}, Converged: func(v View) error {
		for key, object := range v.objects {
			if key.Resource != pgClaims && key.Resource != pgSecrets || len(object.GetOwnerReferences()) > 0 {
				return fmt.Errorf("%s is left", key)
			}
		}
		if len(v.objects) != left {
			return fmt.Errorf("%d objects are left, not %d", len(v.objects), left)
		}
		return nil
	}}
}
