package faults

import (
	"net/http"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/harness"
)

// Kind is all that a kind gives to be tested.
type Kind struct {
	// Name names the kind in plans.
	Name string
	GVK  schema.GroupVersionKind
	// Resource is the plural name with group, as in a Point.
	Resource string
	// Controller is the kind's controller as it is released.
	Controller harness.Register
	// Makes are what the kind makes by its documentation; a run in which more is made is wrong.
	Makes []Child
	// Yields matches the children, as resource/name, that an object of somebody else may stand for, which status.warnings tells; nil for none.
	Yields *regexp.Regexp
	// Without matches, by cause, the children on which it is no cause, by documentation.
	Without map[Cause]*regexp.Regexp
	// Apart matches the children, as resource/name, that Ready does not depend on by documentation; nil for none.
	Apart *regexp.Regexp
	// Follows says of a difference from the reference that it follows from content that a plan destroyed and nobody can make again; nil for none.
	Follows func(Plan, Diff) bool
	// Workloads are what users do with it.
	Workloads []Workload
	// Asking makes the controller with the model servers that a workload's server stands for; nil where the kind asks none.
	Asking func(http.RoundTripper) harness.Register
	// Asks says that the kind asks servers that do not exist here, again and again with growing pauses of their own.
	Asks bool
	// Bases are the custom resources whose fields the campaign misoperation changes.
	Bases []Base
}

// Child is an object that a kind makes, or several that it makes in one way.
type Child struct {
	// Is matches it, as resource/name.
	Is *regexp.Regexp
	// Absent says why no steady workload ends with it; empty where one does.
	Absent string
	// Alike says that all that match differ in their names alone, so that causes stand on the first one.
	Alike bool
}

// making are children of which each is the end of a steady workload.
func making(patterns ...string) []Child {
	out := make([]Child, len(patterns))
	for i, pattern := range patterns {
		out[i].Is = regexp.MustCompile(`^(` + pattern + `)$`)
	}
	return out
}

// lacking are children that no steady workload ends with, for a reason.
func lacking(why string, patterns ...string) []Child {
	out := making(patterns...)
	for i := range out {
		out[i].Absent = why
	}
	return out
}

// makes returns what an object is, as resource/name, of what the kind makes; nil where the kind makes no such object.
func (k *Kind) makes(key string) *Child {
	for i := range k.Makes {
		if k.Makes[i].Is.MatchString(key) {
			return &k.Makes[i]
		}
	}
	return nil
}

// Workload is something that users do, with the end that it must come to whatever happens meanwhile.
type Workload struct {
	Name string
	// Controller, when set, is the operator before an upgrade: it runs until a step upgrades it.
	Controller harness.Register
	// Setup comes before the faults, Steps meet them. Where Setup is empty, the faults meet the creation.
	Setup, Steps []Step
	// Short says that the workload is part of the short form.
	Short bool
	// Same names the workload whose end must be that of this one, though it came there by another way (O4): what a user
	// changes must leave what he would have got at once.
	Same string
	// LosesClaims says that claims are deleted, as the users asked. Otherwise none ever may be.
	LosesClaims bool
	// Server is how a status names the server that the workload depends on; empty where there is none. Such a workload belongs to the
	// campaign standing alone.
	Server string
	// Plain says that the server is asked without TLS.
	Plain bool
	// Steady says that the workload ends in a state in which every child can be changed by somebody else (C5), and that causes stand on
	// its children.
	Steady bool
	// Stands matches the children that causes stand on where another workload has the rest in the same form; nil for all.
	Stands *regexp.Regexp
}

// Step is one thing that a user does.
type Step struct {
	Name string
	Do   func(*World) error
	// Until says what is still to come; the step is over when it returns nil. Without it, every custom resource of the
	// kind must be Ready.
	Until func(*World) error
}
