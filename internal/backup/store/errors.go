package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"

	"gocloud.dev/gcerrors"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// ErrNotFound reports that an object does not exist.
var ErrNotFound = errors.New("object not found")

// Error is a failure of a store.
type Error struct {
	// Reason is a reason of a condition, such as StoreUnreachable.
	Reason string
	// Message says what is wrong and what to do. It has no secrets.
	Message string
	// Permanent says that a retry within minutes cannot succeed.
	Permanent bool
	// Err is the cause. Its text may have secrets: show Message.
	Err error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// operation is what was asked of a store.
type operation int

const (
	opRead operation = iota
	opWrite
	opList
	opDelete
)

// permissions are what an operation needs, by type.
var permissions = map[backupv1alpha1.StoreType][4]string{
	backupv1alpha1.StoreS3:  {"s3:GetObject and s3:ListBucket", "s3:PutObject and s3:AbortMultipartUpload", "s3:ListBucket", "s3:DeleteObject"},
	backupv1alpha1.StoreGCS: {"storage.objects.get", "storage.objects.create and storage.objects.delete", "storage.objects.list", "storage.objects.delete"},
	backupv1alpha1.StoreAzure: {
		"Storage Blob Data Contributor", "Storage Blob Data Contributor", "Storage Blob Data Contributor", "Storage Blob Data Contributor",
	},
}

// permission is what an operation needs, the key of the encryption included.
func (l location) permission(op operation) string {
	needed := permissions[l.kind][op]
	if l.kind == backupv1alpha1.StoreS3 && l.encryption != nil && l.encryption.Type == backupv1alpha1.EncryptionKMS {
		needed += ", and on the KMS key kms:GenerateDataKey and kms:Decrypt"
	}
	return needed
}

// answer is the answer of a store to a request that it did not grant.
type answer struct {
	status int
	// code is the store's own code, such as NoSuchBucket, if it sent one.
	code, message string
}

// Codes of the stores that their HTTP status does not tell apart.
var (
	bucketMissingCodes = map[string]bool{"NoSuchBucket": true, "ContainerNotFound": true, "InvalidBucketName": true, "ContainerBeingDeleted": true}
	regionCodes        = map[string]bool{
		"AuthorizationHeaderMalformed": true, "IllegalLocationConstraintException": true, "BucketRegionError": true,
	}
	forbiddenCodes = map[string]bool{
		"ExpiredToken": true, "InvalidToken": true, "InvalidAccessKeyId": true, "SignatureDoesNotMatch": true, "AccessDenied": true,
		"RequestExpired": true, "AuthenticationFailed": true, "InvalidAuthenticationInfo": true,
		"ExpiredTokenException": true, "InvalidIdentityToken": true,
		"invalid_grant": true, "invalid_client": true, "unauthorized_client": true,
	}
)

// fieldCodes are codes of S3 for the value of a field.
var fieldCodes = map[string]string{
	"InvalidStorageClass": "storageClass", "KMS.NotFoundException": "serverSideEncryption.kmsKeyID", "KMS.DisabledException": "serverSideEncryption.kmsKeyID",
}

// requestTimeTooSkewed is the code of S3 for a clock that is more than 15 minutes wrong.
const requestTimeTooSkewed = "RequestTimeTooSkewed"

// bucketMissing: writes and lists need no object, so what is not found is the bucket.
func (a answer) bucketMissing(op operation) bool {
	return bucketMissingCodes[a.code] || a.status == http.StatusNotFound && (op == opWrite || op == opList)
}

func (a answer) otherRegion(kind backupv1alpha1.StoreType) bool {
	return regionCodes[a.code] || kind == backupv1alpha1.StoreS3 && a.status == http.StatusMovedPermanently
}

func (a answer) forbidden() bool {
	return forbiddenCodes[a.code] || a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
}

// permanent is false for what a store asks to repeat.
func (a answer) permanent() bool {
	return a.status < http.StatusInternalServerError && a.status != http.StatusTooManyRequests && a.status != http.StatusRequestTimeout
}

// fail returns err as *Error, or as ErrNotFound, or as the error of the context.
func (s *Store) fail(ctx context.Context, op operation, name string, err error) error {
	if err == nil {
		return nil
	}
	if known := (*Error)(nil); errors.As(err, &known) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", s.where.uri(name), context.Cause(ctx))
	}
	if a, ok := answerOf(err); ok {
		return s.failAnswer(op, name, a, err)
	}
	if gcerrors.Code(err) == gcerrors.NotFound && op != opWrite && op != opList {
		return fmt.Errorf("%s: %w", s.where.uri(name), ErrNotFound)
	}
	return s.failConnection(name, err)
}

