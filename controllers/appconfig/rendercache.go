package appconfig

import (
	"context"

	"k8s.io/utils/lru"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// remembered limits the number of cached renderings that are not published: failed ones and previews.
const remembered = 128

// renderCache keeps the last unpublished rendering of AppConfigs with values from other objects. These objects are not read again in
// each reconcile.
type renderCache struct{ renderings *lru.Cache }

func newRenderCache() *renderCache { return &renderCache{renderings: lru.New(remembered)} }

func (m *renderCache) get(cfg *configv1.AppConfig, inputs string) (rendered, bool) {
	known, ok := m.renderings.Get(cfg.UID)
	if !ok || known.(cachedRendering).inputs != inputs {
		return rendered{}, false
	}
	return known.(cachedRendering).out, true
}

type cachedRendering struct {
	inputs string
	out    rendered
}

// render returns the contents that cfg should publish. It reads the sources of the values only if the rendering is unknown.
func (r *Reconciler) render(ctx context.Context, cfg *configv1.AppConfig, found existing) (rendered, error) {
	sources, err := r.sources.look(ctx, cfg)
	switch {
	case err != nil:
		return rendered{}, err
	case len(sources) == 0:
		return r.hashed(ctx, cfg, renderAll(cfg, nil), found)
	}
	circle, err := cycleOf(cfg, func(name string) (*configv1.AppConfig, error) {
		publisher, _, err := r.publisher(ctx, cfg.Namespace, name)
		return publisher, err
	})
	if err != nil || circle != nil {
		return cyclicValues(circle), err
	}
	if s := missing(sources); s != nil {
		return waitingForValues(cfg, *s), nil
	}
	inputs := inputsKey(cfg, sources)
	if out, ok, err := r.known(ctx, cfg, inputs, found); err != nil || ok {
		return out, err
	}
	values, err := r.sources.values(ctx, cfg.Namespace, sources)
	if err != nil {
		return rendered{}, err
	}
	if s := missing(sources); s != nil {
		return waitingForValues(cfg, *s), nil
	}
	out, err := r.hashed(ctx, cfg, renderAll(cfg, values), found)
	if err != nil {
		return rendered{}, err
	}
	out.inputs = inputsKey(cfg, sources) // of the versions that were read
	r.renderCache.renderings.Add(cfg.UID, cachedRendering{inputs: inputs, out: out})
	return out, nil
}

// known returns the earlier rendering of inputs: from the last reconcile, or because it is published or in the history.
func (r *Reconciler) known(ctx context.Context, cfg *configv1.AppConfig, inputs string, found existing) (rendered, bool, error) {
	for _, rev := range found.renderedFrom(inputs) {
		hash, err := r.hash(ctx, cfg.UID, rev.content)
		if err != nil {
			return rendered{}, false, err
		}
		if hash == rev.hash {
			r.renderCache.renderings.Remove(cfg.UID)
			return rendered{content: rev.content, hash: hash, inputs: inputs, warnings: warnings(rev.content)}, true, nil
		}
	}
	out, ok := r.renderCache.get(cfg, inputs)
	return out, ok, nil
}

func (r *Reconciler) hashed(ctx context.Context, cfg *configv1.AppConfig, out rendered, found existing) (rendered, error) {
	if out.problem != nil {
		return out, nil
	}
	if out.hash = found.hashOfKept(out.content); out.hash != "" {
		return out, nil
	}
	var err error
	out.hash, err = r.hash(ctx, cfg.UID, out.content)
	return out, err
}
