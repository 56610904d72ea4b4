//go:build realoriginal

package original

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mlkeeper.dev/test/cluster"
)

// settled is how long nothing may change until the state counts.
const settled = 5 * time.Second

func namespaces() []string {
	found := map[string]bool{}
	for _, one := range services {
		found[one.namespace] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// state is what must not change, one line for each object: the pods, of models too, with the starts and restarts of their containers, the
// ReplicaSets and the claims.
func (s *site) state() string {
	s.t.Helper()
	var lines []string
	for _, pod := range s.pods() {
		line := fmt.Sprintf("pod %s/%s %s start=%s deleted=%t", pod.Namespace, pod.Name, pod.UID, startOf(&pod), pod.DeletionTimestamp != nil)
		for _, container := range pod.Status.ContainerStatuses {
			started := ""
			if container.State.Running != nil {
				started = container.State.Running.StartedAt.UTC().Format(time.TimeOnly)
			}
			line += fmt.Sprintf(" %s=%s,%d restarts", container.Name, started, container.RestartCount)
		}
		lines = append(lines, line)
	}
	for _, namespace := range namespaces() {
		out := s.c.Kubectl(s.t, "-n", namespace, "get", "replicasets,persistentvolumeclaims", "-o",
			"jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.uid} {.spec.replicas}{.spec.volumeName} {.status.phase}{'\\n'}{end}")
		lines = append(lines, strings.Split(strings.TrimSpace(out), "\n")...)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// settle returns the state once nothing of it has changed for a while.
func (s *site) settle() string {
	s.t.Helper()
	state, since := "", time.Now()
	cluster.Eventually(s.t, patience, func() error {
		if now := s.state(); now != state {
			state, since = now, time.Now()
		}
		if time.Since(since) < settled {
			return fmt.Errorf("it still changes:\n%s", state)
		}
		return nil
	})
	return state
}

// unchanged compares the state with one of before.
func (s *site) unchanged(before, when string) {
	s.t.Helper()
	now := s.settle()
	was, is := strings.Split(before, "\n"), strings.Split(now, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			s.t.Errorf("%s: gone: %s", when, line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			s.t.Errorf("%s: new: %s", when, line)
		}
	}
}

// startOf is when the kubelet took a pod.
func startOf(pod *corev1.Pod) string {
	if pod.Status.StartTime == nil {
		return ""
	}
	return pod.Status.StartTime.UTC().Format(time.TimeOnly)
}

// startTimes are the starts of the pods of the services, by their UIDs.
func (s *site) startTimes() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, pod := range s.pods() {
		out[string(pod.UID)] = startOf(&pod)
	}
	return out
}

// table prints the pods of the services with their starts before and now.
func (s *site) table(before map[string]string) {
	s.t.Helper()
	text := &strings.Builder{}
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SERVICE\tNAMESPACE\tVERSION\tPOD\tSTART BEFORE\tSTART AFTER\tRESTARTS")
	for _, one := range services {
		for _, pod := range s.pods() {
			if pod.Namespace != one.namespace || pod.Labels["app.kubernetes.io/instance"] != one.name {
				continue
			}
			restarts := int32(0)
			for _, container := range pod.Status.ContainerStatuses {
				restarts += container.RestartCount
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n",
				one.name, one.namespace, one.version, pod.UID, before[string(pod.UID)], startOf(&pod), restarts)
		}
	}
	_ = w.Flush()
	s.t.Logf("\n%s", text)
}
