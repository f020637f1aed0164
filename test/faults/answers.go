package faults

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer is an error with which an API server may reject a write.
type answer struct {
	name       string
	code       int
	reason     metav1.StatusReason
	message    string
	retryAfter time.Duration
	// holdable answers may be repeated for a time; the others concern one moment.
	holdable bool
	// possibleFor reports which writes may get this answer; nil means all.
	possibleFor func(Record) bool
	// modifiesObject means that another client has just changed the object, as this answer implies. The watch reports the change.
	modifiesObject bool
}

// answers are the answers of F4. Answers that would be false are left out: a controller may, for example, believe that an object is gone
// when its deletion or status update reports NotFound.
var answers = []answer{
	{name: "conflict", code: http.StatusConflict, reason: metav1.StatusReasonConflict, modifiesObject: true,
		message: "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again"},
	{name: "exists", code: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists, message: "the object already exists",
		possibleFor: func(r Record) bool { return r.creates() }},
	{name: "notfound", code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, message: "the namespace was not found",
		possibleFor: func(r Record) bool { return r.creates() }},
	{name: "quota", code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, holdable: true,
		message:     "exceeded quota: compute, requested: pods=1, used: pods=10, limited: pods=10",
		possibleFor: func(r Record) bool { return r.Sub == "" && r.Verb != "delete" }},
	{name: "invalid", code: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid, holdable: true,
		message:     "the object is invalid: denied by a policy",
		possibleFor: func(r Record) bool { return r.Sub == "" && r.Verb != "delete" }},
	{name: "toomany", code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, holdable: true,
		message: "too many requests, please try again later", retryAfter: time.Second},
	{name: "internal", code: http.StatusInternalServerError, reason: metav1.StatusReasonInternalError, holdable: true,
		message: "Internal error occurred: etcdserver: leader changed"},
	{name: "unavailable", code: http.StatusServiceUnavailable, reason: metav1.StatusReasonServiceUnavailable, holdable: true,
		message: "the server is currently unable to handle the request"},
	{name: "timeout", code: http.StatusGatewayTimeout, reason: metav1.StatusReasonTimeout, holdable: true,
		message: "Timeout: request did not complete within requested timeout"},
	{name: "webhook", code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, holdable: true,
		message: `admission webhook "policy.example.com" denied the request: not now`},
}

// unheardAnswers are the answers of F4-unheard. Admission webhooks, proxies and aggregated APIs return them too, for other reasons.
var unheardAnswers = []answer{
	{name: "notfound", code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, message: "the object was not found",
		possibleFor: func(r Record) bool { return r.Sub == "" && r.Verb != "delete" }},
	{name: "conflict", code: http.StatusConflict, reason: metav1.StatusReasonConflict,
		message: "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again"},
}

func (a answer) possible(r Record) bool { return a.possibleFor == nil || a.possibleFor(r) }

// response is the HTTP response that the client receives.
func (a answer) response(request *http.Request) *http.Response {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(a.code), Reason: a.reason, Message: a.message, Details: &metav1.StatusDetails{},
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if a.retryAfter > 0 {
		seconds := int(a.retryAfter.Seconds())
		header.Set("Retry-After", strconv.Itoa(seconds))
		status.Details.RetryAfterSeconds = int32(seconds)
	}
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return &http.Response{
		Status: strconv.Itoa(a.code) + " " + http.StatusText(a.code), StatusCode: a.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: request,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}
