package agent

import (
	"errors"
	"fmt"
	"testing"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// TestRecoveryProblem_reasons: each failure has a reason, and those that cost a download are retried less often.
func TestRecoveryProblem_reasons(t *testing.T) {
	for want, err := range map[server.SourceError]error{
		{Kind: backupv1alpha1.ReasonStoreUnreachable}: &store.Error{Reason: backupv1alpha1.ReasonStoreUnreachable},
		{Kind: backupv1alpha1.ReasonStoreForbidden, Expensive: true}: &store.Error{
			Reason: backupv1alpha1.ReasonStoreForbidden, Permanent: true,
		},
		{Kind: databasev1alpha1.ReasonTargetTooEarly}: &recovery.Error{Reason: databasev1alpha1.ReasonTargetTooEarly},
		{Kind: server.BackupDamaged, Expensive: true}: fmt.Errorf("part: %w", archive.ErrDamaged),
		{Kind: server.TooLarge, Expensive: true}:      &server.SourceError{Kind: server.TooLarge, Expensive: true},
		{Kind: server.RecoveryFailed}:                 errors.New("something else"),
	} {
		problem, ok := errors.AsType[*server.SourceError](recoveryProblem(fmt.Errorf("recover: %w", err)))
		if !ok || problem.Kind != want.Kind || problem.Expensive != want.Expensive {
			t.Errorf("%v: %+v, want %+v", err, problem, want)
		}
	}
	if err := recoveryProblem(nil); err != nil {
		t.Error(err)
	}
}

// TestRecoveryRules_onlyNamedObjects: the agents may read the Backup and the Secrets of its destination, once each.
func TestRecoveryRules_onlyNamedObjects(t *testing.T) {
	destination := &backupv1alpha1.Destination{
		CredentialsSecretRef: &fettlev1.LocalReference{Name: "store"}, CASecretRef: &fettlev1.SecretKeyReference{Name: "store-ca"},
	}
	same := &backupv1alpha1.Destination{CredentialsSecretRef: &fettlev1.LocalReference{Name: "store"}, CASecretRef: &fettlev1.SecretKeyReference{Name: "store"}}
	for want, rules := range map[string]any{
		"[]": RecoveryRules("", nil),
		"[{[get] [backup.fettle.dev] [backups] [db] []}]":                                 RecoveryRules("db", nil),
		"[{[get] [] [secrets] [store store-ca] []}]":                                      RecoveryRules("", destination),
		"[{[get] [backup.fettle.dev] [backups] [db] []} {[get] [] [secrets] [store] []}]": RecoveryRules("db", same),
		"[{[get] [backup.fettle.dev] [backups] [x] []}]":                                  RecoveryRules("x", &backupv1alpha1.Destination{}),
	} {
		if is := fmt.Sprint(rules); is != want {
			t.Errorf("%s, want %s", is, want)
		}
	}
}

// TestHasMajor: a base backup only starts with binaries of its major version.
func TestHasMajor(t *testing.T) {
	for version, want := range map[string]bool{
		"16.4 (Debian 16.4-1.pgdg120+1)": true, "16": true, "16beta1": true, "": true, "15.16": false, "161.1": false, "1.6": false, "6.16": false,
	} {
		if got := hasMajor(version, 16); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}
