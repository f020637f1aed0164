// Package webhook validates WebApps, WebAppPolicies, PostgreSQLs, Backups, AppStacks and EcommercePlatforms. It checks WebApps and the images of PostgreSQLs against the
// policies of their namespace, and rules of these kinds that their schemas cannot express.
//
// It never blocks a deletion: there is no rule for DELETE, and an object that is being deleted may change.
package webhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/stack"
)

// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapppolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Setup registers the webhooks with the manager and starts the caches that they read. The manager may be running already.
func Setup(ctx context.Context, mgr ctrl.Manager, stacks stack.Options) error {
	for _, read := range []client.Object{&appsv1.WebAppPolicy{}, namespaceMetadata("")} {
		if _, err := mgr.GetCache().GetInformer(ctx, read, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", read, err)
		}
	}
	policies := &evaluator{cached: mgr.GetCache(), live: mgr.GetAPIReader()}
	err := ctrl.NewWebhookManagedBy(mgr, &appsv1.WebApp{}).
		WithValidator(&webAppValidator{evaluator: policies}).
		Complete()
	if err != nil {
		return fmt.Errorf("webhook of WebApps: %w", err)
	}
	err = ctrl.NewWebhookManagedBy(mgr, &appsv1.WebAppPolicy{}).
		WithValidator(&webAppPolicyValidator{}).
		Complete()
	if err != nil {
		return fmt.Errorf("webhook of WebAppPolicies: %w", err)
	}
	err = ctrl.NewWebhookManagedBy(mgr, &databasev1alpha1.PostgreSQL{}).
		WithValidator(&postgreSQLValidator{evaluator: policies}).
		Complete()
	if err != nil {
		return fmt.Errorf("webhook of PostgreSQLs: %w", err)
	}
	err = ctrl.NewWebhookManagedBy(mgr, &backupv1alpha1.Backup{}).
		WithValidator(&backupValidator{}).
		Complete()
	if err != nil {
		return fmt.Errorf("webhook of Backups: %w", err)
	}
	validator := &stackValidator{client: mgr.GetClient(), evaluator: policies, options: stacks}
	if err := ctrl.NewWebhookManagedBy(mgr, &platformv1.AppStack{}).WithValidator(validator).Complete(); err != nil {
		return fmt.Errorf("webhook of AppStacks: %w", err)
	}
	err = ctrl.NewWebhookManagedBy(mgr, &platformv1.EcommercePlatform{}).WithValidator(&platformValidator{stacks: validator}).Complete()
	if err != nil {
		return fmt.Errorf("webhook of EcommercePlatforms: %w", err)
	}
	mgr.GetWebhookServer().Register(scalePath, &ctrlwebhook.Admission{Handler: newScaleHandler(mgr.GetScheme(), policies)})
	return nil
}

func namespaceMetadata(name string) *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespace.Name = name
	return namespace
}
