package decide

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// InOrder sorts what a pass writes in the order of Helm's InstallOrder as far as it matters to pods: what they refer to, Services,
// whose addresses are in their environment, the workloads, and then what only a controller or the API server reads. A pod that
// starts before its ServiceAccount or ConfigMap fails and waits. Within a rank the order is that of the stages; what is deleted
// comes after everything else. InOrder returns how many of them pods may refer to.
func InOrder(writes []Action) (referred int) {
	slices.SortStableFunc(writes, func(a, b Action) int { return a.rank() - b.rank() })
	if i := slices.IndexFunc(writes, func(a Action) bool { return a.rank() > rankReferred }); i >= 0 {
		return i
	}
	return len(writes)
}

// The ranks of kinds.
const (
	rankReferred = iota
	// CustomResourceDefinitions and Services may take the API server seconds, in which workloads are not to wait.
	rankDefinition
	rankService
	rankWorkload
	rankOther
	rankDeleted
)

// rank is where an action stands in the order.
func (a Action) rank() int {
	switch {
	case a.Verb == Delete:
		return rankDeleted
	case workloads[a.Key.GroupKind]:
		return rankWorkload
	case a.Key.GroupKind == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return rankDefinition
	case a.Key.GroupKind == schema.GroupKind{Kind: "Service"}:
		return rankService
	case strings.Contains(a.Key.Group, ".") && !early[a.Key.Group]:
		return rankOther
	}
	return rankReferred
}

// workloads are the kinds of Kubernetes that make pods.
var workloads = map[schema.GroupKind]bool{
	{Kind: "Pod"}:                        true,
	{Kind: "ReplicationController"}:      true,
	{Group: "apps", Kind: "Deployment"}:  true,
	{Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "apps", Kind: "DaemonSet"}:   true,
	{Group: "apps", Kind: "ReplicaSet"}:  true,
	{Group: "batch", Kind: "Job"}:        true,
	{Group: "batch", Kind: "CronJob"}:    true,
}

// early are the API groups with a dot in their names whose kinds pods or other objects need.
var early = map[string]bool{
	"networking.k8s.io":         true,
	"rbac.authorization.k8s.io": true,
	"scheduling.k8s.io":         true,
	"storage.k8s.io":            true,
}
