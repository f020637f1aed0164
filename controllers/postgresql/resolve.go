package postgresql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// inputs is all that was read to decide what should be.
type inputs struct {
	agentImage string
	// operatorNamespace is where the operator's own pods are.
	operatorNamespace string
	templateSize      resource.Quantity
	cluster           cluster
	// extraDisruptions are the instances that the PodDisruptionBudget does not count.
	extraDisruptions int
	growth           growth
	credentials      []credential
	certificates     certificates
	// passwords are by role; those of users' own Secrets have no value until they are needed.
	passwords map[string]password
	// secretMissing names one of those Secrets that does not exist.
	secretMissing string
	// foreignSecrets are the roles whose Secret belongs to another owner.
	foreignSecrets []credential
	// objectsHash is that of the databases and roles for the primary; empty while there is no primary, or a password is missing.
	objectsHash string
	// rotating is set while a password is being rotated.
	rotating bool
	// rotationBlocked is why a rotation takes long.
	rotationBlocked   string
	parameters        error
	monitoringMissing bool
	// alerts are the rules of the PrometheusRule.
	alerts []any
	// issued is what cert-manager has made; nil where it is not asked. certificateAPI is true where there is one to ask.
	issued         *issuedCertificate
	certificateAPI bool
	// restore is what a Restore restores in place, and recovery is that or spec.bootstrap.recovery; nil for none.
	restore, recovery *databasev1alpha1.PostgreSQLRecovery
	// recoverFrom is the destination of the Backup to restore; nil for none, or while there is no such Backup.
	recoverFrom *backupv1alpha1.Destination
	// backup is set when the Backup is applied. identity are the annotations that give the agents access to the bucket.
	backup   bool
	identity map[string]string
	// apiRetry is when to look again for an API that is asked for, and is defined but not served yet; 0 where there is none.
	apiRetry time.Duration
}

// resolve reads everything once, from the cache where the cache holds it.
func (r *Reconciler) resolve(ctx context.Context, pg *databasev1alpha1.PostgreSQL) (*inputs, error) {
	in := &inputs{parameters: config.CheckParameters(major(pg), pg.Spec.ParameterValues())}
	set, pods, claims, err := r.workload(ctx, pg)
	if err != nil {
		return nil, err
	}
	in.operatorNamespace = r.namespace
	in.agentImage = agentImage(pg, set, r.agentImage)
	if err := r.certify(ctx, pg, in); err != nil {
		return nil, err
	}
	if err := r.resolveRecovery(ctx, pg, in); err != nil {
		return nil, err
	}
	want := podVersion{revision: revisionOf(pg)}
	if rollsAgent(pg) {
		want.agentImage = in.agentImage
	}
	age := idlePoll(pg)
	if !pg.Spec.Paused && !settled(pg, new(assemble(pg, set, pods, claims, r.agents.last(client.ObjectKeyFromObject(pg)), want))) {
		age = pollActive // also while an agent's last answer was that it is not ready: it is not to be believed for a minute
	}
	in.cluster = assemble(pg, set, pods, claims, r.agents.statuses(ctx, pg, &in.certificates, pods, age), want)
	if err := errors.Join(r.adoptClaims(ctx, pg, &in.cluster), r.decideVolumes(ctx, pg, &in.cluster)); err != nil {
		return nil, err
	}
	if err := r.checkTokens(ctx, pg, &in.cluster); err != nil {
		return nil, err
	}
	if err := r.checkNodes(ctx, pg, &in.cluster); err != nil {
		return nil, err
	}
	in.extraDisruptions = extraDisruptions(&in.cluster, r.Clock.Now())
	in.growth = grow(pg, &in.cluster)
	in.templateSize = in.growth.size
	if size := templateSize(&in.cluster); size != nil {
		in.templateSize = *size // until the StatefulSet is re-created
	}
	if err := errors.Join(r.passwords(ctx, pg, in), r.resolveBackup(ctx, pg, in)); err != nil {
		return nil, err
	}
	return in, r.resolveOptionalAPIs(ctx, pg, in)
}

// agentImage is the image that new pods get their agent from: the operator's own, or where agents are updated by hand alone the one
// that the template has.
func agentImage(pg *databasev1alpha1.PostgreSQL, set *k8sappsv1.StatefulSet, own string) string {
	if rollsAgent(pg) || pg.Spec.AgentUpdatePolicy != databasev1alpha1.AgentUpdateManual || isRestored(pg) {
		return own // an older agent may not know how to restore in place
	}
	template := ""
	if set != nil {
		template = set.Spec.Template.Annotations[annotationAgentImage]
	}
	return cmp.Or(template, pg.Status.AgentImage, own)
}

// rollsAgent reports whether pods with another agent than that of the template are replaced.
func rollsAgent(pg *databasev1alpha1.PostgreSQL) bool {
	return pg.Spec.AgentUpdatePolicy == databasev1alpha1.AgentUpdateAutomatic || pg.Annotations[databasev1alpha1.AnnotationUpgradeAgent] == "true"
}

// settled reports whether nothing is under way, so that agents are asked only now and then.
func settled(pg *databasev1alpha1.PostgreSQL, c *cluster) bool {
	for i := range c.instances {
		if in := &c.instances[i]; !in.ready() || in.outdated || in.needsRestart() {
			return false
		}
	}
	volumes := meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLVolumesReady)
	steady := (configuredBefore(pg) || onlyForeignSecrets(pg)) && volumes != nil &&
		(volumes.Status == metav1.ConditionTrue || volumes.Reason == databasev1alpha1.ReasonOrphanedVolumes || volumes.Reason == databasev1alpha1.ReasonVolumesUnknown) // that may stay for days
	return steady && c.set != nil && len(c.instances) == c.size() && c.primary() != nil &&
		c.primary().name == pg.Status.Primary && pg.Annotations[databasev1alpha1.AnnotationSwitchover] == ""
}

