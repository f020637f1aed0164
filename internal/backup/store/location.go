package store

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// location is a destination with its defaults. All of it was validated again, since a Config may come from an older API version.
type location struct {
	kind      backupv1alpha1.StoreType
	bucket    string
	folder    string // of all objects, with the prefix and a slash at its end
	region    string
	endpoint  string // without a slash at its end
	pathStyle bool
	account   string
	// identity says that the pod's ServiceAccount has access to the bucket, and not the keys of a Secret.
	identity bool
	// storageClass and encryption of the objects that are written; those of the bucket by default.
	storageClass string
	encryption   *backupv1alpha1.ServerSideEncryption
}

// The schemes of URIs by type.
var schemes = map[backupv1alpha1.StoreType]string{
	backupv1alpha1.StoreS3: "s3", backupv1alpha1.StoreGCS: "gs", backupv1alpha1.StoreAzure: "azblob",
}

// maxKey is how many bytes the stores permit in the key of an object.
const maxKey = 1024

var (
	bucketPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,221}$`)
	segmentPattern = regexp.MustCompile(`^[A-Za-z0-9!_.*()=+@-]{1,255}$`)
	labelPattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	accountPattern = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
)

// newLocation returns the location of a folder "<namespace>/<backup>" in a destination. Errors name the field.
func newLocation(d backupv1alpha1.Destination, folder string) (location, error) {
	l := location{
		kind: d.Type, bucket: d.Bucket, region: d.Region, account: d.AccountName, identity: d.ServiceAccountName != "",
		storageClass: d.StorageClass, encryption: d.ServerSideEncryption,
	}
	prefix := d.Prefix
	if d.URI != "" {
		scheme, rest, _ := strings.Cut(d.URI, "://")
		for kind, s := range schemes {
			if s == scheme {
				l.kind = kind
			}
		}
		l.bucket, prefix, _ = strings.Cut(rest, "/")
	}
	if schemes[l.kind] == "" {
		return l, fmt.Errorf("destination: unknown type of store: set type to s3, gcs or azure")
	}
	if !bucketPattern.MatchString(l.bucket) || strings.Contains(l.bucket, "..") {
		return l, fmt.Errorf("bucket: %q is not the name of a bucket", l.bucket)
	}
	if l.region == "" {
		l.region = "us-east-1"
	}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		if err := validPath(prefix); err != nil {
			return l, fmt.Errorf("prefix: %w", err)
		}
		prefix += "/"
	}
	namespace, backup, _ := strings.Cut(folder, "/")
	if !labelPattern.MatchString(namespace) || !labelPattern.MatchString(backup) {
		return l, fmt.Errorf("folder %q is not NAMESPACE/BACKUP", folder)
	}
	l.folder = prefix + folder + "/"
	l.pathStyle = d.Endpoint != ""
	if d.ForcePathStyle != nil {
		l.pathStyle = *d.ForcePathStyle
	}
	return l, l.setEndpoint(d.Endpoint)
}

func (l *location) setEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("endpoint: must be a URL such as https://minio.example.com:9000, without user, query or fragment")
	}
	l.endpoint = strings.TrimSuffix(endpoint, "/")
	return nil
}

// uri returns the URI of an object or a folder.
func (l location) uri(name string) string {
	return schemes[l.kind] + "://" + l.bucket + "/" + l.folder + name
}

// key returns the key of an object in the bucket. Every access to an object goes through it.
func (l location) key(name string) (string, error) {
	if err := validPath(name); err != nil {
		return "", err
	}
	key := l.folder + name
	if len(key) > maxKey {
		return "", fmt.Errorf("name %q: the key would be longer than %d bytes", name, maxKey)
	}
	return key, nil
}

// validPath permits relative paths of plain segments. None leaves its folder, and all stores take them unchanged.
func validPath(name string) error {
	for segment := range strings.SplitSeq(name, "/") {
		if !segmentPattern.MatchString(segment) || strings.Trim(segment, ".") == "" {
			return fmt.Errorf("name %q has the invalid segment %q", name, segment)
		}
	}
	return nil
}
