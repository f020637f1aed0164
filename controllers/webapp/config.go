package webapp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	kindConfigMap  = rollout.ConfigMap
	kindSecret     = rollout.Secret
	kindAppConfig  = "AppConfig"
	kindVoteConfig = "VoteConfig"

	// contentsKept limits the number of cached contents. Evicted ones are read again.
	contentsKept = 10_000
	// secretResync is the interval at which unwatched Secrets are read again.
	secretResync = 10 * time.Minute
)

// refState is the observed state of one entry of spec.configRefs.
type refState struct {
	ref   appsv1.ConfigRef
	found bool
	// publisher is the AppConfig or VoteConfig that it is or that publishes it, as in rollout.UsesAnnotation. Its rollout restarts
	// the pods. Empty for a plain ConfigMap or Secret.
	publisher string
	// version is the UID and resourceVersion of a plain ConfigMap or Secret.
	version string
}

func refKey(ref appsv1.ConfigRef) string { return ref.Kind + "/" + ref.Name }

// configMissing returns the first required reference whose object does not exist.
func configMissing(config []refState) *appsv1.ConfigRef {
	for i := range config {
		if !config[i].found && !config[i].ref.Optional {
			return &config[i].ref
		}
	}
	return nil
}

// publishers returns the publishers of all references, sorted and separated by commas.
func publishers(config []refState) string {
	var names []string
	for _, c := range config {
		if c.publisher != "" {
			names = append(names, c.publisher)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// createdWith returns the versions of plain ConfigMaps and Secrets for rollout.CreatedWithAnnotation.
func createdWith(config []refState) string {
	var entries []string
	for _, c := range config {
		if c.found && c.publisher == "" {
			entries = append(entries, refKey(c.ref)+"="+c.version)
		}
	}
	return strings.Join(entries, ",")
}

// publisherOf returns the AppConfig or VoteConfig that controls obj, as in rollout.UsesAnnotation; "" if there is none.
func publisherOf(obj metav1.Object) string {
	ref := metav1.GetControllerOfNoCopy(obj)
	switch {
	case ref == nil:
		return ""
	case ref.Kind == kindAppConfig && ref.APIVersion == configv1.GroupVersion.String():
		return ref.Name
	case ref.Kind == kindVoteConfig && ref.APIVersion == votingv1alpha1.GroupVersion.String():
		return kindVoteConfig + "/" + ref.Name
	default:
		return ""
	}
}

// configReader reads the objects of spec.configRefs. It reads contents only when a caller needs those of a version that is not
// cached.
type configReader struct {
	cached       client.Reader
	live         client.Reader
	watchSecrets bool
	contents     *lru.Cache
}

// contents is the cached state of an object. Of its values it has only digests.
type contents struct {
	// version is its UID and resourceVersion; "" if it does not exist.
	version   string
	publisher string
	values    map[string][]byte
	// readAt is the time of the read, changedAt the time when it had different values than before; zero if no earlier values are
	// known.
	readAt, changedAt time.Time
}

func newConfigReader(mgr ctrl.Manager, watchSecrets bool) *configReader {
	return &configReader{cached: mgr.GetClient(), live: mgr.GetAPIReader(), watchSecrets: watchSecrets, contents: lru.New(contentsKept)}
}

// resync returns when to read unwatched objects again; 0 if all are watched.
func (c *configReader) resync(app *appsv1.WebApp) time.Duration {
	if !c.watchSecrets && slices.ContainsFunc(app.Spec.ConfigRefs, func(ref appsv1.ConfigRef) bool { return ref.Kind == kindSecret }) {
		return secretResync
	}
	return 0
}

// read returns the state of each reference, in the order of the spec.
func (c *configReader) read(ctx context.Context, app *appsv1.WebApp) ([]refState, error) {
	var states []refState
	for _, ref := range app.Spec.ConfigRefs {
		key := client.ObjectKey{Namespace: app.Namespace, Name: ref.Name}
		s := refState{ref: ref}
		if ref.Kind == kindAppConfig {
			cfg := &configv1.AppConfig{}
			if err := c.cached.Get(ctx, key, cfg); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("get AppConfig %q: %w", key.Name, err)
			}
			s.found, s.publisher = cfg.Status.ConfigMapName != "", ref.Name
		} else {
			version, publisher, err := c.find(ctx, ref.Kind, key)
			if err != nil {
				return nil, err
			}
			s.found, s.publisher, s.version = version != "", publisher, version
		}
		states = append(states, s)
	}
	return states, nil
}

// find returns the version of a ConfigMap or Secret, "" if it does not exist, and its publisher.
func (c *configReader) find(ctx context.Context, kind string, key client.ObjectKey) (version, publisher string, err error) {
	if kind == kindSecret && !c.watchSecrets {
		known, err := c.unwatched(ctx, key)
		return known.version, known.publisher, err
	}
	own := emptyObject(kind) // the cache of contents holds Fettle's own
	if err := c.cached.Get(ctx, key, own); err == nil {
		return versionOf(own), publisherOf(own), nil
	} else if !apierrors.IsNotFound(err) {
		return "", "", fmt.Errorf("get %s %q: %w", kind, key.Name, err)
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := c.cached.Get(ctx, key, meta); apierrors.IsNotFound(err) {
		return "", "", nil
	} else if err != nil {
		return "", "", fmt.Errorf("look for %s %q: %w", kind, key.Name, err)
	}
	return versionOf(meta), "", nil
}

// unwatched returns the contents of a Secret that were read within secretResync.
func (c *configReader) unwatched(ctx context.Context, key client.ObjectKey) (contents, error) {
	if known := c.lastRead(kindSecret, key); !known.readAt.IsZero() && time.Since(known.readAt) < secretResync {
		return known, nil
	}
	return c.readLive(ctx, kindSecret, key, false)
}

func (c *configReader) lastRead(kind string, key client.ObjectKey) contents {
	last, _ := c.contents.Get(kind + "/" + key.String())
	known, _ := last.(contents)
	return known
}

// contentsOf returns the contents of an object at that version or a later one. changed is true if workloads run another version.
func (c *configReader) contentsOf(ctx context.Context, kind string, key client.ObjectKey, version string, changed bool) (contents, error) {
	if known := c.lastRead(kind, key); version == "" || known.version == version {
		known.version = version
		return known, nil
	}
	return c.readLive(ctx, kind, key, changed)
}

func (c *configReader) readLive(ctx context.Context, kind string, key client.ObjectKey, changed bool) (contents, error) {
	obj := emptyObject(kind)
	if err := c.live.Get(ctx, key, obj); client.IgnoreNotFound(err) != nil {
		return contents{}, fmt.Errorf("read %s %q: %w", kind, key.Name, err)
	}
	last := c.lastRead(kind, key)
	now := contents{readAt: time.Now(), changedAt: last.changedAt, values: digestsOf(obj)}
	if obj.GetUID() != "" {
		now.version, now.publisher = versionOf(obj), publisherOf(obj)
	}
	if last.values != nil {
		changed = !maps.EqualFunc(last.values, now.values, slices.Equal)
	}
	if changed {
		now.changedAt = now.readAt
	}
	c.contents.Add(kind+"/"+key.String(), now)
	return now, nil
}

// digestsOf returns the digests of an object's values. They stay in memory.
func digestsOf(obj client.Object) map[string][]byte {
	values := map[string][]byte{}
	add := func(key string, value []byte) {
		sum := sha256.Sum256(value)
		values[key] = sum[:]
	}
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		for key, value := range o.Data {
			add(key, []byte(value))
		}
		for key, value := range o.BinaryData {
			add(key, value)
		}
	case *corev1.Secret:
		for key, value := range o.Data {
			add(key, value)
		}
	}
	return values
}

func emptyObject(kind string) client.Object {
	if kind == kindSecret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

func versionOf(o metav1.Object) string { return string(o.GetUID()) + "/" + o.GetResourceVersion() }

// versionedNames returns the version that the Deployment uses of each name in the spec that is the target of an AppConfig with
// versions. The AppConfig's rollout changes it. A version always has a ConfigMap, also if its Secret is meant.
func (c *configReader) versionedNames(ctx context.Context, app *appsv1.WebApp, d *k8sappsv1.Deployment) (map[string]string, error) {
	if d == nil || !refers(app) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	moved := map[string]string{}
	for _, ref := range rollout.ReferencesOf(&d.Spec.Template.Spec) {
		base, ok := rollout.BaseOf(ref.Name)
		if !ok {
			continue
		}
		_, publisher, err := c.find(ctx, kindConfigMap, client.ObjectKey{Namespace: app.Namespace, Name: ref.Name})
		if err != nil {
			return nil, err
		}
		if publisher != "" {
			moved[ref.Kind+"/"+base] = ref.Name
		}
	}
	return moved, nil
}

// refers reports whether the pods of app use ConfigMaps or Secrets.
func refers(app *appsv1.WebApp) bool {
	for i := range app.Spec.Env {
		if app.Spec.Env[i].ValueFrom != nil {
			return true
		}
	}
	return len(app.Spec.EnvFrom) > 0 || len(app.Spec.Volumes) > 0
}

// Restarts for plain ConfigMaps and Secrets, with the defaults of an AppConfig.
const (
	debounce    = 5 * time.Second
	minInterval = 30 * time.Second
)

// restarter restarts the WebApps that list a plain ConfigMap or Secret in spec.configRefs, by the engine. A request is for one such
// object: its name is KIND/NAME.
type restarter struct {
	client   client.Client
	config   *configReader
	engine   *rollout.Engine
	metrics  *monitoring.Metrics
	debounce time.Duration
}

// Reconcile implements reconcile.Reconciler.
func (r *restarter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	kind, name, _ := strings.Cut(req.Name, "/")
	key := client.ObjectKey{Namespace: req.Namespace, Name: name}
	owner := rollout.Owner{Prefix: rollout.ConfigMapPrefix, Namespace: req.Namespace, Name: name}
	if kind == kindSecret {
		owner.Prefix = rollout.SecretPrefix
	}
	version, publisher, err := r.config.find(ctx, kind, key) // before policy, which leaves out who lacks it
	if err != nil {
		return reconcile.Result{}, err
	}
	policy, resync, err := r.policy(ctx, req)
	if err != nil || policy.Selector == nil || publisher != "" {
		return reconcile.Result{RequeueAfter: resync}, err
	}
	object, err := r.object(ctx, owner, policy, kind, key, version)
	if err != nil || object == nil {
		return reconcile.Result{RequeueAfter: resync}, err
	}
	report, err := r.engine.Roll(ctx, owner, policy, []rollout.Object{*object})
	for range report.Restarted {
		r.metrics.ConfigChanged(monitoring.KindWebApp, key)
	}
	if report.Event != "" {
		log.FromContext(ctx).Info("restarting pods", "object", req.Name, "rollout", report.Event)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("restart pods for a change of %s %q: %w", kind, name, err)
	}
	return reconcile.Result{RequeueAfter: reconciler.Sooner(report.RequeueAfter, resync)}, nil
}

// policy selects the Deployments of the WebApps that refer to the object, are not paused and lack no other reference: without it
// their pods could not start. Its Selector is nil if there are none.
func (r *restarter) policy(ctx context.Context, req reconcile.Request) (p rollout.Policy, resync time.Duration, err error) {
	p = rollout.Policy{Discovery: rollout.Selector, Debounce: r.debounce, MinInterval: minInterval, MaxConcurrent: 1}
	apps, err := r.webAppsNaming(ctx, req.Namespace, req.Name)
	if err != nil {
		return p, 0, err
	}
	var names []string
	for i := range apps {
		app := &apps[i]
		if app.Spec.Paused || app.DeletionTimestamp != nil {
			continue
		}
		resync = r.config.resync(app)
		config, err := r.config.read(ctx, app)
		if err != nil {
			return p, 0, err
		}
		if configMissing(config) == nil {
			names = append(names, app.Name)
		}
	}
	if len(names) == 0 {
		return p, resync, nil
	}
	named, err := k8slabels.NewRequirement(labelOwnerName, selection.In, names)
	if err != nil {
		return p, 0, fmt.Errorf("select Deployments of WebApps: %w", err)
	}
	p.Selector = k8slabels.SelectorFromSet(k8slabels.Set{labelOwnerKind: ownerKind}).Add(*named)
	return p, resync, nil
}

// object is the ConfigMap or Secret for the engine; nil if all pods run its contents, or the cache is out of date.
func (r *restarter) object(ctx context.Context, owner rollout.Owner, policy rollout.Policy, kind string, key client.ObjectKey, version string) (*rollout.Object, error) {
	known, noted, err := r.engine.AllRunning(ctx, owner, policy, rollout.Object{Kind: kind, Target: key.Name, Name: key.Name, Version: version})
	if err != nil || known {
		return nil, err
	}
	found, err := r.config.contentsOf(ctx, kind, key, version, noted)
	if err != nil {
		return nil, err
	}
	return objectOf(kind, key.Name, version, found), nil
}

// objectOf returns an object that the cache has at a version, "" if it does not exist. It is nil if the cache does not show yet that
// Fettle publishes the object, or that it was deleted: pods do not restart without what they need.
func objectOf(kind, name, version string, found contents) *rollout.Object {
	if found.publisher != "" || version != "" && found.version == "" {
		return nil
	}
	o := &rollout.Object{Kind: kind, Target: name, Name: name, Version: found.version, Exists: found.version != ""}
	if o.Exists {
		o.Data = found.values
	}
	if !found.changedAt.IsZero() {
		o.PublishedAt = rollout.PublishedAt("", true, true, found.changedAt)
	}
	return o
}

// watches triggers the restarter by changes of an object, of a WebApp that refers to it, and of its Deployment.
func (r *restarter) watches(mgr ctrl.Manager, watchSecrets bool) *builder.Builder {
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName+"-config").
		Watches(&appsv1.WebApp{}, handler.EnqueueRequestsFromMapFunc(refsOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&configv1.AppConfig{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindAppConfig)), builder.WithPredicates(publishedChanged)).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindConfigMap)))
	if watchSecrets {
		b.WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindSecret)))
	}
	return r.engine.Watch(b, func(ctx context.Context, w *rollout.Workload) []reconcile.Request {
		if w.Kind != rollout.Deployment || w.Labels[labelOwnerKind] != ownerKind {
			return nil
		}
		app := &appsv1.WebApp{}
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Labels[labelOwnerName]}, app, client.UnsafeDisableDeepCopy); err != nil {
			return nil // it is gone, and its Deployment goes
		}
		return refsOf(ctx, app)
	})
}

