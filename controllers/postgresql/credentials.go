package postgresql

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/scram"
)

// Keys of a Secret with credentials.
const (
	keyPassword = "password"
	// keyNext is the password of a rotation that is under way: it is written down before the server learns of it.
	keyNext = "password-next"
)

// credential is a role that logs in with a password that Fettle made.
type credential struct {
	role, database string
	secret         string
	// live is the Secret as it is; nil while there is none.
	live *corev1.Secret
	// password is what the Secret should say, next the one of a rotation that is under way.
	password, next string
	// rotated is the request that was carried out last.
	rotated string
}

// credentialsOf lists the roles whose passwords Fettle makes, the owner of the database first.
func credentialsOf(pg *databasev1alpha1.PostgreSQL) []credential {
	name := string(pg.Spec.DatabaseName)
	out := []credential{{role: name, database: name, secret: ownerSecret(pg)}}
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

// load takes over what the Secret has, and makes a password where there is none. A rotation that is asked for gets its
// new password: it becomes the password when told is true, which means that the server knows it.
func (c *credential) load(live *corev1.Secret, told bool) (err error) {
	c.live = live
	if live != nil {
		c.password, c.next = string(live.Data[keyPassword]), string(live.Data[keyNext])
		c.rotated = live.Annotations[databasev1alpha1.AnnotationRotated]
	}
	if c.password == "" {
		c.password, err = scram.Generate()
		return err
	}
	asked := live.Annotations[databasev1alpha1.AnnotationRotate]
	switch {
	case asked == c.rotated:
		c.next = ""
	case c.next == "":
		c.next, err = scram.Generate()
	case told:
		c.password, c.next, c.rotated = c.next, "", asked
	}
	return err
}

// effective is the password that the server should know.
func (c *credential) effective() string { return cmp.Or(c.next, c.password) }

// object is the Secret as it should be. Where the PostgreSQL's deletion keeps it, it has no owner.
func (c *credential) object(pg *databasev1alpha1.PostgreSQL) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: c.secret, Namespace: pg.Namespace, Labels: labels(pg)},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{},
	}
	if c.rotated != "" {
		s.Annotations = map[string]string{databasev1alpha1.AnnotationRotated: c.rotated}
	}
	if pg.Spec.DeletionPolicy == databasev1alpha1.DeletionDelete {
		s.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(pg, databasev1alpha1.GroupVersion.WithKind(ownerKind)),
		}
	}
	for key, value := range c.fields(pg) {
		s.Data[key] = []byte(value)
	}
	return s
}

func (c *credential) fields(pg *databasev1alpha1.PostgreSQL) map[string]string {
	h, p := host(pg), fmt.Sprint(portPostgres)
	query := "?sslmode=require"
	jdbc := url.Values{"user": {c.role}, "password": {c.password}, "sslmode": {"require"}}
	fields := map[string]string{
		"host":      h,
		"port":      p,
		"user":      c.role,
		"username":  c.role, // of type kubernetes.io/basic-auth, as many programs expect
		keyPassword: c.password,
		"dbname":    c.database,
		"uri":       (&url.URL{Scheme: "postgresql", User: url.UserPassword(c.role, c.password), Host: h + ":" + p, Path: c.database}).String() + query,
		"jdbc-uri":  fmt.Sprintf("jdbc:postgresql://%s:%s/%s?%s", h, p, c.database, jdbc.Encode()),
		"pgpass":    fmt.Sprintf("%s:%s:%s:%s:%s\n", h, p, c.database, c.role, c.password),
		"read-host": fmt.Sprintf("%s.%s.svc", replicasService(pg), pg.Namespace),
		// As the image of PostgreSQL calls them.
		"POSTGRES_USER":     c.role,
		"POSTGRES_PASSWORD": c.password,
		"POSTGRES_DB":       c.database,
	}
	if c.next != "" {
		fields[keyNext] = c.next
	}
	return fields
}
