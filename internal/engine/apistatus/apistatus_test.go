package apistatus

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var things = schema.GroupResource{Group: "apps", Resource: "things"}

func invalid(name string, causes ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Thing"}, name, causes)
}

// The answers of kube-apiserver 1.34 to an apply that changes what cannot be changed.
var immutables = map[string]*field.Error{
	"selector of a Deployment": field.Invalid(field.NewPath("spec", "selector"), map[string]any{"matchLabels": "x"}, "field is immutable"),
	"type of a Secret":         field.Invalid(field.NewPath("type"), "a/y", "field is immutable"),
	"roleRef":                  field.Invalid(field.NewPath("roleRef"), "role", "cannot change roleRef"),
	"clusterIP of a Service":   field.Invalid(field.NewPath("spec", "clusterIPs").Index(0), "10.0.0.1", "may not change once set"),
	"immutable ConfigMap":      field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"),
	"value of a PriorityClass": field.Forbidden(field.NewPath("value"), "may not be changed in an update."),
	"spec of a claim": field.Forbidden(field.NewPath("spec"),
		"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n@@ -1,6 +1,6 @@\n"),
	"source of a volume": field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
		"spec.persistentvolumesource is immutable after creation\n@@ -2,7 +2,7 @@\n"),
	"StatefulSet": field.Forbidden(field.NewPath("spec"),
		"updates to statefulset spec for fields other than 'replicas', 'ordinals' and 'template' are forbidden"),
	"Pod": field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than `spec.containers[*].image`\n@@ -1 +1 @@\n"),
}

// words are what users, and those who attack them, may put into names and values.
var words = []string{
	"immutable", "field is immutable", ": field is immutable", `": field is immutable`, "cannot change roleRef", "may not change once set",
	"Forbidden: field is immutable", "updates to statefulset spec for fields other than x are forbidden", "denied the request",
	`admission webhook "w" denied the request`, "exceeded quota: ", `" is forbidden: exceeded quota: `,
	`" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `,
}

func TestWhatCannotBeChangedIsToldByTheCause(t *testing.T) {
	for name, cause := range immutables {
		for _, err := range []error{invalid("n", cause), fmt.Errorf("apply: %w", invalid("n", cause)), invalid("n", field.Required(field.NewPath("a"), ""), cause)} {
			if !Immutable(err) {
				t.Errorf("%s is not told from %v", name, err)
			}
		}
	}
}

func TestNoNameAndNoValueIsTakenForAReason(t *testing.T) {
	for _, word := range words {
		at := field.NewPath("spec").Key(word)
		for _, err := range []error{
			invalid(word, field.Required(field.NewPath("spec"), "")),
			invalid(word, field.Invalid(field.NewPath("spec", "replicas"), -1, "must be greater than or equal to 0")),
			invalid("n", field.Invalid(at, word, "must be no more than 15 characters")),
			invalid("n", field.Invalid(at, map[string]any{word: word}, "must be less")),
			invalid("n", field.NotSupported(at, word, []string{"a", word})),
			invalid("n", field.Duplicate(at, word)),
			invalid("n", field.NotFound(at, word)),
			apierrors.NewForbidden(things, word, errors.New("User \"x\" cannot patch resource")),
			apierrors.NewForbidden(things, "n", fmt.Errorf("User %q cannot patch resource", word)),
			apierrors.NewBadRequest("cannot unmarshal " + word[:1]),
			errors.New(word),
		} {
			if Immutable(err) || Denied(err) || OverQuota(err) {
				t.Errorf("immutable %t, denied %t, over quota %t: %v", Immutable(err), Denied(err), OverQuota(err), err)
			}
		}
	}
}

