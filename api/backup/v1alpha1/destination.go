package v1alpha1

import fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"

// Destination is a bucket of an object store.
// +kubebuilder:validation:XValidation:rule="has(self.uri) != (has(self.type) || has(self.bucket))",message="destination: must have either uri, such as s3://my-backups/postgres/, or type and bucket"
// +kubebuilder:validation:XValidation:rule="has(self.uri) || has(self.type) && has(self.bucket)",message="destination: type and bucket must both be set"
// +kubebuilder:validation:XValidation:rule="!has(self.uri) || !has(self.prefix)",message="destination: prefix must not be set beside uri, which contains it"
// +kubebuilder:validation:XValidation:rule="!has(self.storageClass) || !(has(self.type) && self.type == 'azure' || has(self.uri) && self.uri.startsWith('azblob:')) || self.storageClass in ['Hot', 'Cool', 'Cold']",message="storageClass: must be Hot, Cool or Cold for azure"
// +kubebuilder:validation:XValidation:rule="!has(self.serverSideEncryption) || !(has(self.type) && self.type == 's3' || has(self.uri) && self.uri.startsWith('s3:')) || has(self.serverSideEncryption.type)",message="serverSideEncryption: must have type for s3, and no encryptionScope"
// +kubebuilder:validation:XValidation:rule="!has(self.serverSideEncryption) || !(has(self.type) && self.type == 'gcs' || has(self.uri) && self.uri.startsWith('gs:')) || has(self.serverSideEncryption.kmsKeyID)",message="serverSideEncryption: must be type KMS with kmsKeyID for gcs, which encrypts everything by its own keys anyway"
// +kubebuilder:validation:XValidation:rule="!has(self.serverSideEncryption) || !(has(self.type) && self.type == 'azure' || has(self.uri) && self.uri.startsWith('azblob:')) || has(self.serverSideEncryption.encryptionScope)",message="serverSideEncryption: must be an encryptionScope for azure, which encrypts everything by its own keys anyway"
type Destination struct {
	// uri is a short form of type, bucket and prefix: s3://, gs:// or azblob://, the bucket, and a prefix, such as
	// "s3://my-backups/postgres/".
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^(s3|gs|azblob)://[A-Za-z0-9][A-Za-z0-9._-]{1,220}(/[A-Za-z0-9!_.*()=-]+)*/?$') && !self.contains('/../') && !self.contains('/./') && !self.endsWith('/..') && !self.endsWith('/.')",message="uri: must be s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or azblob://CONTAINER/PREFIX"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="URI"
	URI string `json:"uri,omitempty"`
	// type of the object store: s3 (Amazon S3 and compatible ones), gcs (Google Cloud Storage) or azure (Azure Blob Storage).
	// +optional
	// +kubebuilder:validation:Enum=s3;gcs;azure
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Store Type",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:s3","urn:alm:descriptor:com.tectonic.ui:select:gcs","urn:alm:descriptor:com.tectonic.ui:select:azure"}
	Type StoreType `json:"type,omitempty"`
	// bucket is the name of the bucket, or of the container in Azure. It must exist.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=222
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*$')",message="bucket: must be the name of a bucket, such as my-backups"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Bucket"
	Bucket string `json:"bucket,omitempty"`
	// prefix of all objects in the bucket, such as "postgres". Empty by default.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!_.*()=-]+(/[A-Za-z0-9!_.*()=-]+)*/?$') && !('/' + self + '/').contains('/../') && !('/' + self + '/').contains('/./')",message="prefix: must be a path such as team-a/postgres, without .. and not starting with /"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Prefix"
	Prefix string `json:"prefix,omitempty"`
	// region of an s3 bucket. Defaults to us-east-1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9-]+$')",message="region: must be the name of a region, such as eu-central-1"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Region"
	Region string `json:"region,omitempty"`
	// endpoint is the URL of a server other than the provider's own, such as "https://minio.example.com:9000". Use https: with http, backups
	// cross the network in the clear.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['https', 'http'] && url(self).getHostname() != '' && url(self).getQuery().size() == 0 && !self.contains('@') && !self.contains('#')",message="endpoint: must be a URL such as https://minio.example.com:9000, without user, query or fragment"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Endpoint",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Endpoint string `json:"endpoint,omitempty"`
	// forcePathStyle puts the bucket of an s3 store into the path of URLs instead of their host name, as most compatible servers need it.
	// Defaults to true if endpoint is set.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Force Path Style",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	ForcePathStyle *bool `json:"forcePathStyle,omitempty"`
	// credentialsSecretRef names the Secret with the keys of the store, in the same namespace. For s3: access-key-id, secret-access-key and
	// optionally session-token; the names of the environment variables of AWS (AWS_ACCESS_KEY_ID, …) work too. For gcs:
	// service-account.json. For azure: account-name, and account-key or sas-token. Unset by default: workload identity of
	// serviceAccountName.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Credentials Secret"
	CredentialsSecretRef *fettlev1.LocalReference `json:"credentialsSecretRef,omitempty"`
	// serviceAccountName is a ServiceAccount of the namespace with access to the bucket by workload identity (IRSA, GKE, Azure), which
	// needs no keys. Unset by default: Fettle creates a ServiceAccount without rights in the cloud.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="serviceAccountName: must be the name of a ServiceAccount"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Service Account",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:io.kubernetes:ServiceAccount"}
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// accountName is the storage account of an azure container, for workload identity. Defaults to account-name in the Secret.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+$')",message="accountName: must be the name of a storage account: lower-case letters and digits"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Azure Account",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	AccountName string `json:"accountName,omitempty"`
	// caSecretRef names CA certificates that the store's certificate is checked against, instead of the public ones; key defaults to
	// "ca.crt".
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="CA Secret",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	CASecretRef *fettlev1.SecretKeyReference `json:"caSecretRef,omitempty"`
	// storageClass of all objects that are stored from now on, the WAL archive included: for s3 such as STANDARD_IA or GLACIER_IR, for gcs
	// such as NEARLINE, for azure the access tier Hot, Cool or Cold. Classes with a minimum storage duration or size cost more for WAL,
	// which is many small files. Objects that exist keep theirs. Defaults to that of the bucket.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_-]*$')",message="storageClass: must be the name of a storage class, such as STANDARD_IA"
	// +kubebuilder:validation:XValidation:rule="!(self in ['GLACIER', 'DEEP_ARCHIVE', 'Archive'])",message="storageClass: must not be GLACIER, DEEP_ARCHIVE or Archive: their objects cannot be read before they are retrieved by hand, so backups could not be verified, restored, or deleted by retention"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Storage Class",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	StorageClass string `json:"storageClass,omitempty"`
	// serverSideEncryption is how the store encrypts all objects that are stored from now on. Unset by default: as the bucket says.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Server-Side Encryption",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	ServerSideEncryption *ServerSideEncryption `json:"serverSideEncryption,omitempty"`
}

