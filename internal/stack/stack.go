// Package stack computes the components of an AppStack: their order, the defaults of the environment, and the child objects. All of it is
// pure, except for [Read]. The controller of AppStacks carries it out, and the webhook checks it.
//
// # Invariants
//
//  1. A component is created or changed only while all that it depends on is ready at the generation that was asked for. See [Next].
//  2. A component that runs is not stopped because another one is not ready.
//  3. Components are deleted after those that depend on them, by what the child objects say of themselves. See [Deletable].
//  4. The environment fills only fields that the user left out. The size of an existing volume never shrinks.
//  5. Credentials reach the pods by reference to a Secret, never as values.
package stack

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/stack/server"
)

// Kinds of components.
const (
	KindWebApp     = "WebApp"
	KindPostgreSQL = "PostgreSQL"
	KindAppConfig  = "AppConfig"
	KindMySQL      = "MySQL"
	KindCache      = "Cache"
	KindExternal   = "External"
)

const (
	// OwnerKind is the kind that the labels of child objects name.
	OwnerKind = "AppStack"
	// LabelComponent is on each child object. Its value is the name of the component.
	LabelComponent = "app.kubernetes.io/component"
	// LabelKind is on the objects of components that are no kind of their own: MySQL or Cache.
	LabelKind = "platform.fettle.dev/kind"
	// AnnotationDependsOn is on the main object of each component. Its value is the names of the components that this version of it depends
	// on, separated by commas.
	AnnotationDependsOn = "platform.fettle.dev/depends-on"
	// Finalizer holds an AppStack until its components are deleted in order.
	Finalizer = "platform.fettle.dev/ordered-deletion"
)

// Options are settings of the operator.
type Options struct {
	// BackupDestination is where databases are backed up that have no destination of their own; nil for nowhere.
	BackupDestination *backupv1alpha1.Destination
}

// Existing is the state of a component that the desired one depends on.
type Existing struct {
	// Storage is the size that a database asks for now; zero if there is none.
	Storage resource.Quantity
	// Template is the volume claim template of a MySQL's StatefulSet, which cannot be changed; nil if there is none.
	Template *corev1.PersistentVolumeClaim
}

// Component is the desired state of one component.
type Component struct {
	Name, Kind string
	// Ref is the name of the main child object, or of the Secret of an external server.
	Ref string
	// DependsOn are the names of other components, sorted.
	DependsOn []string
	Suspended bool
	// Server is what a cache or a MySQL is made from.
	Server server.Input
	Cache  *platformv1.Cache
	MySQL  *platformv1.MySQL
	// Key is the key of the Secret of an external server.
	Key string

	child *unstructured.Unstructured
}

// Plan is the desired state of an AppStack.
type Plan struct {
	// Components are in an order in which each comes after its dependencies.
	Components []Component
	// Effective are the fields that the environment governs.
	Effective []platformv1.EffectiveField
}

// BackupDestinationMissing is the detail of an error about a backup that has no destination.
const BackupDestinationMissing = "the environment production needs backups: set a destination, or ask for a default of the operator (--backup-destination), " +
	"or set backup.enabled to false"

// planner collects the plan of one AppStack.
type planner struct {
	stack    *platformv1.AppStack
	options  Options
	existing map[string]Existing
	deps     map[string][]string
	byName   map[string]*platformv1.AppStackComponent
	plan     Plan
	errs     field.ErrorList
}

