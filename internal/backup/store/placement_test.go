package store

import (
	"errors"
	"reflect"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// TestBeforeWrite has a request of each library, which only the fields that are set change.
func TestBeforeWrite(t *testing.T) {
	kms := &backupv1alpha1.ServerSideEncryption{Type: backupv1alpha1.EncryptionKMS, KMSKeyID: "key"}
	google := func(class, key string) *storage.Writer {
		return &storage.Writer{ObjectAttrs: storage.ObjectAttrs{StorageClass: class, KMSKeyName: key}}
	}
	for name, c := range map[string]struct {
		class      string
		encryption *backupv1alpha1.ServerSideEncryption
		want       any
	}{
		"s3, as the bucket says": {"", nil, &transfermanager.UploadObjectInput{}},
		"s3, class":              {"STANDARD_IA", nil, &transfermanager.UploadObjectInput{StorageClass: "STANDARD_IA"}},
		"s3, keys of the store":  {"", &backupv1alpha1.ServerSideEncryption{Type: backupv1alpha1.EncryptionAES256}, &transfermanager.UploadObjectInput{ServerSideEncryption: "AES256"}},
		"s3, key of the account": {"", &backupv1alpha1.ServerSideEncryption{Type: backupv1alpha1.EncryptionKMS}, &transfermanager.UploadObjectInput{ServerSideEncryption: "aws:kms"}},
		"s3, key":                {"", kms, &transfermanager.UploadObjectInput{ServerSideEncryption: "aws:kms", SSEKMSKeyID: new("key")}},
		"gcs, class":             {"NEARLINE", nil, google("NEARLINE", "")},
		"gcs, key":               {"", kms, google("", "key")},
		"azure, class":           {"Cool", nil, &azblob.UploadStreamOptions{AccessTier: new(blob.AccessTierCool)}},
		"azure, encryption scope": {
			"", &backupv1alpha1.ServerSideEncryption{EncryptionScope: "scope"},
			&azblob.UploadStreamOptions{CPKScopeInfo: &blob.CPKScopeInfo{EncryptionScope: new("scope")}},
		},
	} {
		got := reflect.New(reflect.TypeOf(c.want).Elem())
		err := location{storageClass: c.class, encryption: c.encryption}.beforeWrite(func(target any) bool {
			p := reflect.ValueOf(target).Elem()
			if p.Type() != got.Type() {
				return false
			}
			p.Set(got)
			return true
		})
		if err != nil || !reflect.DeepEqual(got.Interface(), c.want) {
			t.Errorf("%s: %+v, want %+v: %v", name, got, c.want, err)
		}
	}
	unknown := func(any) bool { return false }
	if err := (location{storageClass: "COLD"}).beforeWrite(unknown); !errors.Is(err, errPlacement) {
		t.Errorf("unknown library: %v", err)
	}
	if err := (location{}).beforeWrite(unknown); err != nil {
		t.Errorf("unknown library, as the bucket says: %v", err)
	}
}
