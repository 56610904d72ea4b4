// Package apistatus tells what an API server refused a write for. It reads the structure of the answer and the fixed words
// around quoted names and values, never a text in which a name or value could stand for such words.
package apistatus

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf is the answer of an API server; false where the error is none.
func statusOf(err error) (metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return metav1.Status{}, false
	}
	return status.Status(), true
}

// causes are the reasons that Cause returns as they are. An admission webhook may answer with any reason, and a label of a metric
// must have few values.
var causes = []metav1.StatusReason{
	metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists,
	metav1.StatusReasonConflict, metav1.StatusReasonGone, metav1.StatusReasonExpired, metav1.StatusReasonServerTimeout, metav1.StatusReasonInvalid,
	metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonBadRequest, metav1.StatusReasonMethodNotAllowed,
	metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable,
}

// Cause is the reason of the API server's answer: one of a bounded set, Other for an answer with a reason of its own, and NoAnswer
// for an error that is no answer, such as a connection that failed.
func Cause(err error) string {
	status, ok := statusOf(err)
	switch {
	case !ok:
		return "NoAnswer"
	case slices.Contains(causes, status.Reason):
		return string(status.Reason)
	}
	return "Other"
}

// forbidden is how the answer of an admission plugin begins (NewForbidden of apimachinery): the resource and the name of the
// object, quoted as Go does, or neither where the request had none.
const forbidden = `^(?:[^"\s]+ (?:"(?:[^"\\]|\\.)*" )?is )?forbidden: `

var (
	quota = regexp.MustCompile(forbidden + `exceeded quota: `)
	// terminating is the whole answer of the API server to a create (forbidCreateAdmission of apiextensions-apiserver).
	terminating = regexp.MustCompile(forbidden + `create not allowed while custom resource definition is terminating$`)
	byPolicy    = regexp.MustCompile(forbidden + `ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: `)
	// byWebhook matches what the API server puts before the words of a webhook.
	byWebhook = regexp.MustCompile(`^admission webhook "(?:[^"\\]|\\.)*" denied the request`)
)

// OverQuota says that a ResourceQuota has no capacity left for an object.
func OverQuota(err error) bool {
	status, ok := statusOf(err)
	return ok && apierrors.IsForbidden(err) && quota.MatchString(status.Message)
}

// DefinitionTerminating says that an object was not created since the definition of its kind is being deleted. The API server answers with
// Forbidden, which no right changes.
func DefinitionTerminating(err error) bool {
	status, ok := statusOf(err)
	return ok && apierrors.IsForbidden(err) && terminating.MatchString(status.Message)
}

// Denied says that an admission policy or webhook refused, whatever code it chose: a ValidatingAdmissionPolicy answers with
// Invalid unless it says otherwise, which does not make the object invalid for good.
func Denied(err error) bool {
	status, ok := statusOf(err)
	return ok && (byPolicy.MatchString(status.Message) || byWebhook.MatchString(status.Message))
}

// The answers of the API server for a webhook that gives none: one of admission (k8s.io/apiserver, pkg/util/webhook/error.go), and one that
// converts objects (apiextensions-apiserver, pkg/apiserver/conversion/webhook_converter.go), for which server-side apply says what it
// was to convert.
var (
	admissionFailed  = regexp.MustCompile(`^Internal error occurred: failed calling (webhook "[a-z0-9][-a-z0-9.]*")`)
	conversionFailed = regexp.MustCompile(`^(?:Internal error occurred: )?(?:failed to convert [^:]*: )?(conversion webhook for [^ :]+, Kind=\w+) (?:failed|returned)\b`)
)

// FailedWebhook returns the admission or conversion webhook that the API server needed for an answer and could not call; empty if the
// error is another one. A denial is an answer.
func FailedWebhook(err error) string {
	status, ok := statusOf(err)
	if !ok || status.Code != http.StatusInternalServerError {
		return ""
	}
	for _, failed := range []*regexp.Regexp{admissionFailed, conversionFailed} {
		if match := failed.FindStringSubmatch(status.Message); match != nil {
			return match[1]
		}
	}
	return ""
}

// allocated is how the API server's answer ends about the port or the address of a Service that another one has (kubernetes
// pkg/registry/core/service, ErrAllocated of portallocator and ipallocator).
var allocated = regexp.MustCompile(`: provided (?:port|IP) is already allocated$`)

// Allocated says that another Service has the port or the address that a Service asks for. It is free again when that Service goes, so
// that the object is not invalid for good. For the port of a health check the API server answers with a bare 500.
func Allocated(err error) bool {
	status, ok := statusOf(err)
	if !ok || Denied(err) {
		return false
	}
	if status.Code == http.StatusInternalServerError {
		return strings.HasPrefix(status.Message, "failed to allocate requested HealthCheck NodePort ") && allocated.MatchString(status.Message)
	}
	return apierrors.IsInvalid(err) && status.Details != nil && slices.ContainsFunc(status.Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Type == metav1.CauseTypeFieldValueInvalid && allocated.MatchString(cause.Message)
	})
}