func TestDenialsQuotasAndSizesAreToldByTheFixedWords(t *testing.T) {
	for _, name := range append([]string{"", "n"}, words...) {
		quota := apierrors.NewForbidden(things, name, errors.New("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"))
		if !OverQuota(quota) || Denied(quota) || Immutable(quota) {
			t.Errorf("quota: %v", quota)
		}
		gone := apierrors.NewForbidden(things, name, errors.New("create not allowed while custom resource definition is terminating"))
		if !DefinitionTerminating(gone) || DefinitionTerminating(quota) || Denied(gone) || OverQuota(gone) {
			t.Errorf("definition: %v", gone)
		}
		policy := apierrors.NewForbidden(things, name, errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: field is immutable"))
		policy.ErrStatus.Reason = metav1.StatusReasonInvalid
		policy.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type: metav1.CauseTypeFieldValueInvalid, Message: "Invalid value: 1: field is immutable",
		}}
		if !Denied(policy) || OverQuota(policy) || Immutable(policy) {
			t.Errorf("policy: %v", policy)
		}
	}
	for _, words := range []string{`admission webhook "w.example.test" denied the request: field is immutable`, `admission webhook "w.example.test" denied the request without explanation`} {
		webhook := &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid, Message: words,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: metav1.CauseTypeFieldValueInvalid, Message: "Invalid value: 1: field is immutable",
			}}},
		}}
		if !Denied(webhook) || Immutable(webhook) {
			t.Errorf("webhook: %v", webhook)
		}
	}
	for _, words := range []string{"etcdserver: request is too large", "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2154612 vs. 2097152)"} {
		large := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: words}}
		if !TooLarge(large) || Denied(large) {
			t.Errorf("size: %v", large)
		}
	}
	if !TooLarge(apierrors.NewRequestEntityTooLargeError("limit is 3145728")) || TooLarge(apierrors.NewInternalError(errors.New("slow"))) {
		t.Error("size: 413 is none, or any error of the server is one")
	}
	if bare := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("exceeded quota: q")); !OverQuota(bare) || !strings.HasPrefix(bare.Error(), "forbidden") {
		t.Errorf("quota without a resource: %v", bare)
	}
}

// TestAVersionThatIsNotServedIsNoMissingObject: the client makes a status of an answer that is none, as of a path that the API server does
// not know.
func TestAVersionThatIsNotServedIsNoMissingObject(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("delete: %w", apierrors.NewNotFound(things, "n")), true},
		{apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns"), false},
		{apierrors.NewGenericServerResponse(404, "delete", things, "n", "404 page not found", 0, true), false},
		{apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{}, "", "404 page not found", 0, true), false},
		{apierrors.NewConflict(things, "n", errors.New("modified")), false},
		{errors.New("not found"), false},
	} {
		if got := ObjectNotFound(c.err, "n"); got != c.want {
			t.Errorf("%v: the object is missing: %t", c.err, got)
		}
	}
}

// TestWhatAnotherServiceHasIsToldByTheCause has the answers of kube-apiserver 1.36 (pkg/registry/core/service/storage/alloc.go).
func TestWhatAnotherServiceHasIsToldByTheCause(t *testing.T) {
	port, ips := field.NewPath("spec", "ports").Index(0).Child("nodePort"), field.NewPath("spec", "clusterIPs")
	health := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: message}}
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{invalid("n", field.Invalid(port, 30080, "provided port is already allocated")), true},
		{invalid("n", field.Invalid(ips, []string{"10.0.0.1"}, "failed to allocate IP 10.0.0.1: provided IP is already allocated")), true},
		{health("failed to allocate requested HealthCheck NodePort 32000: provided port is already allocated"), true},
		{invalid("n", field.Invalid(port, 80, "provided port is not in the valid range. The range of valid ports is 30000-32767")), false},
		{invalid("n", field.Invalid(ips, "x: provided IP is already allocated", "must be a valid IP address")), false},
		{invalid("n: provided port is already allocated", field.Required(port, "")), false},
		{health("failed to allocate requested HealthCheck NodePort 32000: provided port is not in the valid range"), false},
		{health(`x "n": provided port is already allocated`), false},
	} {
		if got := Allocated(c.err); got != c.want {
			t.Errorf("%v: allocated to another is %t", c.err, got)
		}
	}
}