func (r *Reconciler) workload(
	ctx context.Context, pg *databasev1alpha1.PostgreSQL,
) (*k8sappsv1.StatefulSet, []corev1.Pod, []corev1.PersistentVolumeClaim, error) {
	set := &k8sappsv1.StatefulSet{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(pg), set)
	switch {
	case apierrors.IsNotFound(err):
		set = nil
	case err != nil:
		return nil, nil, nil, fmt.Errorf("get StatefulSet: %w", err)
	case !metav1.IsControlledBy(set, pg):
		set = nil // in the way, or of a former PostgreSQL of this name
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(pg.Namespace), client.MatchingFields{indexOwner: pg.Name}); err != nil {
		return nil, nil, nil, fmt.Errorf("list pods: %w", err)
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.Client.List(ctx, claims, client.InNamespace(pg.Namespace), client.MatchingLabels(selector(pg))); err != nil {
		return nil, nil, nil, fmt.Errorf("list PVCs: %w", err)
	}
	return set, pods.Items, claims.Items, nil
}

func (r *Reconciler) certify(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	var have [3]*corev1.Secret
	var err error
	for i, name := range []string{authoritySecret(pg), serverSecret(pg), clientSecret(pg)} {
		read := r.ownSecret
		if i > 0 && have[0] == nil {
			read = r.cachedSecret // what another CA has signed is of no use, and is re-created
		}
		if have[i], err = read(ctx, pg, name); err != nil {
			return err
		}
	}
	if in.certificates, err = ensureCertificates(pg, have[0], have[1], have[2], r.Clock.Now()); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

// ownSecret returns a Secret that Fettle made; nil when there is none. Before anything secret is re-created the API server is
// asked, since the cache may be behind.
func (r *Reconciler) ownSecret(ctx context.Context, pg *databasev1alpha1.PostgreSQL, name string) (*corev1.Secret, error) {
	s, err := r.cachedSecret(ctx, pg, name)
	if s != nil || err != nil {
		return s, err
	}
	return secretFrom(ctx, r.Live, pg, name)
}

// cachedSecret returns a Secret that Fettle made; nil where the cache shows none.
func (r *Reconciler) cachedSecret(ctx context.Context, pg *databasev1alpha1.PostgreSQL, name string) (*corev1.Secret, error) {
	return secretFrom(ctx, r.Client, pg, name)
}

func secretFrom(ctx context.Context, reader client.Reader, pg *databasev1alpha1.PostgreSQL, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: pg.Namespace, Name: name}, s)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // absence is an answer
	case err != nil:
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	case !isOwn(pg, s):
		return nil, secretConflict(pg, s)
	}
	return s, nil
}

// passwords reads those that Fettle made, and the versions of those that users gave. Somebody else's Secret with the name of a
// role's costs that role its password, and nothing else.
func (r *Reconciler) passwords(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	in.passwords = map[string]password{}
	if err := r.readUserSecretVersions(ctx, pg, in); err != nil {
		return err
	}
	var lives []*corev1.Secret
	for i, c := range credentialsOf(pg) {
		live, err := r.ownSecret(ctx, pg, c.secret)
		if _, taken := errors.AsType[*apply.ConflictError](err); taken && i > 0 {
			in.foreignSecrets = append(in.foreignSecrets, c)
			continue
		}
		if err != nil {
			return err
		}
		if c.source != nil {
			if err := r.copyPassword(ctx, pg, in, &c, live); err != nil {
				return err
			}
		}
		in.credentials, lives = append(in.credentials, c), append(lives, live)
		if live != nil && c.source == nil {
			in.passwords[c.role] = password{version: in.certificates.keyedHash(live)}
			in.rotating = in.rotating || len(live.Data[keyNext]) > 0
		}
	}
	if primary := in.cluster.primary(); primary != nil && in.secretMissing == "" {
		in.objectsHash = objectsHash(pg, in.passwords, primary.pod)
	}
	return in.loadCredentials(lives, r.replayedEverywhere(pg, in))
}

// readUserSecretVersions notes the versions of the Secrets that users gave, and one that is missing.
func (r *Reconciler) readUserSecretVersions(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	for _, u := range userSecretsOf(pg) {
		version, err := r.secretVersion(ctx, pg, u.ref.Name)
		if err != nil {
			return err
		}
		if version == "" {
			in.secretMissing = u.missing(pg)
			continue
		}
		in.passwords[u.role] = password{version: version, own: true}
	}
	return nil
}

// secretVersion is the resourceVersion of a user's Secret, from the metadata in the cache; empty when there is none.
func (r *Reconciler) secretVersion(ctx context.Context, pg *databasev1alpha1.PostgreSQL, name string) (string, error) {
	reader := client.Reader(r.Client)
	if !r.WatchSecrets {
		reader = r.Live
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := reader.Get(ctx, client.ObjectKey{Namespace: pg.Namespace, Name: name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get Secret %q: %w", name, err)
	}
	return secret.ResourceVersion, nil
}

// readUserPasswords reads the passwords of users' own Secrets, by name, when they are applied to the primary.
func (r *Reconciler) readUserPasswords(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	for _, u := range userSecretsOf(pg) {
		value, err := r.userPassword(ctx, pg, u.ref)
		if err != nil {
			return err
		}
		if value == "" {
			in.secretMissing = u.missing(pg)
			continue
		}
		p := in.passwords[u.role]
		p.value = value
		in.passwords[u.role] = p
	}
	return nil
}