// failAnswer classifies the answer of a store.
func (s *Store) failAnswer(op operation, name string, a answer, err error) error {
	said := s.redact.text(fmt.Sprintf("HTTP %d %s: %s", a.status, a.code, a.message))
	e := &Error{Permanent: true, Err: err}
	bucket := schemes[s.where.kind] + "://" + s.where.bucket
	switch {
	case a.bucketMissing(op):
		e.Reason = backupv1alpha1.ReasonBucketMissing
		e.Message = fmt.Sprintf("bucket %s does not exist%s: create it, or correct its name", bucket, s.at())
	case a.otherRegion(s.where.kind):
		e.Reason = backupv1alpha1.ReasonBucketMissing
		e.Message = fmt.Sprintf("bucket %s is not in region %s%s: correct region (%s)", bucket, s.where.region, s.at(), said)
	case fieldCodes[a.code] != "":
		e.Reason = backupv1alpha1.ReasonStoreInvalid
		e.Message = fmt.Sprintf("store %s%s rejects %s: correct it (%s)", bucket, s.at(), fieldCodes[a.code], said)
	case a.status == http.StatusNotFound:
		return fmt.Errorf("%s: %w", s.where.uri(name), ErrNotFound)
	case a.code == requestTimeTooSkewed:
		e.Reason, e.Permanent = backupv1alpha1.ReasonStoreForbidden, false // on another node it may succeed
		e.Message = fmt.Sprintf("store %s%s rejects the time of a request: correct the clock of the node or that of the store (%s)", bucket, s.at(), said)
	case a.forbidden():
		e.Reason = backupv1alpha1.ReasonStoreForbidden
		what, where := "the keys, or they lack", "Secret"
		if s.where.identity {
			what, where = "the identity of the ServiceAccount, or it lacks", "ServiceAccount and its role in the cloud"
		}
		e.Message = fmt.Sprintf("store %s%s rejects %s a permission: correct the %s, or grant %s (%s)",
			bucket, s.at(), what, where, s.where.permission(op), said)
	case a.status < http.StatusMultipleChoices:
		return s.strange(err.Error())
	case a.status >= http.StatusMultipleChoices && a.status < http.StatusBadRequest:
		e.Reason = backupv1alpha1.ReasonStoreInvalid
		e.Message = fmt.Sprintf("endpoint%s answers with a redirect, which is not followed: set endpoint to the store itself", s.at())
	default:
		e.Permanent = a.permanent()
		e.Reason = backupv1alpha1.ReasonStoreFailed
		e.Message = fmt.Sprintf("%s: the store fails: %s", s.where.uri(name), said)
	}
	return e
}

// failConnection classifies an error without an answer of the store.
func (s *Store) failConnection(name string, err error) error {
	said := s.redact.text(err.Error())
	var (
		address   *addressError
		untrusted *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
		network   net.Error
		dns       *net.DNSError
	)
	switch {
	case errors.As(err, &address):
		return &Error{Reason: backupv1alpha1.ReasonStoreInvalid, Permanent: true, Err: err,
			Message: fmt.Sprintf("endpoint%s is not permitted: %s: set endpoint to a store", s.at(), address)}
	case errors.As(err, &untrusted), errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &plain):
		return &Error{Reason: backupv1alpha1.ReasonStoreUntrusted, Permanent: true, Err: err,
			Message: fmt.Sprintf("the certificate of the store%s cannot be trusted: set caSecretRef, or correct endpoint (%s)", s.at(), said)}
	case errors.As(err, &network), errors.As(err, &dns), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{Reason: backupv1alpha1.ReasonStoreUnreachable, Err: err,
			Message: fmt.Sprintf("the store%s does not answer: check endpoint, DNS, firewalls and NetworkPolicies (%s)", s.at(), said)}
	}
	return &Error{Reason: backupv1alpha1.ReasonStoreFailed, Err: err, Message: fmt.Sprintf("%s: %s", s.where.uri(name), said)}
}

// at names the endpoint in a message.
func (s *Store) at() string {
	if s.where.endpoint == "" {
		return ""
	}
	return " at " + s.where.endpoint
}

// invalid returns the error of a destination that cannot be used.
func invalid(err error) error {
	return &Error{Reason: backupv1alpha1.ReasonStoreInvalid, Message: err.Error(), Permanent: true, Err: err}
}
