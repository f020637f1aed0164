package cmd

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/json"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// destinationFlag is a flag with a destination of backups: its URI, or all of it as JSON.
type destinationFlag struct {
	text  string
	value *backupv1alpha1.Destination
}

// String returns what was set.
func (f *destinationFlag) String() string { return f.text }

// Type is in the help.
func (*destinationFlag) Type() string { return "destination" }

// Set reads a destination.
func (f *destinationFlag) Set(text string) error {
	if text == "" {
		*f = destinationFlag{}
		return nil
	}
	d := &backupv1alpha1.Destination{URI: text}
	if strings.HasPrefix(text, "{") {
		d = &backupv1alpha1.Destination{}
		strict, err := json.UnmarshalStrict([]byte(text), d)
		if err == nil && len(strict) > 0 {
			err = strict[0]
		}
		if err != nil {
			return fmt.Errorf("must be a destination as JSON, such as {\"uri\": \"s3://my-backups\", \"credentialsSecretRef\": {\"name\": \"backup-keys\"}}: %w", err)
		}
	}
	if (d.Type == "" || d.Bucket == "") && !bucketURI.MatchString(d.URI) {
		return errors.New("must be s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or azblob://CONTAINER/PREFIX, or JSON with a type and a bucket")
	}
	*f = destinationFlag{text: text, value: d}
	return nil
}

// bucketURI is the form of a destination's URI, as the schema has it.
var bucketURI = regexp.MustCompile(`^(s3|gs|azblob)://[A-Za-z0-9][A-Za-z0-9._-]{1,220}(/[A-Za-z0-9!_.*()=-]+)*/?$`)