// TestAWebhookThatDoesNotAnswerIsTold has the answers of kube-apiserver 1.36 without a server behind a webhook of admission or conversion. A
// request that took too long may have other causes.
func TestAWebhookThatDoesNotAnswerIsTold(t *testing.T) {
	bare := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: message}}
	}
	const gvk = "example.com/v1, Kind=Thing"
	for _, c := range []struct {
		err  error
		want string
	}{
		{
			apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": failed to call webhook: Post "https://s.ns.svc:443/?timeout=10s": service "s" not found`)),
			`webhook "w.example.com"`,
		},
		{fmt.Errorf("apply: %w", apierrors.NewInternalError(errors.New(`failed calling webhook "w"; no further details available`))), `webhook "w"`},
		{bare("conversion webhook for " + gvk + ` failed: Post "https://s.ns.svc:443/": EOF`), "conversion webhook for " + gvk},
		{bare("conversion webhook for " + gvk + " returned 0 objects, expected 1"), "conversion webhook for " + gvk},
		{bare("failed to convert live object (ns/a; example.com/v1, Kind=Thing) to proper version: conversion webhook for " + gvk + " failed: EOF"), "conversion webhook for " + gvk},
		{apierrors.NewInternalError(errors.New("conversion webhook for " + gvk + " failed: EOF")), "conversion webhook for " + gvk},
		{apierrors.NewInternalError(errors.New(`etcd: failed calling webhook "w"`)), ""},
		{bare(`Thing "conversion webhook for ` + gvk + ` failed" is slow`), ""},
		{apierrors.NewTimeoutError("request did not complete within requested timeout", 0), ""},
		{apierrors.NewTooManyRequests(`Internal error occurred: failed calling webhook "w"`, 1), ""},
		{errors.New(`Internal error occurred: failed calling webhook "w"`), ""},
	} {
		if got := FailedWebhook(c.err); got != c.want {
			t.Errorf("%v: %q does not answer, not %q", c.err, got, c.want)
		}
	}
}

func TestCauseHasFewValues(t *testing.T) {
	custom := apierrors.NewBadRequest("a webhook may answer with any reason")
	custom.ErrStatus.Reason = "TeamQuota/42"
	for want, err := range map[string]error{
		"Conflict":           fmt.Errorf("apply: %w", apierrors.NewConflict(things, "n", errors.New("modified"))),
		"ServiceUnavailable": apierrors.NewServiceUnavailable("etcd starts"),
		"Other":              custom,
		"NoAnswer":           fmt.Errorf("apply: %w", errors.New("connection refused")),
	} {
		if got := Cause(err); got != want {
			t.Errorf("%v: the cause is %s, want %s", err, got, want)
		}
	}
}

// TestAnAnswerHasOneText holds that an answer about several fields has the same text whatever order the API server found them in: it goes into a
// status, which would be written after each attempt.
func TestAnAnswerHasOneText(t *testing.T) {
	one, two, three := field.Required(field.NewPath("spec", "a"), "say it"), field.Invalid(field.NewPath("spec", "b"), "x, y", "is odd"),
		field.Required(field.NewPath("spec", "c"), "")
	typed := func(fields ...string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "failed to create typed patch object (ns/a; apps/v1, Kind=Thing): errors:\n  " + strings.Join(fields, "\n  ")}}
	}
	for want, errs := range map[string][]error{
		`write: Thing.apps "n" is invalid: [spec.a: Required value: say it, spec.b: Invalid value: "x, y": is odd, spec.c: Required value]`: {
			fmt.Errorf("write: %w", invalid("n", one, two, three)), fmt.Errorf("write: %w", invalid("n", three, two, one, two)),
		},
		`Thing.apps "n" is invalid: spec.a: Required value: say it`: {invalid("n", one)},
		"failed to create typed patch object (ns/a; apps/v1, Kind=Thing): errors:\n  .spec.a: not known\n  .spec.b: no number": {
			typed(".spec.a: not known", ".spec.b: no number"), typed(".spec.b: no number", ".spec.a: not known"),
		},
		"no answer: errors:\n  b\n  a": {errors.New("no answer: errors:\n  b\n  a")},
	} {
		for _, err := range errs {
			if got := Text(err); got != want {
				t.Errorf("%v\n gives %s\n want %s", err, got, want)
			}
		}
	}
}
