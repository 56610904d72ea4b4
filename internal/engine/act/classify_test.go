package act

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

const value = "hunter2"

func key(group, kind string) plan.Key {
	return plan.Key{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespace: "ns", Name: "n"}
}

var resource = schema.GroupResource{Resource: "things"}

func invalid(detail string) *apierrors.StatusError {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "n", field.ErrorList{
		field.Invalid(field.NewPath("data").Key("password"), value, detail),
	})
}

// forbiddenChange is what the API server answers where no value of a field may be changed.
func forbiddenChange(detail string) *apierrors.StatusError {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "n", field.ErrorList{field.Forbidden(field.NewPath("data").Key("password"), detail)})
}

func namespaceTerminating() error {
	err := apierrors.NewForbidden(resource, "n", errors.New("unable to create new content in namespace ns because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: "namespace ns is being terminated", Field: "metadata.namespace",
	})
	return err
}

// policyDenied is what a ValidatingAdmissionPolicy answers unless it chooses another reason.
func policyDenied() error {
	err := invalid("x")
	err.ErrStatus.Message = `things "n" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: the field is immutable: ` + value
	err.ErrStatus.Details.Causes = nil
	return err
}

func webhookDenied() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 400, Reason: metav1.StatusReasonBadRequest,
		Message: `admission webhook "w.example.com" denied the request: no ` + value,
	}}
}

// answers are those that the API server gives to writes. An empty reason means that the error is transient.
var answers = []struct {
	name   string
	err    error
	class  plan.Class
	reason string
}{
	{"namespace terminating", namespaceTerminating(), plan.Blocked, ReasonNamespaceTerminating},
	{
		"quota", apierrors.NewForbidden(resource, "n", errors.New("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1")),
		plan.Blocked, ReasonQuota,
	},
	{"webhook", webhookDenied(), plan.Blocked, ReasonDenied},
	{"admission policy", policyDenied(), plan.Blocked, ReasonDenied},
	{"forbidden", apierrors.NewForbidden(resource, "n", errors.New("no "+value)), plan.Blocked, ReasonForbidden},
	{"unauthorized", apierrors.NewUnauthorized("who? " + value), plan.Blocked, ReasonForbidden},
	{"immutable", invalid("field is immutable"), plan.Terminal, ReasonImmutable},
	{"immutable Secret", forbiddenChange("field is immutable when `immutable` is set"), plan.Terminal, ReasonImmutable},
	{"immutable roleRef", invalid("cannot change roleRef"), plan.Terminal, ReasonImmutable},
	{"immutable StatefulSet", forbiddenChange("updates to statefulset spec for fields other than 'replicas' are forbidden"), plan.Terminal, ReasonImmutable},
	{"immutable Service", invalid("may not change once set"), plan.Terminal, ReasonImmutable},
	{"port of another Service", invalid("provided port is already allocated"), plan.Blocked, ReasonAllocated},
	{"invalid", invalid("must be less"), plan.Terminal, ReasonInvalid},
	{
		"definition", apierrors.NewForbidden(resource, "n", errors.New("create not allowed while custom resource definition is terminating")),
		plan.Blocked, ReasonDefinitionTerminating,
	},
	{"bad request", apierrors.NewBadRequest("illegal base64 data: " + value), plan.Terminal, ReasonInvalid},
	{"conflict", apierrors.NewConflict(resource, "n", errors.New("the object has been modified "+value)), "", ""},
	{"not found", apierrors.NewNotFound(resource, "cm"), "", ""},
	{"already exists", apierrors.NewAlreadyExists(resource, "n"), "", ""},
	{"gone", apierrors.NewResourceExpired("too old"), "", ""},
	{"server timeout", apierrors.NewServerTimeout(resource, "patch", 1), "", ""},
	{"timeout", apierrors.NewTimeoutError("no answer "+value, 1), "", ""},
	{"too many requests", apierrors.NewTooManyRequests("slow down "+value, 1), "", ""},
	{"a value of another type", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500,
		Message: "failed to create typed patch object (ns/a; serving.kserve.io/v1beta1, Kind=InferenceService): .spec.predictor.minReplicas: " +
			"expected numeric (int or float), got string: " + value,
	}}, plan.Terminal, ReasonInvalid},
	{"internal error", apierrors.NewInternalError(errors.New("failed calling webhook: " + value)), "", ""},
	{
		"webhook down", apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": failed to call webhook: no endpoints; ` + value)),
		plan.Blocked, ReasonWebhookUnavailable,
	},
	{"conversion webhook down", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Message: "conversion webhook for example.com/v1, Kind=Thing failed: no endpoints; " + value,
	}}, plan.Blocked, ReasonWebhookUnavailable},
	{"unavailable", apierrors.NewServiceUnavailable("etcd " + value), "", ""},
	{"method not supported", apierrors.NewMethodNotSupported(resource, "patch"), "", ""},
	{"too large", apierrors.NewRequestEntityTooLargeError("limit is 3145728 " + value), "", ""},
	{"nothing of the API server's", context.DeadlineExceeded, "", ""},
}

