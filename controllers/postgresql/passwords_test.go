package postgresql

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// TestNothingUnwrittenIsTold holds that the primary learns of no password that is not in a Secret yet.
func TestNothingUnwrittenIsTold(t *testing.T) {
	pg := wanting(1)
	pg.Spec.DatabaseName = "app"
	made := credentialsOf(pg)[0]
	if err := made.load(nil, false); err != nil {
		t.Fatal(err)
	}
	live := made.object(pg)
	load := func() *inputs {
		in := &inputs{wishesHash: "hash", credentials: credentialsOf(pg), passwords: map[string]password{"app": {version: "1"}}}
		if err := in.load([]*corev1.Secret{live}, false); err != nil {
			t.Fatal(err)
		}
		return in
	}
	if in := load(); in.wishesHash == "" || in.rotating {
		t.Error("a Secret that stays as it is keeps the primary from being told")
	}
	live.Annotations = map[string]string{databasev1alpha1.AnnotationRotate: "1"}
	if in := load(); in.wishesHash != "" || !in.rotating {
		t.Error("a password is told before it is written")
	}
	next := made
	if err := next.load(live, false); err != nil {
		t.Fatal(err)
	}
	live.Data = next.object(pg).Data
	in := load()
	if p := in.passwords["app"]; in.wishesHash == "" || p.value != made.password || p.second != string(live.Data[keyNext]) {
		t.Errorf("told %v, of the role %v", in.wishesHash != "", p.value == made.password)
	}
}
