package store

import (
	"errors"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// errPlacement reports a bucket whose library has no storage class and encryption.
var errPlacement = errors.New("storageClass and serverSideEncryption: the store has neither")

// beforeWrite sets the storage class and the encryption of an object in the request of the store's library.
func (l location) beforeWrite(as func(any) bool) error {
	if l.storageClass == "" && l.encryption == nil {
		return nil // as the bucket says
	}
	encryption := backupv1alpha1.ServerSideEncryption{}
	if l.encryption != nil {
		encryption = *l.encryption
	}
	var (
		amazon *transfermanager.UploadObjectInput
		google *storage.Writer
		azure  *azblob.UploadStreamOptions
	)
	switch {
	case as(&amazon):
		amazon.StorageClass = types.StorageClass(l.storageClass)
		switch encryption.Type {
		case backupv1alpha1.EncryptionAES256:
			amazon.ServerSideEncryption = types.ServerSideEncryptionAes256
		case backupv1alpha1.EncryptionKMS:
			amazon.ServerSideEncryption = types.ServerSideEncryptionAwsKms
			amazon.SSEKMSKeyID = pointer(encryption.KMSKeyID)
		}
	case as(&google):
		google.StorageClass, google.KMSKeyName = l.storageClass, encryption.KMSKeyID
	case as(&azure):
		azure.AccessTier = pointer(blob.AccessTier(l.storageClass))
		if encryption.EncryptionScope != "" {
			azure.CPKScopeInfo = &blob.CPKScopeInfo{EncryptionScope: &encryption.EncryptionScope}
		}
	default:
		return errPlacement
	}
	return nil
}

// pointer returns a pointer to a value; nil for an empty one.
func pointer[T ~string](value T) *T {
	if value == "" {
		return nil
	}
	return &value
}
