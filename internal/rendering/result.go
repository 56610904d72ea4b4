package rendering

import (
	"time"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/convert"
)

// ReasonResultTooLarge is the reason where the results of one custom resource take too much memory; stable across releases.
const ReasonResultTooLarge = "ResultTooLarge"

// Fetching is the problem of a custom resource for which there is no result yet.
func Fetching(message string) plan.Problem {
	return plan.Problem{Class: plan.Waiting, Reason: plan.ReasonFetching, Message: message, Remedy: "nothing to do", Brief: true}
}

// Result is what became of a job. Where the job failed, everything but the failure is that of the last job that did not.
type Result[C any] struct {
	// Content is what was rendered, and Inputs are those of its job; empty where nothing was rendered so far.
	Content C
	Inputs  string
	// Sources are what the content was rendered from.
	Sources []Revision
	// Fetched are what the sources refer to, as it was used; without a digest where it could not be fetched.
	Fetched []Revision
	// Depends are the removed APIs that the content was converted from and to, and whether the cluster served them.
	Depends convert.Depends
	// Bytes are what the content takes in memory, about.
	Bytes int64
	// Volatile says that the same inputs may render something else, Incomplete that a part could not be rendered.
	Volatile, Incomplete bool
	// Failure is why the content is not what is declared, or not what the sources hold now; nil where it is.
	Failure *plan.Problem
}

// Revision is a source as it was used.
type Revision struct{ Name, Digest string }

// again says that rendering it once more would give the same, as far as anybody knows: nothing stands from before a failure.
func (r *Result[C]) again() bool { return r.Failure == nil && !r.Incomplete }

// Rendered says that there is content, of this job or of an earlier one.
func (r *Result[C]) Rendered() bool { return r != nil && r.Inputs != "" }

// Retry implements controller.Retryable.
func (r *Result[C]) Retry() time.Duration {
	switch {
	case r.Failure == nil && !r.Incomplete:
		return 0
	case r.Failure != nil && r.Failure.Class != plan.Terminal:
		return controller.RetryPassing
	}
	return controller.RetryLasting
}

// Cause implements controller.Failing.
func (r *Result[C]) Cause() string {
	if r.Failure == nil {
		return ""
	}
	return r.Failure.Reason
}

// With is the result with another failure. It is the same pointer where nothing changes, so that the plan stays the same too.
func (r *Result[C]) With(failure *plan.Problem) *Result[C] {
	switch {
	case r == nil:
		return &Result[C]{Failure: failure}
	case r.Failure == failure, r.Failure != nil && failure != nil && *r.Failure == *failure:
		return r
	}
	out := *r
	out.Failure = failure
	return &out
}

// StaysDeclared ends the message of a problem beside which there is content.
const StaysDeclared = "; what was rendered before stays declared"

// Report is the failure as the status reports it, where the content is current or not: that of what is declared now. A failure that
// may pass is a warning alone beside current content, since nothing but something newer is missing.
func (r *Result[C]) Report(current bool) (problem *plan.Problem, warning string) {
	switch {
	case r.Failure == nil:
		return nil, ""
	case r.Failure.Reason == plan.ReasonFetching && r.Rendered() && current:
		// The repositories were asked, and what they gave could not be rendered.
		return nil, "what was rendered before is used: " + r.Failure.Advice()
	case r.Failure.Class == plan.Waiting && r.Rendered() && current:
		return nil, "what the repositories gave before is used, since they cannot be asked now: " + r.Failure.Advice()
	}
	out := *r.Failure
	if r.Rendered() {
		out.Message += StaysDeclared
	}
	return &out, ""
}
