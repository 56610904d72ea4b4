package act

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/plan"
)

// Reasons of problems that writes meet.
const (
	ReasonConflict             = "ResourceConflict"
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonDefinitionTerminating is that of an object whose definition is being deleted.
	ReasonDefinitionTerminating = "DefinitionTerminating"
	ReasonForbidden             = "Forbidden"
	ReasonDenied                = "AdmissionDenied"
	// ReasonWebhookUnavailable is that of an object for which the API server has to call a webhook that does not answer.
	ReasonWebhookUnavailable = "WebhookUnavailable"
	ReasonQuota              = "QuotaExceeded"
	ReasonImmutable          = "ImmutableField"
	ReasonInvalid            = "Invalid"
	// ReasonAllocated is that of a Service whose port or address another one has.
	ReasonAllocated = "AlreadyAllocated"
	// ReasonStoredVersion is that of a definition without a version that objects are stored in.
	ReasonStoredVersion = "StoredVersionRemoved"
)

// classify turns an answer of the API server into a problem, or leaves it as a transient error. user is whose rights were
// used; empty for the operator's own.
func classify(key plan.Key, gvk schema.GroupVersionKind, user string, err error) (*plan.Problem, error) {
	problem, err := problemOf(key, gvk, user, err)
	if problem != nil {
		problem.Object = key
	}
	return problem, err
}

func problemOf(key plan.Key, gvk schema.GroupVersionKind, user string, err error) (*plan.Problem, error) {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &plan.Problem{
			Class: plan.Blocked, Reason: ReasonNamespaceTerminating, Field: "metadata.namespace", Value: key.Namespace,
			Message: "the namespace is being deleted, so " + key.String() + " cannot be made",
			Remedy:  "nothing to do if that is wanted; otherwise create the resource again in another namespace",
		}, nil
	case apistatus.OverQuota(err):
		return &plan.Problem{
			Class: plan.Blocked, Reason: ReasonQuota,
			Message: key.String() + " was refused: " + answer(key, err),
			Remedy:  "raise the ResourceQuota of namespace " + key.Namespace + " or free some of it",
		}, nil
	case apistatus.Denied(err):
		return &plan.Problem{
			Class: plan.Blocked, Reason: ReasonDenied,
			Message: key.String() + " was refused: " + answer(key, err),
			Remedy:  "change what the policy objects to, or the policy; it is tried again with growing pauses",
		}, nil
	case apistatus.FailedWebhook(err) != "":
		webhook := apistatus.FailedWebhook(err)
		return &plan.Problem{
			Class: plan.Blocked, Reason: ReasonWebhookUnavailable,
			Message: key.String() + " cannot be written: " + answer(key, err),
			Remedy:  "repair the server of the " + webhook + ", or delete its configuration if its server is gone; it is tried again with growing pauses",
		}, nil
	case apistatus.DefinitionTerminating(err):
		return &plan.Problem{
			Class: plan.Blocked, Reason: ReasonDefinitionTerminating, Field: "kind", Value: gvk.Kind,
			Message: key.String() + " cannot be created while the definition of its kind is being deleted: " + answer(key, err),
			Remedy:  "nothing to do if that is wanted; otherwise create the definition again once it is deleted",
		}, nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return &plan.Problem{
			Class: plan.Blocked, Reason: ReasonForbidden,
			Message: key.String() + " was refused: " + answer(key, err),
			Remedy:  forbiddenRemedy(user, err),
		}, nil
	case apistatus.Immutable(err):
		return &plan.Problem{
			Class: plan.Terminal, Reason: ReasonImmutable,
			Message: key.String() + " differs in a field that cannot be changed: " + answer(key, err),
			Remedy:  "undo the change, or delete the object yourself if it can be spared; it is never recreated for you",
		}, nil
	case apistatus.Allocated(err):
		return &plan.Problem{
			Class: plan.Blocked, Reason: ReasonAllocated,
			Message: key.String() + " asks for a port or an address that another Service has: " + answer(key, err),
			Remedy:  "choose another one, or delete or change that Service; it is tried again with growing pauses",
		}, nil
	case key.Kind == "CustomResourceDefinition" && apistatus.At(err, "status.storedVersions"):
		return &plan.Problem{
			Class: plan.Terminal, Reason: ReasonStoredVersion,
			Message: key.String() + " is declared without a version in which objects are stored, so that it stays as it is: " + answer(key, err),
			Remedy: "declare the version, as a newer release of the chart or application does; or write all objects of the kind again in another version, " +
				"and take the old one out of status.storedVersions of the definition",
		}, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apistatus.Mistyped(err):
		return &plan.Problem{
			Class: plan.Terminal, Reason: ReasonInvalid,
			Message: "the API server refuses " + key.String() + ": " + answer(key, err),
			Remedy:  "correct the field that the message names",
		}, nil
	}
	if status := apierrors.APIStatus(nil); isSecret(key) && errors.As(err, &status) {
		err = withheld{err, answer(key, err)}
	}
	return nil, fmt.Errorf("write %s (%s): %w", key, gvk.GroupVersion(), err)
}

