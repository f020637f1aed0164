package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/compute/metadata"
	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/googleapis/gax-go/v2"
	gocloud "gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// retries of a request, which a Job repeats in turn. The libraries' own defaults go from none to forever.
type retries struct {
	attempts    int
	first, long time.Duration // pauses
	// total is for Google's library, which counts no attempts of an upload.
	total time.Duration
}

var patient = retries{attempts: 6, first: 200 * time.Millisecond, long: 5 * time.Second, total: 20 * time.Second}

// openBucket opens the bucket of a location. It sends nothing.
func openBucket(ctx context.Context, l location, keys Keys, client *http.Client, again retries) (*gocloud.Bucket, error) {
	if len(keys.Files) == 0 && !l.identity {
		return nil, errors.New("destination: set credentialsSecretRef, or serviceAccountName for workload identity")
	}
	switch l.kind {
	case backupv1alpha1.StoreS3:
		return openS3(ctx, l, keys, client, again)
	case backupv1alpha1.StoreGCS:
		return openGCS(ctx, l, keys, client, again)
	default:
		return openAzure(ctx, l, keys, client, again)
	}
}

func openS3(ctx context.Context, l location, keys Keys, client *http.Client, again retries) (*gocloud.Bucket, error) {
	c := aws.Config{}
	if len(keys.Files) > 0 {
		id, secret := keys.value("access-key-id", "AWS_ACCESS_KEY_ID"), keys.value("secret-access-key", "AWS_SECRET_ACCESS_KEY")
		if id == "" || secret == "" {
			return nil, errors.New("credentialsSecretRef: the Secret must have the keys access-key-id and secret-access-key")
		}
		c.Credentials = credentials.NewStaticCredentialsProvider(id, secret, keys.value("session-token", "AWS_SESSION_TOKEN"))
	} else {
		// The role of the node is not the namespace's to use.
		loaded, err := config.LoadDefaultConfig(ctx, config.WithEC2IMDSClientEnableState(imds.ClientDisabled), config.WithRegion(l.region))
		if err != nil {
			return nil, fmt.Errorf("workload identity: %w", err)
		}
		c.Credentials = loaded.Credentials
	}
	// Servers of others lack the newer checksums of Amazon.
	c.RequestChecksumCalculation, c.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenSupported, aws.ResponseChecksumValidationWhenSupported
	if l.endpoint != "" {
		c.BaseEndpoint = aws.String(l.endpoint)
		c.RequestChecksumCalculation, c.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenRequired, aws.ResponseChecksumValidationWhenRequired
	}
	c.Region, c.HTTPClient = l.region, client
	c.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = again.attempts, again.long
		})
	}
	return s3blob.OpenBucket(ctx, s3.NewFromConfig(c, func(o *s3.Options) { o.UsePathStyle = l.pathStyle }), l.bucket,
		&s3blob.Options{RequestChecksumCalculation: c.RequestChecksumCalculation})
}

func openGCS(ctx context.Context, l location, keys Keys, client *http.Client, again retries) (*gocloud.Bucket, error) {
	tokens := &lastError{next: client.Transport}
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Transport: tokens, CheckRedirect: client.CheckRedirect})
	var found *google.Credentials
	var err error
	if len(keys.Files) > 0 {
		// Only this type: the others name programs to run and files to read.
		found, err = google.CredentialsFromJSONWithType(ctx, []byte(keys.value("service-account.json")), google.ServiceAccount, storage.ScopeReadWrite)
		if err != nil { // its text could quote the key
			return nil, errors.New("credentialsSecretRef: the Secret must have the key service-account.json with the key of a service account")
		}
	} else {
		if err := providersOwn(l.endpoint, ".googleapis.com"); err != nil {
			return nil, err
		}
		if found, err = google.FindDefaultCredentials(ctx, storage.ScopeReadWrite); err != nil {
			return nil, fmt.Errorf("workload identity: %w", err)
		}
	}
	endpoint := l.endpoint
	if endpoint == "" {
		endpoint = "https://storage.googleapis.com"
	}
	host, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	requests := &oneHost{host: host.Host, retries: again, next: &oauth2.Transport{Source: &tokenSource{found.TokenSource, tokens}, Base: client.Transport}}
	authorized := &http.Client{Transport: requests, CheckRedirect: client.CheckRedirect}
	api, err := storage.NewClient(ctx, option.WithHTTPClient(authorized), option.WithEndpoint(endpoint+"/storage/v1/"), storage.WithJSONReads())
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	// Every request here may be repeated: an object has one writer.
	api.SetRetry(storage.WithPolicy(storage.RetryAlways), storage.WithErrorFunc(requests.retry),
		storage.WithBackoff(gax.Backoff{Initial: again.first, Max: again.long, Multiplier: 2}))
	return gcsblob.OpenBucket(ctx, nil, l.bucket, &gcsblob.Options{Client: api})
}

