package health

import "testing"

const (
	refused = `{type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'pods "w-x1" is forbidden: quota'}`
	rolled  = `{type: Progressing, status: "True", reason: NewReplicaSetAvailable}, {type: Available, status: "True"}`
)

var workloadSamples = []sample{
	{
		"current", "apps/v1 Deployment", `
metadata: {generation: 2}
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, conditions: [` + rolled + `]}`,
		Current, "Available", "",
	},
	{"replicas not given", "apps/v1 Deployment", `
spec: {}
status: {observedGeneration: 1, replicas: 0}`, InProgress, "LessUpdated", ""},
	{"zero replicas", "apps/v1 Deployment", `
metadata: {generation: 1}
spec: {replicas: 0}
status: {observedGeneration: 1, conditions: [` + rolled + `]}`, Current, "Available", ""},
	{"new", "apps/v1 Deployment", `
metadata: {generation: 1}
spec: {replicas: 0}`, InProgress, ReasonNotObserved, ""},
	{
		"edited", "apps/v1 Deployment", `
metadata: {generation: 3}
status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1}`,
		InProgress, ReasonNotObserved, "",
	},
	{
		"deadline", "apps/v1 Deployment", `
status: {observedGeneration: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`,
		Failed, "ProgressDeadlineExceeded", "",
	},
	{"old pods", "apps/v1 Deployment", `
spec: {replicas: 2}
status: {observedGeneration: 1, replicas: 3, updatedReplicas: 2, availableReplicas: 3}`, InProgress, "ExtraPods", ""},
	{"too many pods", "apps/v1 Deployment", `
spec: {replicas: 1}
status: {observedGeneration: 1, replicas: 3, updatedReplicas: 3, availableReplicas: 3}`, InProgress, "ExtraPods", ""},
	{"less available", "apps/v1 Deployment", `
spec: {replicas: 2}
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 1}`, InProgress, "LessAvailable", ""},
	{"quota", "apps/v1 Deployment", `
spec: {replicas: 2}
status: {observedGeneration: 1, conditions: [` + refused + `]}`, InProgress, "FailedCreate", ""},
	{"quota of a surge", "apps/v1 Deployment", `
spec: {replicas: 2}
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 0, readyReplicas: 2, availableReplicas: 2, conditions: [` + refused + `]}`, InProgress, "FailedCreate", ""},
	{"quota of more than is declared", "apps/v1 Deployment", `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, conditions: [` + rolled + ", " + refused + `]}`, Current, "Available", ""},
	{
		"paused and available", "apps/v1 Deployment", `
spec: {replicas: 1, paused: true, progressDeadlineSeconds: 600}
status: {observedGeneration: 1, replicas: 1, availableReplicas: 1, readyReplicas: 1, conditions: [{type: Progressing, status: Unknown, reason: DeploymentPaused}]}`,
		Current, ReasonPaused, "a held rollout is what the owner declares",
	},
	{"paused when new", "apps/v1 Deployment", `
spec: {replicas: 1, paused: true}
status: {observedGeneration: 1}`, InProgress, ReasonPaused, ""},
	{"wrong types", "apps/v1 Deployment", `
spec: {replicas: "2", paused: "yes"}
status: {observedGeneration: 1, replicas: {}, updatedReplicas: [1]}`, InProgress, "LessUpdated", ""},
	{"old group", "extensions/v1beta1 Deployment", `status: {observedGeneration: 1}`, InProgress, "LessUpdated", ""},
	{"same name elsewhere", "apps.example/v1 Deployment", `spec: {replicas: 3}`, Current, ReasonExists, ""},

	{"current", "apps/v1 ReplicaSet", `
spec: {replicas: 2}
status: {observedGeneration: 1, replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 2, availableReplicas: 2}`, Current, "Available", ""},
	{"new", "apps/v1 ReplicaSet", `spec: {replicas: 1}`, InProgress, ReasonNotObserved, ""},
	{"quota", "apps/v1 ReplicaSet", `status: {observedGeneration: 1, conditions: [` + refused + `]}`, InProgress, "FailedCreate", ""},
	{"less ready", "apps/v1 ReplicaSet", `status: {observedGeneration: 1, replicas: 1}`, InProgress, "LessReady", ""},
	{"less available", "apps/v1 ReplicaSet", `status: {observedGeneration: 1, replicas: 1, readyReplicas: 1}`, InProgress, "LessAvailable", ""},
	{"extra", "apps/v1 ReplicaSet", `
spec: {replicas: 0}
status: {observedGeneration: 1, replicas: 1}`, InProgress, "ExtraPods", ""},
	{"zero", "v1 ReplicationController", `
spec: {replicas: 0}
status: {observedGeneration: 1, replicas: 0}`, Current, "Available", ""},
	{
		"less ready", "v1 ReplicationController", `status: {observedGeneration: 1, replicas: 1}`, InProgress, "LessReady",
		"kstatus has no rule",
	},

	{
		"current", "apps/v1 StatefulSet", `
spec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}
status: {observedGeneration: 1, replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 2, updatedReplicas: 2, currentRevision: a, updateRevision: a}`,
		Current, "Available", "",
	},
	{"no availability reported", "apps/v1 StatefulSet", `
spec: {replicas: 1}
status: {observedGeneration: 1, replicas: 1, readyReplicas: 1, currentReplicas: 1, updatedReplicas: 1}`, Current, "Available", ""},
	{"new", "apps/v1 StatefulSet", `metadata: {generation: 1}`, InProgress, ReasonNotObserved, ""},
	{"less", "apps/v1 StatefulSet", `status: {observedGeneration: 1}`, InProgress, "LessReplicas", ""},
	{"less ready", "apps/v1 StatefulSet", `status: {observedGeneration: 1, replicas: 1}`, InProgress, "LessReady", ""},
	{
		"less available", "apps/v1 StatefulSet", `
status: {observedGeneration: 1, replicas: 1, readyReplicas: 1, availableReplicas: 0, currentReplicas: 1, updatedReplicas: 1}`,
		InProgress, "LessAvailable", "kstatus does not read minReadySeconds' count",
	},
	{"extra", "apps/v1 StatefulSet", `
spec: {replicas: 0}
status: {observedGeneration: 1, replicas: 1}`, InProgress, "ExtraPods", ""},
	{
		"rolling", "apps/v1 StatefulSet", `
spec: {replicas: 3}
status: {observedGeneration: 1, replicas: 3, readyReplicas: 3, currentReplicas: 2, updatedReplicas: 1, currentRevision: a, updateRevision: b}`,
		InProgress, "LessUpdated", "",
	},
	{
		"not concluded", "apps/v1 StatefulSet", `
spec: {replicas: 1}
status: {observedGeneration: 1, replicas: 1, readyReplicas: 1, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b}`,
		InProgress, "RevisionMismatch", "",
	},
	{
		"partition reached", "apps/v1 StatefulSet", `
spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}
status: {observedGeneration: 1, replicas: 3, readyReplicas: 3, currentReplicas: 2, updatedReplicas: 1, currentRevision: a, updateRevision: b}`,
		Current, "Available", "",
	},
	{"partition not reached", "apps/v1 StatefulSet", `
spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}
status: {observedGeneration: 1, replicas: 3, readyReplicas: 3, currentReplicas: 2, updatedReplicas: 1}`, InProgress, "LessUpdated", ""},
	{"partition beyond", "apps/v1 StatefulSet", `
spec: {replicas: 1, updateStrategy: {rollingUpdate: {partition: 9223372036854775807}}}
status: {observedGeneration: 1, replicas: 1, readyReplicas: 1}`, Current, "Available", ""},
	{
		"on delete", "apps/v1 StatefulSet", `
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 1, replicas: 1, readyReplicas: 1, updatedReplicas: 0, currentRevision: a, updateRevision: b}`,
		Current, "Available", "",
	},
	{"on delete, not ready", "apps/v1 StatefulSet", `
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 1, replicas: 1, readyReplicas: 0}`, InProgress, "LessReady", "OnDelete is about updates only"},

	{
		"current", "apps/v1 DaemonSet", `
metadata: {generation: 1}
status: {observedGeneration: 1, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberReady: 2, numberAvailable: 2}`,
		Current, "Available", "",
	},
	{"no node", "apps/v1 DaemonSet", `
metadata: {generation: 1}
status: {observedGeneration: 1, desiredNumberScheduled: 0}`, Current, "Available", ""},
	{"new", "apps/v1 DaemonSet", `metadata: {generation: 1}`, InProgress, ReasonNotObserved, ""},
	{"not counted", "apps/v1 DaemonSet", `status: {observedGeneration: 1}`, InProgress, ReasonNotObserved, ""},
	{"less", "apps/v1 DaemonSet", `status: {observedGeneration: 1, desiredNumberScheduled: 1}`, InProgress, "LessReplicas", ""},
	{"less updated", "apps/v1 DaemonSet", `
status: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1}`, InProgress, "LessUpdated", ""},
	{
		"less ready", "apps/v1 DaemonSet", `
status: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1}`,
		InProgress, "LessReady", "",
	},
	{
		"less available", "apps/v1 DaemonSet", `
status: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1, numberReady: 1}`,
		InProgress, "LessAvailable", "",
	},
	{
		"on delete", "apps/v1 DaemonSet", `
metadata: {generation: 1}
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1, numberReady: 1, numberAvailable: 1}`,
		Current, "Available", "with OnDelete, kstatus waits for an update that the owner makes",
	},
}

func TestWorkloads(t *testing.T) { check(t, workloadSamples) }

// TestUncreated: who looks at the pods of a Deployment finds none that would say why there are too few.
func TestUncreated(t *testing.T) {
	for status, want := range map[string]string{
		"{updatedReplicas: 0, availableReplicas: 2, conditions: [" + refused + "]}":    "pods is forbidden: quota",
		"{updatedReplicas: 2, availableReplicas: 2, conditions: [" + refused + "]}":    "",
		"{conditions: [{type: ReplicaFailure, status: 'True', reason: FailedDelete}]}": "",
		"{conditions: []}": "",
	} {
		s := sample{kind: "apps/v1 Deployment", body: "spec: {replicas: 2}\nstatus: " + status}
		if got := Uncreated(s.object(t)); got != want {
			t.Errorf("%s: %q", status, got)
		}
	}
}