// forbiddenRemedy says whom to grant what the message of the API server names.
func forbiddenRemedy(user string, err error) string {
	switch {
	case user == "":
		return "grant the right that the message names, or change the policy that denies it"
	case apistatus.MayNotActAs(err, user):
		return "let MLKeeper act as " + user + ": `mlkeeper rbac -f` prints the roles for a custom resource, `mlkeeper rbac --namespace` those for a namespace"
	}
	return "grant the right that the message names to " + user + "; `mlkeeper rbac -f` prints the roles for a custom resource"
}

// Conflict describes an object under a child's name that belongs to another owner.
func Conflict(key plan.Key, owner string) *plan.Problem {
	return &plan.Problem{
		Class: plan.Blocked, Reason: ReasonConflict, Field: "metadata.name", Value: key.Name,
		Message: fmt.Sprintf("%s exists already and belongs to %s; it is left alone", key, owner),
		Remedy: "rename or delete that object; to adopt it with its data, when it has no owner or its custom resource is gone, annotate " +
			"the custom resource with " + keeper.AdoptAnnotation + "=true",
	}
}

// ofWebhook matches the begin of an answer that a webhook is the cause of, which nothing of the object is in (k8s.io/apiserver,
// pkg/util/webhook/error.go and pkg/admission/plugin/webhook/errors/statuserror.go).
var ofWebhook = regexp.MustCompile(`^(?:Internal error occurred: failed calling|admission) webhook "([a-z0-9][-a-z0-9.]{0,251}[a-z0-9])"`)

// answer is the API server's own text, bounded, since it goes into status. Of a Secret it is the reason and the fields
// alone: the text may quote values, an admission webhook's any of them.
func answer(key plan.Key, err error) string {
	if !isSecret(key) {
		return cut(apistatus.Text(err), 600)
	}
	s := string(apierrors.ReasonForError(err))
	if s == "" {
		s = "Unknown"
	}
	var fields []string
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Field != "" && cause.Field != "<nil>" && !slices.Contains(fields, cause.Field) {
				fields = append(fields, cause.Field)
			}
		}
	}
	if len(fields) > 0 {
		slices.Sort(fields)
		s += " at " + strings.Join(fields, ", ")
	}
	if webhook := ofWebhook.FindStringSubmatch(err.Error()); webhook != nil {
		s += ", by the webhook " + webhook[1]
	}
	return cut(s, 600) + " (the answer itself is left out, as it may hold values)"
}

func isSecret(key plan.Key) bool { return key.Group == "" && key.Kind == "Secret" }

// cut shortens a text to at most so many bytes, and never within a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// withheld is an error whose text may hold values and is replaced; what kind of an error it is can still be asked.
type withheld struct {
	error
	text string
}

func (w withheld) Error() string { return w.text }

func (w withheld) Unwrap() error { return w.error }
