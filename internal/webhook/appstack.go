package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/policy"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/internal/stack/ecommerce"
	"github.com/fettle-dev/fettle/internal/stack/server"
)

// Without the webhook, the conditions of the objects say the same.
// +kubebuilder:webhook:path=/validate-platform-fettle-dev-v1-appstack,mutating=false,failurePolicy=ignore,sideEffects=None,groups=platform.fettle.dev,resources=appstacks,verbs=create;update,versions=v1,name=appstacks.platform.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=10
// +kubebuilder:webhook:path=/validate-platform-fettle-dev-v1-ecommerceplatform,mutating=false,failurePolicy=ignore,sideEffects=None,groups=platform.fettle.dev,resources=ecommerceplatforms,verbs=create;update,versions=v1,name=ecommerceplatforms.platform.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=10

// stackValidator rejects AppStacks that cannot be carried out, and those whose child objects the API server rejects: it applies them without
// effect (dry run), so that the rules and policies of their kinds hold for the blocks of an AppStack too.
type stackValidator struct {
	client    client.Client
	evaluator *evaluator
	options   stack.Options
}

var _ admission.Validator[*platformv1.AppStack] = &stackValidator{}

// ValidateCreate checks a new AppStack.
func (v *stackValidator) ValidateCreate(ctx context.Context, s *platformv1.AppStack) (admission.Warnings, error) {
	return v.validate(ctx, nil, s)
}

// ValidateUpdate checks a spec that changed.
func (v *stackValidator) ValidateUpdate(ctx context.Context, old, s *platformv1.AppStack) (admission.Warnings, error) {
	if s.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, s.Spec) {
		return nil, nil
	}
	return v.validate(ctx, old, s)
}

func (v *stackValidator) validate(ctx context.Context, old, s *platformv1.AppStack) (admission.Warnings, error) {
	s = s.DeepCopy()
	s.Namespace = key(ctx, s).Namespace
	errs, err := v.check(ctx, s)
	if err != nil {
		return nil, err
	}
	return v.checkImages(ctx, platformv1.GroupVersion.WithKind("AppStack").GroupKind(), old, s, errs, strings.NewReplacer())
}

// checkImages checks the images of caches and MySQLs against the policies of the namespace, which hold for the other kinds by their own
// webhooks. An image that old, nil for none, has already stays. rejected are other errors; places translates the paths.
func (v *stackValidator) checkImages(
	ctx context.Context, kind schema.GroupKind, old, s *platformv1.AppStack, rejected field.ErrorList, places *strings.Replacer,
) (admission.Warnings, error) {
	images, before := serverImages(s), map[string]string{}
	if old != nil {
		before = serverImages(old)
	}
	return v.evaluator.evaluate(ctx, kind, client.ObjectKeyFromObject(s), rejected, func(p *appsv1.WebAppPolicy, _ map[string]string) (all []policy.Violation, _ error) {
		for _, path := range slices.Sorted(maps.Keys(images)) {
			if before[path] != images[path] {
				all = append(all, policy.CheckRegistry(p, field.NewPath(places.Replace(path)), images[path])...)
			}
		}
		return all, nil
	})
}

// serverImages returns the images of caches and MySQLs by their paths.
func serverImages(s *platformv1.AppStack) map[string]string {
	images := map[string]string{}
	for i := range s.Spec.Components {
		c := &s.Spec.Components[i]
		at := field.NewPath("spec", "components").Key(c.Name)
		switch {
		case c.Cache != nil:
			images[at.Child("cache", "image").String()] = server.CacheImage(c.Cache)
		case c.MySQL != nil:
			images[at.Child("mySQL", "image").String()] = server.MySQLImage(c.MySQL)
		}
	}
	return images
}

// ValidateDelete is never called.
func (v *stackValidator) ValidateDelete(context.Context, *platformv1.AppStack) (admission.Warnings, error) {
	return nil, nil
}

