package tfserving

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/scrape"
)

// stageServer is the only stage: nothing of a Tfserv has to wait for anything else of it.
const stageServer = "server"

// renderer is one rendering: what the children are made of, and the plan so far.
type renderer struct {
	settings Settings
	cr       *v1alpha1.Tfserv
	facts    Facts
	configs  configs
	plan     plan.Plan
	objects  []plan.Object
}

// Render renders the children. It is pure.
func (s *system) Render(cr *v1alpha1.Tfserv, facts Facts) plan.Plan {
	r := &renderer{settings: s.settings, cr: cr, facts: facts}
	r.plan.Problems = slices.Clone(facts.Problems)
	r.plan.Inputs = inputsOf(facts)
	if facts.Running != nil {
		r.plan.AppliedInputs = facts.Running.Inputs
	}
	r.checkPaths()
	r.checkInterval()
	if len(r.plan.Problems) > 0 && facts.Running != nil {
		r.cr = withPorts(cr, facts.Ports)
	}
	r.service()
	r.exposure()
	r.disruption()
	if len(r.plan.Problems) == 0 {
		r.configuration()
		r.deployment()
		r.warnings()
		r.autoscaler()
		r.monitor()
		r.keep()
	}
	r.canary()
	r.plan.Stages = []plan.Stage{{Name: stageServer, Objects: r.objects}}
	r.plan.SetDeletionPolicy(cr.Spec.DeletionPolicy)
	return r.plan
}

// inputsOf tells apart what users' objects give the pods: as it was read, so that another version of MLKeeper, which may print or arrange
// it otherwise, finds the same.
func inputsOf(facts Facts) string {
	inputs := map[string]string{"config": facts.Source, "credentials": facts.CredentialsFile + " " + facts.CredentialsDigest}
	if facts.Restart != "" {
		inputs["restart"] = facts.Restart
	}
	return hashOf(inputs)
}

// withPorts is a custom resource with the ports of its Service as they are: while a problem has the pods stay as they are, whatever leads to them
// leads to the ports that they have.
func withPorts(cr *v1alpha1.Tfserv, ports map[string]Port) *v1alpha1.Tfserv {
	out := cr.DeepCopy()
	if rest, found := ports[restPortName]; found {
		out.Spec.RestPort = ptr.To(int32(rest.Port)) //nolint:gosec // The API server has checked that it is a port.
	}
	if grpc, found := ports[grpcPortName]; found {
		out.Spec.GrpcPort = ptr.To(int32(grpc.Port)) //nolint:gosec // The API server has checked that it is a port.
	}
	return out
}

func (r *renderer) add(o plan.Object) { r.objects = append(r.objects, o) }

// wake has the plan made again at a time, or before.
func (r *renderer) wake(at time.Time) {
	if r.plan.WakeAt.IsZero() || at.Before(r.plan.WakeAt) {
		r.plan.WakeAt = at
	}
}

func (r *renderer) problem(class plan.Class, reason, field, value, message, remedy string) {
	r.plan.Problems = append(r.plan.Problems, plan.Problem{
		Class: class, Reason: reason, Field: field, Value: value, Message: message, Remedy: remedy,
	})
}

func (r *renderer) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(r.plan.Warnings) < maxWarnings && !slices.Contains(r.plan.Warnings, text) {
		r.plan.Warnings = append(r.plan.Warnings, text)
	}
}

func (r *renderer) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: r.cr.Namespace, Labels: podLabels(r.cr)}
}

// checkPaths finds two volumes at one path, which the schema sees only where neither is a default.
func (r *renderer) checkPaths() {
	taken := map[string]string{}
	for _, at := range r.mountPaths() {
		folder := strings.TrimRight(at.path, "/")
		if other := taken[folder]; other != "" {
			r.problem(plan.Terminal, reasonPathTaken, at.field, at.path, "is the path of "+other+" too", "choose another path for one of the two")
			continue
		}
		taken[folder] = at.field
	}
	if _, written := parameters(r.cr)[configFile(r.cr)]; written {
		r.problem(plan.Terminal, reasonPathTaken, "spec.configFileName", configFile(r.cr), "is the name of a file that MLKeeper writes",
			"choose another name")
	}
}

// checkInterval refuses a scrape interval that the schema refuses too, but not in what was stored before.
func (r *renderer) checkInterval() {
	if spec := r.cr.Spec.Monitoring; spec != nil && spec.Interval != "" {
		if err := scrape.Interval(spec.Interval); err != nil {
			r.problem(plan.Terminal, "InvalidInterval", "spec.monitoring.interval", spec.Interval, err.Error(), "set a duration of 1s or more, such as 30s")
		}
	}
}

type mountPath struct{ field, path string }

func (r *renderer) mountPaths() []mountPath {
	out := []mountPath{{"spec.configFileLocation", configPath(r.cr)}}
	if usesSecret(r.cr) {
		out = append(out, mountPath{"spec.secretFileLocation", secretPath(r.cr)})
	}
	if v := r.cr.Spec.ModelVolume; v != nil {
		out = append(out, mountPath{"spec.modelVolume.mountPath", cmp.Or(v.MountPath, defaultModelPath)})
	}
	return out
}
