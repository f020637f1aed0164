package cmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

func TestDestinationFlag(t *testing.T) {
	const asJSON = `{"type":"s3","bucket":"my-backups","endpoint":"https://minio.example.com:9000","forcePathStyle":true,"credentialsSecretRef":{"name":"keys"}}`
	for text, want := range map[string]*backupv1alpha1.Destination{
		"":                            nil,
		"s3://my-backups":             {URI: "s3://my-backups"},
		"gs://my-backups/shop":        {URI: "gs://my-backups/shop"},
		"azblob://container/a/b/":     {URI: "azblob://container/a/b/"},
		`{"uri":"gs://my-backups"}`:   {URI: "gs://my-backups"},
		"{\n\t\"uri\": \"s3://abc\"}": {URI: "s3://abc"},
		asJSON: {
			Type: "s3", Bucket: "my-backups", Endpoint: "https://minio.example.com:9000", ForcePathStyle: new(true),
			CredentialsSecretRef: &fettlev1.LocalReference{Name: "keys"},
		},
	} {
		f := &destinationFlag{}
		if err := f.Set(text); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, f.value); diff != "" || f.String() != text {
			t.Errorf("%s: shown as %q (-want +got):\n%s", text, f, diff)
		}
	}
}

func TestDestinationFlag_errors(t *testing.T) {
	const (
		uri      = "must be s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or azblob://CONTAINER/PREFIX"
		asObject = "must be a destination as JSON, such as {"
	)
	for text, want := range map[string][]string{
		"my-backups":                   {uri},
		"s3:my-backups":                {uri},
		"S3://my-backups":              {uri},
		"https://my-backups.s3.com":    {uri},
		"://my-backups":                {uri},
		" ":                            {uri},
		"null":                         {uri},
		"{}":                           {uri},
		`{"type":"s3"}`:                {uri},
		"s3://":                        {uri},
		"s3://a b":                     {uri},
		`["s3://my-backups"]`:          {uri},
		`{"url":"s3://my-backups"}`:    {asObject, `unknown field "url"`},
		`{"URI":"s3://my-backups"}`:    {asObject, `unknown field "URI"`},
		`{"uri":"s3://a","uri":"s3"}`:  {asObject, `duplicate field "uri"`},
		`{"uri":7}`:                    {asObject, "number"},
		`{"uri":"s3://my-backups"`:     {asObject, "unexpected end"},
		`{"uri":"s3://a"} and so on`:   {asObject, "after top-level value"},
		`{"credentialsSecretRef":"a"}`: {asObject, "credentialsSecretRef"},
	} {
		f := &destinationFlag{}
		if err := f.Set("s3://earlier"); err != nil {
			t.Fatal(err)
		}
		err := f.Set(text)
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v, want %s", text, err, part)
			}
		}
		if f.String() != "s3://earlier" || f.value == nil || f.value.URI != "s3://earlier" {
			t.Errorf("%q replaced the value by %q, %+v", text, f, f.value)
		}
	}
}

// The last one on the command line counts, and an empty one means none.
func TestDestinationFlag_ofManager(t *testing.T) {
	o, _, _, err := completed(t, []string{"--backup-destination=s3://first", "--backup-destination=gs://second"}, nil)
	if err != nil || o.backups.value == nil || o.backups.value.URI != "gs://second" {
		t.Errorf("%+v, %v", o.backups.value, err)
	}
	o, _, _, err = completed(t, []string{"--backup-destination=s3://first", "--backup-destination="}, nil)
	if err != nil || o.backups.value != nil {
		t.Errorf("%+v, %v", o.backups.value, err)
	}
	o, _, _, err = completed(t, nil, []string{`FETTLE_BACKUP_DESTINATION={"uri":"s3://of-environment","storageClass":"STANDARD_IA"}`})
	if err != nil || o.backups.value == nil || o.backups.value.StorageClass != "STANDARD_IA" {
		t.Errorf("%+v, %v", o.backups.value, err)
	}
}