// MayNotActAs says that the API server refused to let a request act as the ServiceAccount of a namespace: the answer is about that one,
// and not about an object of the request.
func MayNotActAs(err error, user string) bool {
	status, ok := statusOf(err)
	name := user[strings.LastIndex(user, ":")+1:]
	return ok && name != "" && apierrors.IsForbidden(err) && status.Details != nil && status.Details.Group == "" &&
		status.Details.Kind == "serviceaccounts" && status.Details.Name == name && strings.Contains(status.Message, cannotImpersonate)
}

// cannotImpersonate is between the names of the two users in the answer.
const cannotImpersonate = `" cannot impersonate resource "serviceaccounts" in API group ""`

// ObjectNotFound says that an object of this name does not exist. An API that is not served in the version of the request answers with
// 404, too, but names no object: the object may exist in another version.
func ObjectNotFound(err error, name string) bool {
	status, ok := statusOf(err)
	return ok && apierrors.IsNotFound(err) && status.Details != nil && status.Details.Name == name &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// TooLarge says that an object has more bytes than the API server or its storage takes, which etcd and its client tell as errors of
// the server.
func TooLarge(err error) bool {
	status, ok := statusOf(err)
	return ok && (apierrors.IsRequestEntityTooLargeError(err) || status.Message == "etcdserver: request is too large" ||
		strings.HasPrefix(status.Message, "rpc error: code = ResourceExhausted desc = trying to send message larger than max "))
}

// Mistyped says that a value of an applied object is not of the type of its field, which the API server answers with a bare 500.
func Mistyped(err error) bool {
	status, ok := statusOf(err)
	return ok && status.Code == http.StatusInternalServerError && strings.HasPrefix(status.Message, "failed to create typed patch object (")
}

// What the API server's validation says of a field that cannot be changed, by the reason of the cause. The message of a value
// that is not allowed ends with the reason, after the quoted value; that of a forbidden change begins with it and quotes
// nothing before. An update of a StatefulSet is told by both ends of a list of fields.
var (
	endings = []string{": field is immutable", ": cannot change roleRef", ": may not change once set"}

	beginnings = []string{
		"Forbidden: field is immutable", "Forbidden: spec is immutable after creation",
		"Forbidden: spec.persistentvolumesource is immutable after creation", "Forbidden: may not be changed in an update.",
		"Forbidden: pod updates may not change fields other than ", "Forbidden: updates to statefulset spec for fields other than ",
	}
)

// Immutable says that the API server refused a change for a field that cannot be changed. It may have refused it for others
// too, which follow from that one or not: what a new object would be refused for, only the API server knows.
func Immutable(err error) bool {
	status, ok := statusOf(err)
	return ok && apierrors.IsInvalid(err) && !Denied(err) && status.Details != nil && slices.ContainsFunc(status.Details.Causes, immutable)
}

func immutable(cause metav1.StatusCause) bool {
	var parts []string
	var is func(text, part string) bool
	switch cause.Type {
	case metav1.CauseTypeFieldValueInvalid:
		parts, is = endings, strings.HasSuffix
	case metav1.CauseTypeForbidden:
		parts, is = beginnings, strings.HasPrefix
	default:
		return false
	}
	for _, part := range parts {
		if is(cause.Message, part) {
			return true
		}
	}
	return false
}

// At says that the API server refuses a field, or an entry of it.
func At(err error, field string) bool {
	status, ok := statusOf(err)
	if !ok || status.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == field || strings.HasPrefix(cause.Field, field+"[")
	})
}

// Text is the text of an error. Where it is an answer of the API server that names several fields, these are in one order: the API server checks
// custom resources and the types of values in the order of Go's maps (k8s.io/kube-openapi, pkg/validation/validate/object_validator.go;
// structured-merge-diff, typed/validate.go), so that a status that quotes the answer would change with each attempt.
func Text(err error) string {
	text := err.Error()
	status, ok := statusOf(err)
	if !ok {
		return text
	}
	const errorsOf, next = ": errors:\n  ", "\n  "
	if head, list, several := strings.Cut(text, errorsOf); several && Mistyped(err) {
		lines := strings.Split(list, next)
		slices.Sort(lines)
		return head + errorsOf + strings.Join(lines, next)
	}
	told := causesOf(status)
	list := "[" + strings.Join(told, ", ") + "]"
	if len(told) < 2 || !strings.HasSuffix(text, list) {
		return text
	}
	slices.Sort(told)
	return strings.TrimSuffix(text, list) + "[" + strings.Join(told, ", ") + "]"
}

// causesOf are the causes of an answer as its message lists them: each one once (k8s.io/apimachinery, pkg/util/validation/field/errors.go and
// pkg/util/errors/errors.go).
func causesOf(status metav1.Status) (out []string) {
	if status.Details == nil {
		return nil
	}
	for _, cause := range status.Details.Causes {
		if text := cause.Field + ": " + cause.Message; !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