// ServerSideEncryption is how a store encrypts objects. Whoever may read them there gets them decrypted.
// +kubebuilder:validation:XValidation:rule="has(self.type) != has(self.encryptionScope)",message="serverSideEncryption: must have either type, for s3 and gcs, or encryptionScope, for azure"
// +kubebuilder:validation:XValidation:rule="!has(self.kmsKeyID) || has(self.type) && self.type == 'KMS'",message="kmsKeyID: needs type KMS"
type ServerSideEncryption struct {
	// type: AES256 (keys that the store manages; s3 only) or KMS (a key of AWS KMS for s3, of Cloud KMS for gcs).
	// +optional
	// +kubebuilder:validation:Enum=AES256;KMS
	Type EncryptionType `json:"type,omitempty"`
	// kmsKeyID is the key of type KMS. For s3: its ID, ARN or alias; defaults to the key aws/s3 of the account. For gcs: its name, such as
	// projects/shop/locations/europe-west3/keyRings/backups/cryptoKeys/backups.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9:/_.+=@-]*$')",message="kmsKeyID: must be the ID, ARN or name of a key, without spaces"
	KMSKeyID string `json:"kmsKeyID,omitempty"`
	// encryptionScope is the name of an encryption scope of the storage account of azure.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9-]+$')",message="encryptionScope: must be the name of an encryption scope: letters, digits and '-'"
	EncryptionScope string `json:"encryptionScope,omitempty"`
}

// EncryptionType is whose keys a store encrypts with.
type EncryptionType string

// Values of EncryptionType.
const (
	EncryptionAES256 EncryptionType = "AES256"
	EncryptionKMS    EncryptionType = "KMS"
)

// StoreType is the type of an object store.
type StoreType string

// Values of StoreType.
const (
	StoreS3    StoreType = "s3"
	StoreGCS   StoreType = "gcs"
	StoreAzure StoreType = "azure"
)