func openAzure(ctx context.Context, l location, keys Keys, client *http.Client, again retries) (*gocloud.Bucket, error) {
	account := l.account
	if account == "" {
		account = keys.value("account-name", "AZURE_STORAGE_ACCOUNT")
	}
	if !accountPattern.MatchString(account) {
		return nil, errors.New("destination: set accountName, or the key account-name in the Secret, to the name of the storage account")
	}
	endpoint := l.endpoint
	if endpoint == "" {
		endpoint = "https://" + account + ".blob.core.windows.net"
	}
	address := endpoint + "/" + l.bucket
	options := azcore.ClientOptions{Transport: client, Retry: policy.RetryOptions{
		MaxRetries: int32(again.attempts) - 1, RetryDelay: again.first, MaxRetryDelay: again.long,
	}}
	var api *container.Client
	var err error
	key, sas := keys.value("account-key", "AZURE_STORAGE_KEY"), keys.value("sas-token", "AZURE_STORAGE_SAS_TOKEN")
	switch {
	case key != "":
		signer, signerErr := blob.NewSharedKeyCredential(account, key)
		if signerErr != nil { // its text could quote the key
			return nil, errors.New("credentialsSecretRef: account-key is not a key in base64")
		}
		api, err = container.NewClientWithSharedKeyCredential(address, signer, &container.ClientOptions{ClientOptions: options})
	case sas != "":
		api, err = container.NewClientWithNoCredential(address+"?"+strings.TrimPrefix(sas, "?"), &container.ClientOptions{ClientOptions: options})
	case len(keys.Files) > 0:
		return nil, errors.New("credentialsSecretRef: the Secret must have the key account-key or sas-token")
	default:
		if err := providersOwn(l.endpoint, ".core.windows.net", ".core.usgovcloudapi.net", ".core.chinacloudapi.cn"); err != nil {
			return nil, err
		}
		identity, identityErr := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options})
		if identityErr != nil {
			return nil, fmt.Errorf("workload identity: %w", identityErr)
		}
		api, err = container.NewClient(address, identity, &container.ClientOptions{ClientOptions: options})
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return azureblob.OpenBucket(ctx, api, nil)
}

// providersOwn permits an endpoint for workload identity: its token would let any other server act as the ServiceAccount.
func providersOwn(endpoint string, domains ...string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err == nil && u.Scheme == "https" {
		for _, domain := range domains {
			if strings.HasSuffix(u.Hostname(), domain) {
				return nil
			}
		}
	}
	return fmt.Errorf("endpoint: with workload identity, it must be below https://*%s: correct it, or set credentialsSecretRef", domains[0])
}

// oneHost refuses requests to other hosts than the store, such as an upload URL that a server invents: they would carry the token. It
// also knows for how long requests have failed.
type oneHost struct {
	host    string
	next    http.RoundTripper
	retries retries

	mutex       sync.Mutex
	first, last time.Time // failures without a success in between
}

func (t *oneHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != t.host {
		return nil, fmt.Errorf("the store refers to another host: %s", r.URL.Host)
	}
	response, err := t.next.RoundTrip(r)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	switch now := time.Now(); {
	case err == nil && response.StatusCode < http.StatusInternalServerError:
		t.first = time.Time{}
	case t.first.IsZero() || now.Sub(t.last) > 2*t.retries.long: // a new operation
		t.first, t.last = now, now
	default:
		t.last = now
	}
	return response, err
}