// TestADefinitionWithoutAStoredVersion has the answer of apiextensions-apiserver (ValidateUpdate of customresourcedefinition).
func TestADefinitionWithoutAStoredVersion(t *testing.T) {
	crd := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	err := apierrors.NewInvalid(crd.GroupKind(), "n", field.ErrorList{
		field.Invalid(field.NewPath("status", "storedVersions").Index(0), "v1", "missing from spec.versions; v1 was previously a storage version"),
	})
	problem, rest := classify(key(crd.Group, crd.Kind), crd, "", err)
	if rest != nil || problem == nil || problem.Class != plan.Terminal || problem.Reason != ReasonStoredVersion || problem.Remedy == "" {
		t.Errorf("%+v, %v", problem, rest)
	}
	if problem, _ := classify(key("", "ConfigMap"), crd, "", err); problem.Reason != ReasonInvalid {
		t.Errorf("of another kind: %+v", problem)
	}
	if problem, _ := classify(key(crd.Group, crd.Kind), crd, "", invalid("must be less")); problem.Reason != ReasonInvalid {
		t.Errorf("for another field: %+v", problem)
	}
}

func TestClassify(t *testing.T) {
	for _, c := range answers {
		for name, err := range map[string]error{c.name: c.err, c.name + ", wrapped": fmt.Errorf("apply: %w", c.err)} {
			t.Run(name, func(t *testing.T) {
				problem, rest := classify(key("", "ConfigMap"), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "", err)
				if c.reason == "" {
					if problem != nil || !errors.Is(rest, c.err) || !strings.Contains(rest.Error(), "ConfigMap ns/n") {
						t.Fatalf("problem %+v, error %v", problem, rest)
					}
					return
				}
				if rest != nil || problem == nil || problem.Class != c.class || problem.Reason != c.reason {
					t.Fatalf("problem %+v, error %v", problem, rest)
				}
				if problem.Message == "" || problem.Remedy == "" || !strings.Contains(problem.Error(), "ConfigMap ns/n") {
					t.Errorf("%s", problem)
				}
			})
		}
	}
}

