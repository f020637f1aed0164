// Package audit measures a controller by the API server's audit log, not by the controller's own reports. A Recorder marks a position in
// the log (JSON lines, level Metadata) and later counts the requests since, by user, kind of request and object. It reads the log of a
// test's API server and of the local cluster.
package audit

import (
	"encoding/json"
	"net/url"
	"strings"
)

// Class is the cost of a request, and whether an idle controller may send it.
type Class string

// Classes of requests. Leases and events are separate because they have their own budgets.
const (
	Write     Class = "write"      // creates, updates, patches, deletes, including rejected ones
	LiveRead  Class = "live read"  // get and list that a cache could have answered, and dry runs
	WatchList Class = "watch-list" // an informer's first list, in either of its forms
	Watch     Class = "watch"      // an informer's watch
	Lease     Class = "lease"      // any request for a Lease
	Event     Class = "event"      // writing an Event
	Review    Class = "review"     // reviews of tokens and access, which create nothing
	Discovery Class = "discovery"  // non-resource requests: discovery, OpenAPI, health
)

// Request is one answered request, or a watch that started.
type Request struct {
	AuditID     string
	User        string
	UserAgent   string
	Class       Class
	Verb        string
	Resource    string // qualified by its group: deployments.apps, configmaps
	Subresource string
	Namespace   string
	Name        string
	Code        int
	// Forbidden means that the user lacks permission. An admission policy may reject with the same code.
	Forbidden bool
}

// Rejected reports whether the API server rejected the request.
func (r Request) Rejected() bool { return r.Code >= 400 }

// line is the used part of audit.k8s.io/v1 Event.
type line struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	User       user   `json:"user"`
	As         *user  `json:"impersonatedUser"`
	Object     *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

type user struct {
	Username string `json:"username"`
}

// counts is true for one line per request: for a watch when it starts, because it may end much later, and for others when they are
// answered.
func (l line) counts() bool {
	switch {
	case l.Verb != "watch" || l.Object == nil:
		return l.Stage == "ResponseComplete" || l.Stage == "Panic"
	case l.Stage == "ResponseComplete": // of a watch that never started
		return l.Response != nil && l.Response.Code >= 400
	}
	return l.Stage == "ResponseStarted"
}

// parse returns false for lines that repeat a request of another line.
func parse(data []byte) (Request, bool, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return Request{}, false, err
	}
	if !l.counts() {
		return Request{}, false, nil
	}
	r := Request{AuditID: l.AuditID, User: l.User.Username, UserAgent: l.UserAgent, Verb: l.Verb}
	r.Forbidden = l.Annotations["authorization.k8s.io/decision"] == "forbid"
	if l.As != nil {
		r.User = l.As.Username
	}
	if l.Object != nil {
		r.Resource, r.Subresource = l.Object.Resource, l.Object.Subresource
		if l.Object.APIGroup != "" {
			r.Resource += "." + l.Object.APIGroup
		}
		r.Namespace, r.Name = l.Object.Namespace, l.Object.Name
	}
	if l.Response != nil {
		r.Code = l.Response.Code
	}
	query := url.Values{}
	if u, err := url.ParseRequestURI(l.RequestURI); err == nil {
		query = u.Query()
	}
	if writeVerbs[r.Verb] && query.Get("dryRun") != "" {
		r.Verb += " (dry run)"
	}
	r.Class = classify(r, query)
	return r, true, nil
}

var writeVerbs = map[string]bool{"create": true, "update": true, "patch": true, "delete": true, "deletecollection": true}

func classify(r Request, query url.Values) Class {
	resource, group, _ := strings.Cut(r.Resource, ".")
	switch {
	case r.Resource == "":
		return Discovery
	case group == "authorization.k8s.io" || group == "authentication.k8s.io":
		return Review
	case r.Resource == "leases.coordination.k8s.io":
		return Lease
	case !writeVerbs[r.Verb]:
		return classifyRead(r.Verb, query)
	case resource == "events":
		return Event
	}
	return Write
}

func classifyRead(verb string, query url.Values) Class {
	switch {
	case verb == "watch" && query.Get("sendInitialEvents") == "true":
		return WatchList
	case verb == "watch":
		return Watch
	case verb == "list" && query.Get("resourceVersion") == "0":
		return WatchList
	}
	return LiveRead
}