func (v *stackValidator) check(ctx context.Context, s *platformv1.AppStack) (field.ErrorList, error) {
	existing, err := stack.Read(ctx, v.client, s)
	if err != nil {
		return nil, fmt.Errorf("read what exists of AppStack %q: %w", s.Name, err)
	}
	plan, errs := stack.New(s, v.options, existing)
	if len(errs) > 0 {
		return errs, nil
	}
	found := make([]field.ErrorList, len(plan.Components))
	var wait sync.WaitGroup
	for i := range plan.Components {
		wait.Go(func() { found[i] = v.checkComponent(ctx, &plan.Components[i]) })
	}
	wait.Wait()
	for _, f := range found {
		errs = append(errs, f...)
	}
	return errs, nil
}

// blocks are the fields of a component that have the spec of a kind.
var blocks = map[string]string{stack.KindWebApp: "webApp", stack.KindPostgreSQL: "postgreSQL", stack.KindAppConfig: "config", stack.KindMySQL: "mySQL", stack.KindCache: "cache"}

// checkComponent applies the objects of a component without effect, and returns why the API server rejects them. Other errors are left to
// the controller: an object of another owner, a namespace that does not exist yet, or a missing permission may have changed until then.
func (v *stackValidator) checkComponent(ctx context.Context, c *stack.Component) (errs field.ErrorList) {
	at := field.NewPath("spec", "components").Key(c.Name).Child(blocks[c.Kind])
	for _, o := range c.Objects("") {
		err := v.client.Apply(ctx, o, client.FieldOwner("appstack"), client.ForceOwnership, client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			continue
		}
		_, own := o.(interface{ GetKind() *string }) // an object that Kubernetes defines: its fields are not those of the block
		place := at
		if u, ok := o.(interface{ GetKind() string }); ok && u.GetKind() == "Backup" {
			place = at.Child("backup")
		}
		errs = append(errs, rejections(place, err, !own)...)
	}
	return errs
}

// rejections are the causes of an error of the API server. If the object has the fields of the block at that place, they name the field there.
func rejections(at *field.Path, err error, sameFields bool) (errs field.ErrorList) {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())}
	}
	for _, cause := range status.Status().Details.Causes {
		place, detail := at, strings.TrimPrefix(cause.Message, field.ErrorType(cause.Type).String()+": ") // the type is added again
		if path, ok := strings.CutPrefix(cause.Field, "spec."); ok && sameFields {
			place = at.Child(path)
		} else if !sameFields {
			detail = cause.Field + ": " + detail
		}
		errs = append(errs, &field.Error{Type: field.ErrorType(cause.Type), Field: place.String(), BadValue: field.OmitValueType{}, Detail: detail})
	}
	return errs
}

// platformValidator checks EcommercePlatforms by the AppStack that they become.
type platformValidator struct{ stacks *stackValidator }

var _ admission.Validator[*platformv1.EcommercePlatform] = &platformValidator{}

// ValidateCreate checks a new EcommercePlatform.
func (v *platformValidator) ValidateCreate(ctx context.Context, p *platformv1.EcommercePlatform) (admission.Warnings, error) {
	return v.validate(ctx, nil, p)
}

// ValidateUpdate checks a spec that changed.
func (v *platformValidator) ValidateUpdate(ctx context.Context, old, p *platformv1.EcommercePlatform) (admission.Warnings, error) {
	if p.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, p.Spec) {
		return nil, nil
	}
	before := &platformv1.AppStack{}
	if spec, errs := ecommerce.Stack(old, false); len(errs) == 0 {
		before.Spec = *spec
	}
	return v.validate(ctx, before, p)
}

func (v *platformValidator) validate(ctx context.Context, old *platformv1.AppStack, p *platformv1.EcommercePlatform) (admission.Warnings, error) {
	kind := platformv1.GroupVersion.WithKind("EcommercePlatform").GroupKind()
	spec, errs := ecommerce.Stack(p, false)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(kind, p.Name, errs)
	}
	s := &platformv1.AppStack{Spec: *spec}
	s.Namespace, s.Name = key(ctx, p).Namespace, p.Name
	errs, err := v.stacks.check(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, e := range errs {
		e.Field = ecommerce.Places.Replace(e.Field)
	}
	return v.stacks.checkImages(ctx, kind, old, s, errs, ecommerce.Places)
}

// ValidateDelete is never called.
func (v *platformValidator) ValidateDelete(context.Context, *platformv1.EcommercePlatform) (admission.Warnings, error) {
	return nil, nil
}
