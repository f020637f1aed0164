package backupjob

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// mounts are the volumes of a pod, and where the main container has them.
type mounts struct {
	volumes []corev1.Volume
	mounts  []corev1.VolumeMount
}

// mounts lays out the folders of package job. Secrets are never in the environment or in arguments.
func (p *Pod) mounts() *mounts {
	m := &mounts{}
	m.add(volumeBin, "/fettle-bin", true, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	m.add(volumeTmp, "/tmp", false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	if ref := p.Store.CredentialsSecretRef; ref != nil {
		m.secret("store", job.DirStore, ref.Name)
	}
	m.key("store-ca", job.DirStoreCA, p.Store.CASecretRef, keyCA)
	m.key("identity", job.DirIdentity, p.Identity, keyIdentity)
	m.key("server-uri", job.DirServerURI, p.Server.URI, keyURI)
	m.key("server-ca", job.DirServerCA, p.Server.CA, keyCA)
	if name := p.Server.Replication; name != "" {
		m.secret("replication", job.DirReplication, name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, keyCA)
	}
	for i, l := range p.Server.Logins {
		m.login(i, l)
	}
	return m
}

func (m *mounts) add(name, path string, readOnly bool, source corev1.VolumeSource) {
	m.volumes = append(m.volumes, corev1.Volume{Name: name, VolumeSource: source})
	m.mounts = append(m.mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly})
}

// secret mounts the given keys of a Secret; all if none are given.
func (m *mounts) secret(name, path, secret string, keys ...string) {
	source := &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(secretMode))}
	for _, key := range keys {
		source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	m.add(name, path, true, corev1.VolumeSource{Secret: source})
}

// key mounts one key of a Secret as the file with the usual name of the key.
func (m *mounts) key(name, path string, ref *fettlev1.SecretKeyReference, file string) {
	if ref == nil {
		return
	}
	m.add(name, path, true, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: ref.Name, DefaultMode: new(int32(secretMode)), Items: []corev1.KeyToPath{{Key: ref.KeyOr(file), Path: file}},
	}})
}

// login mounts the password of a login, and its user name: from the Secret, which may have none, or from an annotation of the pod.
func (m *mounts) login(number int, l Login) {
	from := func(key, file string, optional *bool) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: l.Secret}, Items: []corev1.KeyToPath{{Key: key, Path: file}}, Optional: optional,
		}}
	}
	sources := []corev1.VolumeProjection{from(l.PasswordKey, keyPassword, nil)}
	switch {
	case l.Username != "":
		field := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: fmt.Sprintf("metadata.annotations['%s%d']", annotationUsername, number)}
		sources = append(sources, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{
			Items: []corev1.DownwardAPIVolumeFile{{Path: keyUsername, FieldRef: field}},
		}})
	case l.UsernameKey != "":
		sources = append(sources, from(l.UsernameKey, keyUsername, new(true)))
	}
	m.add(fmt.Sprintf("login-%d", number), job.DirLogin(number), true, corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: new(int32(secretMode))},
	})
}
