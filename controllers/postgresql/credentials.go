package postgresql

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/scram"
)

// Keys of a Secret with credentials.
const (
	keyUser     = "user"
	keyPassword = "password"
	// keyNext is the password of a rotation that is under way: it is written down before the server learns of it. keyRequest
	// is the request that it is made for.
	keyNext    = "password-next"
	keyRequest = "password-next-for"
	// keySSLMode is how uri and jdbc-uri have clients verify the server: users may change it. A Secret of an earlier version has
	// none, and no keyAuthority either; it stays as it is until a user sets one, since its clients may have no certificate to
	// verify with, and workloads that roll with its contents must not be restarted by an upgrade.
	keySSLMode = "sslmode"
)

// sslModes are those that keep connections private; the first is that of new Secrets.
var sslModes = []string{"verify-full", "verify-ca", "require"}

// credential is a Secret that Fettle writes with the password of a role.
type credential struct {
	role, database string
	secret         string
	// source is the user's own Secret that the password is copied from; nil where Fettle generates it.
	source *fettlev1.SecretKeyReference
	// copiedFrom says which version of the source the password is from; "" where it is generated.
	copiedFrom string
	// live is the Secret as it is; nil while there is none.
	live *corev1.Secret
	// sslMode is one of sslModes; empty where the Secret has none and is to stay so.
	sslMode string
	// rotation is what the Secret should say.
	rotation
}

// credentialsOf lists the Secrets with passwords that Fettle writes, that of the owner first.
func credentialsOf(pg *databasev1alpha1.PostgreSQL) []credential {
	out := []credential{{
		role: string(pg.Spec.OwnerName()), database: string(pg.Spec.DatabaseName), secret: ownerSecret(pg), source: pg.Spec.Owner.PasswordSecret,
	}}
	for i := range pg.Spec.Roles {
		r := &pg.Spec.Roles[i]
		if !logsIn(r) || r.PasswordSecret != nil {
			continue
		}
		out = append(out, credential{role: string(r.Name), database: databaseOf(pg, r.Name), secret: roleSecret(pg, r.Name)})
	}
	return out
}

func logsIn(r *databasev1alpha1.PostgreSQLRole) bool { return r.Login == nil || *r.Login }

// databaseOf is the first database that the role owns, spec.databaseName if it owns none.
func databaseOf(pg *databasev1alpha1.PostgreSQL, owner databasev1alpha1.Identifier) string {
	i := slices.IndexFunc(pg.Spec.Databases, func(d databasev1alpha1.PostgreSQLDatabase) bool { return d.Owner == owner })
	if i < 0 {
		return string(pg.Spec.DatabaseName)
	}
	return string(pg.Spec.Databases[i].Name)
}

// load takes over what the Secret has, and takes the next step of what is under way: see rotation. known says that the
// servers have what the Secret says.
func (c *credential) load(live *corev1.Secret, known bool) (err error) {
	c.live, c.sslMode = live, sslModes[0]
	if live != nil {
		if chosen, ok := live.Data[keySSLMode]; !ok || slices.Contains(sslModes, string(chosen)) {
			c.sslMode = string(chosen)
		}
	}
	if c.source != nil {
		return nil // see copyPassword
	}
	asked := ""
	if live != nil {
		asked = live.Annotations[databasev1alpha1.AnnotationRotate]
	}
	c.rotation = rotationOf(c.role, live).advance(asked, known, func() (password string) {
		password, err = scram.Generate()
		return password
	})
	return err
}

// changed reports whether the Secret is about to be written.
func (c *credential) changed() bool { return c.rotation != rotationOf(c.role, c.live) }

