package webhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NamespaceLabels is evaluator.namespaceLabels, for the tests.
func NamespaceLabels(ctx context.Context, cached, live client.Reader, name string) (map[string]string, error) {
	return (&evaluator{cached: cached, live: live}).namespaceLabels(ctx, name)
}