func TestNoAnswerAboutASecretIsQuoted(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			problem, rest := classify(key("", "Secret"), schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "", c.err)
			var text string
			if problem != nil {
				text = problem.Error()
			} else {
				text = fmt.Sprintf("%s %v %+v", rest, rest, rest)
				if !errors.Is(rest, c.err) {
					t.Error("nobody can ask any more what kind of an error it is")
				}
			}
			if strings.Contains(text, value) {
				t.Fatalf("a value leaks: %s", text)
			}
			if status := apierrors.APIStatus(nil); errors.As(c.err, &status) && c.reason != ReasonNamespaceTerminating &&
				!strings.Contains(text, string(apierrors.ReasonForError(c.err))) {
				t.Errorf("no reason in %s", text)
			}
		})
	}
	problem, _ := classify(key("", "Secret"), schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "", invalid("x"))
	if !strings.Contains(problem.Message, "Invalid at data[password]") {
		t.Error(problem.Message)
	}
	// A webhook is named: its name stands before everything that it says.
	down := apierrors.NewInternalError(fmt.Errorf(`failed calling webhook "w.example.com": no endpoints; %s`, value))
	hostile := apierrors.NewInternalError(fmt.Errorf(`no: failed calling webhook "%s"`, value))
	for err, want := range map[error]string{webhookDenied(): ", by the webhook w.example.com (", down: ", by the webhook w.example.com (", hostile: "InternalError ("} {
		if text := answer(key("", "Secret"), err); !strings.Contains(text, want) || strings.Contains(text, value) {
			t.Errorf("%q is told as %q", err, text)
		}
	}
	// A kind of that name in another group is no Secret.
	problem, _ = classify(key("x.io", "Secret"), schema.GroupVersionKind{Group: "x.io", Kind: "Secret"}, "", invalid("x"))
	if !strings.Contains(problem.Message, value) {
		t.Error(problem.Message)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringN(0, 900, -1).Draw(t, "text")
		got := answer(key("", "ConfigMap"), errors.New(s))
		if len(got) > 610 || !utf8.ValidString(got) || len(s) <= 600 && got != s {
			t.Fatalf("%q", got)
		}
	})
}

func TestRecreates(t *testing.T) {
	action := func(kind string, retain bool, on plan.Immutable) decide.Action {
		return decide.Action{Object: plan.Stamped{Object: plan.Object{Retain: retain, OnImmutable: on}, Key: key("", kind)}}
	}
	for _, c := range []struct {
		kind   string
		retain bool
		on     plan.Immutable
		want   bool
	}{
		{"Job", false, plan.ImmutableByKind, true},
		{"ConfigMap", false, plan.ImmutableByKind, true},
		{"Secret", false, plan.ImmutableByKind, true},
		{"Secret", true, plan.ImmutableByKind, false},
		{"ClusterRoleBinding", false, plan.ImmutableByKind, true},
		{"Deployment", false, plan.ImmutableByKind, false},
		{"Service", false, plan.ImmutableByKind, false},
		{"PersistentVolumeClaim", false, plan.ImmutableByKind, false},
		{"PersistentVolumeClaim", false, plan.ImmutableRecreate, false},
		{"Deployment", false, plan.ImmutableRecreate, true},
		{"Job", false, plan.ImmutableStall, false},
	} {
		a := action(c.kind, c.retain, c.on)
		if got := recreates(a); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if a.Adopted = true; recreates(a) {
			t.Errorf("%+v: an adopted object is deleted", c)
		}
	}
}

func TestConflictNamesTheOwner(t *testing.T) {
	p := Conflict(key("", "ConfigMap"), "Pod p")
	if p.Reason != ReasonConflict || p.Class != plan.Blocked || !strings.Contains(p.Message, "belongs to Pod p") {
		t.Error(p)
	}
}

func TestARefusedUserIsNamed(t *testing.T) {
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("no"))
	const user = "system:serviceaccount:ns:account"
	// As the API server words it.
	noActing := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "account",
		errors.New(`User "system:serviceaccount:mlkeeper-system:m" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns"`))
	for name, test := range map[string]struct {
		user, want string
		err        error
	}{
		"the operator":               {"", "grant the right that the message names, or change the policy that denies it", no},
		"the ServiceAccount":         {user, "to " + user + "; `mlkeeper rbac -f` prints the roles for a custom resource", no},
		"the operator, to act as it": {user, "act as " + user + ": `mlkeeper rbac -f` prints the roles for a custom resource, `mlkeeper rbac --namespace` those for a namespace", noActing},
		"another ServiceAccount":     {user + "2", "to " + user + "2; `mlkeeper rbac -f` prints the roles for a custom resource", noActing},
	} {
		problem, _ := classify(key("", "ConfigMap"), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, test.user, test.err)
		if problem == nil || problem.Class != plan.Blocked || problem.Reason != ReasonForbidden || !strings.HasSuffix(problem.Remedy, test.want) {
			t.Errorf("%s: %+v", name, problem)
		}
	}
}