// object is the Secret as it should be, with the authorities that clients trust. Where the PostgreSQL's deletion keeps it, it has
// no owner.
func (c *credential) object(pg *databasev1alpha1.PostgreSQL, roots []byte) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: c.secret, Namespace: pg.Namespace, Labels: labels(pg)},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{},
	}
	if c.done != "" {
		s.Annotations = map[string]string{databasev1alpha1.AnnotationRotated: c.done}
	}
	if c.copiedFrom != "" || c.live != nil && c.live.Annotations[annotationCopiedFrom] != "" {
		s.Annotations = mergeMaps(s.Annotations, map[string]string{annotationCopiedFrom: c.copiedFrom})
	}
	if pg.Spec.DeletionPolicy == databasev1alpha1.DeletionDelete {
		s.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(pg, databasev1alpha1.GroupVersion.WithKind(ownerKind)),
		}
	}
	for key, value := range c.fields(pg) {
		s.Data[key] = []byte(value)
	}
	if c.sslMode != "" {
		s.Data[keySSLMode], s.Data[keyAuthority] = []byte(c.sslMode), roots
	}
	inherit(pg, s)
	return s
}

func (c *credential) fields(pg *databasev1alpha1.PostgreSQL) map[string]string {
	h, p, login := host(pg), fmt.Sprint(portPostgres), c.login(c.role)
	mode := cmp.Or(c.sslMode, "require")
	jdbc := url.Values{"user": {login}, "password": {c.password}, "sslmode": {mode}}
	fields := map[string]string{
		"host":      h,
		"port":      p,
		keyUser:     login,
		"username":  login, // of type kubernetes.io/basic-auth, as many programs expect
		keyPassword: c.password,
		"dbname":    c.database,
		"uri":       (&url.URL{Scheme: "postgresql", User: url.UserPassword(login, c.password), Host: h + ":" + p, Path: c.database}).String() + "?sslmode=" + mode,
		"jdbc-uri":  fmt.Sprintf("jdbc:postgresql://%s:%s/%s?%s", h, p, c.database, jdbc.Encode()),
		"pgpass":    fmt.Sprintf("%s:%s:%s:%s:%s\n", h, p, c.database, login, c.password),
		"read-host": fmt.Sprintf("%s.%s.svc", replicasService(pg), pg.Namespace),
		// As the image of PostgreSQL calls them.
		"POSTGRES_USER":     login,
		"POSTGRES_PASSWORD": c.password,
		"POSTGRES_DB":       c.database,
	}
	if c.next != "" {
		fields[keyNext], fields[keyRequest] = c.next, c.request
	}
	return fields
}

// replayedEverywhere reports whether all instances that accept connections have the passwords of the Secrets. It is asked for while a password is
// being rotated alone.
func (r *Reconciler) replayedEverywhere(pg *databasev1alpha1.PostgreSQL, in *inputs) bool {
	if !in.rotating || in.objectsHash == "" {
		return false
	}
	key := client.ObjectKeyFromObject(pg)
	told, ok := r.history.applied(key, in.objectsHash)
	if primary := in.cluster.primary(); !ok && !in.needsApply(pg) && primary.status != nil {
		told = r.history.recordApplied(key, in.objectsHash, primary.status.Applied.InsertLSN)
		ok = true
	}
	if !ok {
		return false
	}
	late := in.cluster.replayBehind(told.inserted)
	if late != "" && r.Clock.Since(told.at) > slowReplay {
		in.rotationBlocked = fmt.Sprintf("the new password is published when %s has replayed it; see the log of that pod", late)
	}
	return late == ""
}

// loadCredentials takes over the contents of the Secrets with passwords that Fettle made. While one of them is about to be written the
// nothing is sent to the primary: it gets what is in the Secrets.
func (in *inputs) loadCredentials(lives []*corev1.Secret, known bool) error {
	for i := range in.credentials {
		c := &in.credentials[i]
		if c.source != nil && c.password == "" {
			continue // the user's Secret is missing
		}
		if err := c.load(lives[i], known); err != nil {
			return fmt.Errorf("password of role %s: %w", c.role, err)
		}
		if c.changed() {
			in.objectsHash = ""
			in.rotating = in.rotating || c.next != ""
		}
		if p, ok := in.passwords[c.role]; ok {
			p.value, p.second = c.passwords()
			in.passwords[c.role] = p
		}
	}
	return nil
}
