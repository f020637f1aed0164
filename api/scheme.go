// Package api knows every kind of Fettle.
package api

import (
	"k8s.io/apimachinery/pkg/runtime"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

var schemeBuilder = runtime.NewSchemeBuilder(
	appsv1.AddToScheme, backupv1alpha1.AddToScheme, configv1.AddToScheme, databasev1alpha1.AddToScheme, platformv1.AddToScheme,
	votingv1alpha1.AddToScheme,
)

// AddToScheme adds every kind of Fettle to a scheme.
var AddToScheme = schemeBuilder.AddToScheme
