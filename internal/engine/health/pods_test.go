package health

import "testing"

const notScheduled = `status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: `

var podSamples = []sample{
	{"new", "v1 Pod", ``, InProgress, ReasonNotReady, ""},
	{"ready", "v1 Pod", `status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`, Current, ReasonReady, ""},
	{"running", "v1 Pod", `status: {phase: Running}`, InProgress, ReasonNotReady, ""},
	{
		"succeeded", "v1 Pod", `status: {phase: Succeeded, conditions: [{type: Ready, status: "False", reason: PodCompleted}]}`,
		Current, "Succeeded", "",
	},
	{"failed", "v1 Pod", `status: {phase: Failed}`, Failed, "PodFailed", "kstatus takes a failed Pod for current"},
	{"evicted", "v1 Pod", `status: {phase: Failed, reason: Evicted}`, Failed, "Evicted", "kstatus takes a failed Pod for current"},
	{
		"crash loop", "v1 Pod", `
status:
  phase: Running
  containerStatuses:
  - {name: a, state: {running: {}}}
  - {name: b, state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s restarting failed container}}}`,
		Failed, "CrashLoopBackOff", "",
	},
	{
		"crash loop of an init container", "v1 Pod", `
status: {phase: Pending, initContainerStatuses: [{name: a, state: {waiting: {reason: CrashLoopBackOff}}}]}`,
		Failed, "CrashLoopBackOff", "kstatus reads only the main containers of a running Pod",
	},
	{
		"image backoff", "v1 Pod", `
status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ImagePullBackOff}}}]}`,
		Failed, "ImagePullBackOff", "kstatus does not read why a Pod is pending",
	},
	{
		"image error", "v1 Pod", `
status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ErrImagePull}}}]}`,
		Failed, "ImagePullBackOff", "kstatus does not read why a Pod is pending",
	},
	{
		"no such Secret", "v1 Pod", `
status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: CreateContainerConfigError}}}]}`,
		Failed, "CreateContainerConfigError", "kstatus does not read why a Pod is pending",
	},
	{
		"creating", "v1 Pod", `
status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ContainerCreating}}}]}`,
		InProgress, ReasonNotReady, "",
	},
	{"unschedulable", "v1 Pod", notScheduled + `Unschedulable}]}`, InProgress, "Unschedulable", "kstatus reads the clock"},
	{"gated", "v1 Pod", notScheduled + `SchedulingGated}]}`, InProgress, "SchedulingGated", ""},
	{"node lost", "v1 Pod", `status: {phase: Unknown}`, Unknown, "NodeLost", "kstatus refuses the object"},
	{"strange phase", "v1 Pod", `status: {phase: Dancing}`, Unknown, ReasonMalformed, "kstatus refuses the object"},
	{"resized", "v1 Pod", `
metadata: {generation: 2}
status: {observedGeneration: 1, phase: Running, conditions: [{type: Ready, status: "True"}]}`, InProgress, ReasonNotObserved, ""},
	{
		"containers of wrong types", "v1 Pod", `
status: {phase: Pending, containerStatuses: [7, {state: 7}, {state: {waiting: [7]}}, {state: {waiting: {reason: 7}}}], initContainerStatuses: {}}`,
		InProgress, ReasonNotReady, "",
	},

	{"new", "batch/v1 Job", ``, InProgress, "Running", ""},
	{
		"running", "batch/v1 Job", `status: {active: 1, startTime: "2026-01-01T00:00:00Z"}`, InProgress, "Running",
		"who waits for a Job waits for its end",
	},
	{"complete", "batch/v1 Job", `status: {succeeded: 1, conditions: [{type: Complete, status: "True"}]}`, Current, "Complete", ""},
	{
		"failed", "batch/v1 Job", `status: {conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: It failed.}]}`,
		Failed, "BackoffLimitExceeded", "",
	},
	{
		"failing", "batch/v1 Job", `status: {active: 1, conditions: [{type: FailureTarget, status: "True", reason: DeadlineExceeded}]}`,
		Failed, "DeadlineExceeded", "kstatus waits for Failed",
	},
	{
		"suspended", "batch/v1 Job", `
spec: {suspend: true}
status: {conditions: [{type: Suspended, status: "True", reason: JobSuspended}]}`, Current, ReasonSuspended,
		"kstatus waits for the start of what is not to start",
	},
	{"being suspended", "batch/v1 Job", `
spec: {suspend: true}
status: {active: 2}`, InProgress, ReasonSuspended, ""},
	{"resumed", "batch/v1 Job", `
spec: {suspend: false}
status: {conditions: [{type: Suspended, status: "False", reason: JobResumed}]}`, InProgress, "Running", ""},
	{"suspended", "batch/v1 CronJob", `spec: {suspend: true}`, Current, ReasonExists, ""},
	{"running", "batch/v1 CronJob", `status: {active: [{name: a}]}`, Current, ReasonExists, ""},
}

func TestPodsAndJobs(t *testing.T) { check(t, podSamples) }

func TestStuckReasonsAreExplained(t *testing.T) {
	for from, reason := range stuck {
		if stuckMessage[reason] == "" || stuck[reason] != reason {
			t.Errorf("%s is reported as %s, which is not explained", from, reason)
		}
	}
}
