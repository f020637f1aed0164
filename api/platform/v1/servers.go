package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// Cache is a single Valkey or Redis server. It keeps nothing on disk: a restart empties it.
type Cache struct {
	// type is Valkey or Redis. Defaults to Valkey. A change empties the cache.
	// +optional
	// +kubebuilder:default=Valkey
	// +kubebuilder:validation:Enum=Valkey;Redis
	Type CacheType `json:"type,omitempty"`

	// version is the tag of the official image. Defaults to "8" for Valkey and "7" for Redis. A change empties the cache.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9][a-zA-Z0-9._-]*$')",message="version: must be the tag of an image, such as \"8\" or \"8.1-alpine\""
	Version string `json:"version,omitempty"`

	// image replaces the official image, docker.io/valkey/valkey or docker.io/library/redis. It must be of the same type.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-zA-Z0-9][a-zA-Z0-9._:/@+-]*$')",message="image: must be an image reference such as registry.example.com/valkey:8, without spaces"
	Image string `json:"image,omitempty"`

	// memory is what the contents of the cache may take. Defaults to "256Mi", the minimum is "16Mi". The memory limit of the container is a quarter and 32Mi
	// above it. A change empties the cache.
	// +optional
	// +kubebuilder:default="256Mi"
	Memory resource.Quantity `json:"memory,omitzero"`

	// evictionPolicy says what happens when memory is full. Defaults to allkeys-lru: the keys that were used least recently go. With
	// noeviction, writes fail.
	// +optional
	// +kubebuilder:default=allkeys-lru
	// +kubebuilder:validation:Enum=noeviction;allkeys-lru;allkeys-lfu;allkeys-random;volatile-lru;volatile-lfu;volatile-random;volatile-ttl
	EvictionPolicy string `json:"evictionPolicy,omitempty"`
}

// CacheType is the type of a cache.
type CacheType string

// Types of caches.
const (
	Valkey CacheType = "Valkey"
	Redis  CacheType = "Redis"
)

// MySQL is a single MySQL or MariaDB server.
// +kubebuilder:validation:XValidation:rule="has(self.type) == has(oldSelf.type) && (!has(self.type) || self.type == oldSelf.type)",message="type: cannot be changed, because the data files of MySQL and MariaDB differ"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName: cannot be changed, because a volume cannot change its class"
type MySQL struct {
	// type is MySQL or MariaDB. Defaults to MySQL. It cannot be changed.
	// +optional
	// +kubebuilder:default=MySQL
	// +kubebuilder:validation:Enum=MySQL;MariaDB
	Type MySQLType `json:"type,omitempty"`

	// version is the tag of the official image. Defaults to "8.4" for MySQL and "11.8" for MariaDB. A change restarts the server.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9][a-zA-Z0-9._-]*$')",message="version: must be the tag of an image, such as \"8.4\""
	Version string `json:"version,omitempty"`

	// image replaces the official image, docker.io/library/mysql or docker.io/library/mariadb. It must be of the same type.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-zA-Z0-9][a-zA-Z0-9._:/@+-]*$')",message="image: must be an image reference such as registry.example.com/mysql:8.4, without spaces"
	Image string `json:"image,omitempty"`

	// databaseName is the database that is created, with a user of the same name that owns it. Defaults to "app". It cannot be changed.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9_]*[a-z0-9])?$') && !(self in ['root', 'mysql', 'sys', 'mariadb', 'information_schema', 'performance_schema'])",message="databaseName: must be lower-case letters, digits and '_', starting with a letter, and not a name that the server uses"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="databaseName: cannot be changed"
	DatabaseName string `json:"databaseName,omitempty"`

	// storage is the size of the volume. Defaults to that of the environment, otherwise to "10Gi". The
	// minimum is "128Mi". It can grow, not shrink.
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`

	// storageClassName is the StorageClass of the volume. Unset by default: the default class of the cluster. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// resources are the CPU and memory requests and limits of the server. A change restarts it.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// backup dumps the database on a schedule: Fettle creates a Backup of the name of the child object.
	// +optional
	Backup *MySQLBackup `json:"backup,omitempty"`

	// deletionPolicy overrides that of the AppStack.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// MySQLType is the type of a server that speaks the protocol of MySQL.
type MySQLType string

// Types of servers.
const (
	TypeMySQL   MySQLType = "MySQL"
	TypeMariaDB MySQLType = "MariaDB"
)

// MySQLBackup dumps a database on a schedule.
type MySQLBackup struct {
	// enabled makes dumps. Defaults to true if destination is set, otherwise to that of the environment.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// schedule of the dumps, see Backup. Defaults to "0 2 * * *", every night at 2:00 UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	Schedule string `json:"schedule,omitempty"`
	// retention is how long dumps are kept, such as "30d" or "10c", see Backup. Defaults to "30d".
	// +optional
	// +kubebuilder:validation:MaxLength=6
	Retention string `json:"retention,omitempty"`
	// destination is where dumps are stored. Defaults to that of the operator (--backup-destination).
	// +optional
	Destination *backupv1alpha1.Destination `json:"destination,omitempty"`
}
