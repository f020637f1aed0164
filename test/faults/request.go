package faults

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Record is one request of the controller.
type Record struct {
	Seq       int    // over the whole plan
	Verb      string // as in RBAC, and "apply" for a server-side apply
	Resource  schema.GroupVersionResource
	Sub       string
	Namespace string
	Name      string
	Write     bool
	K         int // this is the k-th write, from 1; 0 if it is not a write
	Step      int // of the scenario, from 0
	Code      int
	Fault     Kind   // the injected fault
	Before    string // the object's resourceVersion when the write began, as far as the observer had seen
	RV        string // and in its response
}

// String is short, for reports.
func (r Record) String() string {
	name := r.Resource.Resource + "/" + r.Name
	if r.Sub != "" {
		name += "/" + r.Sub
	}
	return r.Verb + " " + name
}

// sameCall reports whether the request is the given write of a step. Between runs, its number may differ: on a busy machine a status is
// sometimes written once more.
func (r Record) sameCall(step int, call string) bool {
	return r.Write && r.Step == step && r.String() == call
}

func (r Record) object() Key { return Key{r.Resource, r.Name} }

// creates reports whether the write may create the object.
func (r Record) creates() bool { return r.Sub == "" && (r.Verb == "create" || r.Verb == "apply") }

var requestInfo = apirequest.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

var (
	writeVerbs = sets.New("create", "update", "patch", "apply", "delete", "deletecollection")
	uncounted  = sets.New("events", "authorization.k8s.io", "authentication.k8s.io") // resources and groups
)

// counts reports whether a request counts as a write, by verb and resource.
func (r Record) counts() bool {
	renewal := r.Resource.Resource == "leases" && r.Verb == "update"
	return writeVerbs.Has(r.Verb) && !uncounted.Has(r.Resource.Resource) && !uncounted.Has(r.Resource.Group) && !renewal
}

// describe parses a request. Events and renewals of Leases are not writes: their times are unrelated.
func describe(request *http.Request) (Record, error) {
	info, err := requestInfo.NewRequestInfo(request)
	if err != nil {
		return Record{}, err
	}
	r := Record{
		Verb: info.Verb, Resource: schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource},
		Sub: info.Subresource, Namespace: info.Namespace, Name: info.Name,
	}
	if r.Verb == "patch" && request.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType) {
		r.Verb = "apply"
	}
	r.Write = info.IsResourceRequest && request.URL.Query().Get("dryRun") == "" && r.counts()
	if r.Verb == "create" && r.Write && request.Body != nil {
		r.Name, err = nameInBody(request)
	}
	return r, err
}

func nameInBody(request *http.Request) (string, error) {
	data, err := io.ReadAll(request.Body)
	if err != nil {
		return "", err
	}
	request.Body = io.NopCloser(bytes.NewReader(data))
	name, _ := identity(data)
	return name, nil
}

// identity reads the metadata of an object in JSON; empty strings if it is missing.
func identity(data []byte) (name, resourceVersion string) {
	var object struct {
		Metadata struct{ Name, ResourceVersion string }
	}
	if json.Unmarshal(data, &object) != nil {
		return "", ""
	}
	return object.Metadata.Name, object.Metadata.ResourceVersion
}
