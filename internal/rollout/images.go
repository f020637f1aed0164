package rollout

import "context"

// Images returns the container images of a dependant with references, from the cache; none if it does not exist.
func (e *Engine) Images(ctx context.Context, namespace string, d Dependent) ([]string, error) {
	w, err := e.workloads.get(ctx, workloadID(d.Kind, namespace, d.Name))
	if err != nil || w == nil {
		return nil, err
	}
	return w.Images, nil
}