// publishedChanged passes the updates of an AppConfig that publish something.
var publishedChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*configv1.AppConfig), e.ObjectNew.(*configv1.AppConfig)
	return (was.Status.ConfigMapName == "") != (is.Status.ConfigMapName == "")
}}

// webAppsUsing returns requests for all references of the WebApps that refer to an object: a missing one delays the restarts for the
// others.
func (r *restarter) webAppsUsing(kind string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		apps, err := r.webAppsNaming(ctx, obj.GetNamespace(), kind+"/"+obj.GetName())
		if err != nil {
			log.FromContext(ctx).Error(err, "failed to find the WebApps of an event")
		}
		var requests []reconcile.Request
		for i := range apps {
			requests = append(requests, refsOf(ctx, &apps[i])...)
		}
		return requests
	}
}

// webAppsNaming returns the WebApps that list an object in spec.configRefs. It reads the cache, which fails only while it is
// stopped.
func (r *restarter) webAppsNaming(ctx context.Context, namespace, ref string) ([]appsv1.WebApp, error) {
	apps := &appsv1.WebAppList{}
	err := r.client.List(ctx, apps, client.InNamespace(namespace), client.MatchingFields{indexConfigRefs: ref}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list WebApps: %w", err)
	}
	return apps.Items, nil
}

// refsOf returns requests for the ConfigMaps and Secrets of a WebApp.
func refsOf(_ context.Context, app client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, ref := range app.(*appsv1.WebApp).Spec.ConfigRefs {
		if ref.Kind != kindAppConfig {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: app.GetNamespace(), Name: refKey(ref)}})
		}
	}
	return requests
}