// New returns the plan of an AppStack, or all reasons why it cannot be carried out. existing has the state of components by their names.
func New(s *platformv1.AppStack, options Options, existing map[string]Existing) (*Plan, field.ErrorList) {
	p := &planner{
		stack: s, options: options, existing: existing, deps: dependencies(s.Spec.Components), byName: map[string]*platformv1.AppStackComponent{},
		errs: graphErrors(&s.Spec),
	}
	var all []string
	for i := range s.Spec.Components {
		all, p.byName[s.Spec.Components[i].Name] = append(all, s.Spec.Components[i].Name), &s.Spec.Components[i]
	}
	names, cycle := order(s.Spec.Components, p.deps)
	if cycle != nil {
		names = all // for the other errors
	}
	for _, name := range names {
		p.add(p.byName[name])
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return &p.plan, nil
}

// add plans one component.
func (p *planner) add(c *platformv1.AppStackComponent) {
	at := field.NewPath("spec", "components").Key(c.Name)
	planned := Component{Name: c.Name, Kind: kindOf(c), Ref: Ref(p.stack, c), DependsOn: p.deps[c.Name], Suspended: c.Suspended}
	switch planned.Kind {
	case KindWebApp:
		planned.child = p.webApp(at.Child("webApp"), c)
	case KindPostgreSQL:
		planned.child = p.postgreSQL(at.Child("postgreSQL"), c)
	case KindAppConfig:
		planned.child = p.appConfig(at.Child("config"), c)
	case KindMySQL:
		p.mySQL(at.Child("mySQL"), c, &planned)
	case KindCache:
		p.cache(at.Child("cache"), c, &planned)
	case KindExternal:
		planned.Key = c.External.SecretRef.KeyOr("uri")
	}
	p.plan.Components = append(p.plan.Components, planned)
}

func kindOf(c *platformv1.AppStackComponent) string {
	switch {
	case c.WebApp != nil:
		return KindWebApp
	case c.PostgreSQL != nil:
		return KindPostgreSQL
	case c.MySQL != nil:
		return KindMySQL
	case c.Cache != nil:
		return KindCache
	case c.Config != nil:
		return KindAppConfig
	}
	return KindExternal
}

// Ref returns the name of the main child object of a component, or of the Secret of an external server.
func Ref(s *platformv1.AppStack, c *platformv1.AppStackComponent) string {
	if c.External != nil {
		return c.External.SecretRef.Name
	}
	return s.Name + "-" + c.Name
}

// Objects returns the desired child objects, the main one first; none for an external server. secretVersion identifies the Secret with the
// credentials of a cache.
func (c *Component) Objects(secretVersion string) []runtime.ApplyConfiguration {
	in := c.Server
	var objects []runtime.ApplyConfiguration
	switch {
	case c.child != nil:
		return []runtime.ApplyConfiguration{client.ApplyConfigurationFromUnstructured(c.child.DeepCopy())}
	case c.Cache != nil:
		in.SecretVersion = secretVersion
		objects = server.Cache(in, c.Cache)
	case c.MySQL != nil:
		objects = server.MySQL(in, c.MySQL)
	default:
		return nil
	}
	objects[0].(*appsv1ac.StatefulSetApplyConfiguration).WithAnnotations(map[string]string{AnnotationDependsOn: strings.Join(c.DependsOn, ",")})
	return objects
}

// Unwanted returns objects that may exist and should not; only their types and names are set.
func (c *Component) Unwanted() []client.Object {
	meta := metav1.ObjectMeta{Namespace: c.Server.Namespace, Name: c.Server.Name}
	var unwanted []client.Object
	if (c.Cache != nil || c.MySQL != nil) && c.Server.Clients == nil {
		unwanted = append(unwanted, &networkingv1.NetworkPolicy{ObjectMeta: meta})
	}
	if c.MySQL != nil && c.Server.Destination == nil {
		unwanted = append(unwanted, &backupv1alpha1.Backup{ObjectMeta: meta}) // what is stored stays
	}
	return unwanted
}

// labels are those of a child object.
func labels(s *platformv1.AppStack, component string) map[string]string {
	return reconciler.Labels(OwnerKind, s.Name, component)
}

// newChild returns a child object of one of Fettle's kinds with this spec.
func (p *planner) newChild(c *platformv1.AppStackComponent, gvk schema.GroupVersionKind, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(p.stack.Namespace)
	u.SetName(Ref(p.stack, c))
	u.SetLabels(labels(p.stack, c.Name))
	u.SetAnnotations(map[string]string{AnnotationDependsOn: strings.Join(p.deps[c.Name], ",")})
	p.inherit(spec)
	return u
}

// inherit adds the labels and annotations of the stack to those that a component passes on.
func (p *planner) inherit(spec map[string]any) {
	inherited := p.stack.Inherited()
	for name, all := range map[string]map[string]string{"labels": inherited.Labels, "annotations": inherited.Annotations} {
		own, _, _ := unstructured.NestedStringMap(spec, "inheritedMetadata", name)
		if all = fettlev1.Inherit(own, all); len(all) > 0 {
			set(spec, anyMap(all), "inheritedMetadata", name)
		}
	}
}

// server is what the objects of a cache or a MySQL are made from.
func (p *planner) server(c *platformv1.AppStackComponent) server.Input {
	all := labels(p.stack, c.Name)
	all[LabelKind] = kindOf(c)
	selector := maps.Clone(reconciler.Selector(OwnerKind, p.stack.Name))
	selector[LabelComponent] = c.Name
	in := server.Input{
		Namespace: p.stack.Namespace, Name: Ref(p.stack, c), Labels: all, Selector: selector, Inherited: p.stack.Inherited(),
	}
	if p.stack.Spec.Environment == platformv1.Production {
		in.Clients = p.peersOf(c.Name)
	}
	return in
}

// peersOf are the pods of the web applications that depend on a component, and if there are none, no pod.
func (p *planner) peersOf(name string) []networkingv1.NetworkPolicyPeer {
	peers := []networkingv1.NetworkPolicyPeer{}
	for i := range p.stack.Spec.Components {
		c := &p.stack.Spec.Components[i]
		if c.WebApp == nil {
			continue
		}
		for _, d := range p.deps[c.Name] {
			if d == name {
				peers = append(peers, podsWith(reconciler.Selector("WebApp", Ref(p.stack, c))))
			}
		}
	}
	return peers
}

func podsWith(labels map[string]string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
}

// GroupVersionKinds of the child objects that are kinds of their own.
var (
	webAppKind     = appsv1.GroupVersion.WithKind(KindWebApp)
	postgreSQLKind = databasev1alpha1.GroupVersion.WithKind(KindPostgreSQL)
	appConfigKind  = configv1.GroupVersion.WithKind(KindAppConfig)
)