// retry says whether a request that failed is repeated.
func (t *oneHost) retry(err error) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return storage.ShouldRetry(err) && (t.first.IsZero() || time.Since(t.first) < t.retries.total)
}

// lastError remembers the error of the last request: the library for tokens passes on only its text.
type lastError struct {
	next http.RoundTripper
	last atomic.Pointer[error]
}

func (t *lastError) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		t.last.Store(&err)
	}
	return response, err
}

// tokenSource returns errors with their cause.
type tokenSource struct {
	oauth2.TokenSource
	requests *lastError
}

func (s *tokenSource) Token() (*oauth2.Token, error) {
	s.requests.last.Store(nil)
	token, err := s.TokenSource.Token()
	if cause := s.requests.last.Load(); err != nil && cause != nil {
		err = fmt.Errorf("get token: %w", *cause)
	}
	return token, err
}

// abortUploads aborts the unfinished uploads in S3 whose keys start with prefix, as far as one answer lists them. The library aborts its
// own, and misses a part that was under way.
func abortUploads(ctx context.Context, bucket *gocloud.Bucket, name, prefix string, chosen func(key string, begun time.Time) bool) {
	var client *s3.Client
	if !bucket.As(&client) {
		return
	}
	found, err := client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &name, Prefix: &prefix})
	if err != nil {
		return // without this permission, a lifecycle rule of the bucket is what removes them
	}
	for _, upload := range found.Uploads {
		if chosen(aws.ToString(upload.Key), aws.ToTime(upload.Initiated)) {
			_, _ = client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &name, Key: upload.Key, UploadId: upload.UploadId})
		}
	}
}

// answerOf returns the answer of a store in an error of its library.
func answerOf(err error) (answer, bool) {
	a := answer{}
	var (
		google *googleapi.Error
		azure  *azcore.ResponseError
		amazon *awshttp.ResponseError
		code   smithy.APIError
	)
	if a, ok := tokenAnswer(err); ok {
		return a, true
	}
	switch {
	case errors.As(err, &google):
		a = answer{status: google.Code, message: google.Message}
	case errors.As(err, &azure):
		a = answer{status: azure.StatusCode, code: azure.ErrorCode}
	case errors.As(err, &amazon):
		a.status = amazon.HTTPStatusCode()
	}
	if errors.As(err, &code) {
		a.code, a.message = code.ErrorCode(), code.ErrorMessage()
	}
	if errors.Is(err, storage.ErrBucketNotExist) {
		a = answer{status: http.StatusNotFound, code: "NoSuchBucket"}
	}
	return a, a.status > 0
}

// tokenAnswer returns the answer of a token service of Google or Azure. Whatever it refuses, the bucket is not what is missing.
func tokenAnswer(err error) (answer, bool) {
	a, body := answer{}, []byte(nil)
	var (
		google   *oauth2.RetrieveError
		azure    *azidentity.AuthenticationFailedError
		instance *metadata.Error
		missing  metadata.NotDefinedError
	)
	switch {
	case errors.As(err, &google):
		a.status, body = google.Response.StatusCode, google.Body
	case errors.As(err, &azure) && azure.RawResponse != nil:
		a.status = azure.RawResponse.StatusCode
		body, _ = runtime.Payload(azure.RawResponse) // without a body, its status says enough
	case errors.As(err, &instance):
		a.status, a.message = instance.Code, instance.Message
	case errors.As(err, &missing):
		a.status, a.message = http.StatusNotFound, missing.Error()
	default:
		return a, false
	}
	said := struct {
		Code    string `json:"error"`
		Message string `json:"error_description"`
	}{}
	if json.Unmarshal(body, &said) == nil {
		a.code, a.message = said.Code, said.Message
	}
	if a.permanent() {
		a.status = http.StatusUnauthorized
	}
	return a, true
}
