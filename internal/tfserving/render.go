package tfserving

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// stageServer is the only stage: nothing of a Tfserv has to wait for anything else of it.
const stageServer = "server"

// renderer is one rendering: what the children are made of, and the plan so far.
type renderer struct {
	settings Settings
	cr       *v1alpha1.Tfserv
	facts    Facts
	// own is the content of the ConfigMap that MLKeeper makes, ownName its name; empty where it makes none.
	own     map[string]string
	ownName string
	// hash is that of everything that the server reads from files of configuration.
	hash    string
	plan    plan.Plan
	objects []plan.Object
}

// Render renders the children. It is pure.
func (s *system) Render(cr *v1alpha1.Tfserv, facts Facts) plan.Plan {
	r := &renderer{settings: s.settings, cr: cr, facts: facts}
	r.plan.Problems = slices.Clone(facts.Problems)
	r.plan.Inputs = inputsOf(facts)
	r.checkPaths()
	r.service()
	r.disruption()
	if len(r.plan.Problems) == 0 {
		r.configuration()
		r.deployment()
		r.autoscaler()
		r.monitor()
		r.keep()
	}
	r.plan.Stages = []plan.Stage{{Name: stageServer, Objects: r.objects}}
	r.plan.SetDeletionPolicy(cr.Spec.DeletionPolicy)
	return r.plan
}

// inputsOf tells apart what users' objects give the pods.
func inputsOf(facts Facts) string {
	sum := sha256.Sum256([]byte(facts.ConfigText))
	return fmt.Sprintf("%x %s %s %q", sum, facts.CredentialsFile, facts.CredentialsDigest, facts.Downloads)
}

func (r *renderer) add(o plan.Object) { r.objects = append(r.objects, o) }

func (r *renderer) problem(class plan.Class, reason, field, value, message, remedy string) {
	r.plan.Problems = append(r.plan.Problems, plan.Problem{
		Class: class, Reason: reason, Field: field, Value: value, Message: message, Remedy: remedy,
	})
}

func (r *renderer) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.plan.Warnings, text) {
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

// configuration renders the ConfigMap of what MLKeeper writes itself. Its name follows from its content, so that pods of
// an older template keep theirs.
func (r *renderer) configuration() {
	r.own = map[string]string{}
	if r.facts.ConfigOwn {
		r.own[configFile(r.cr)] = r.facts.ConfigText
	}
	if b := r.cr.Spec.Batching; b != nil {
		r.own[batchingFile] = batching(b)
	}
	if m := r.cr.Spec.Monitoring; m != nil {
		r.own[monitoringFile] = fmt.Sprintf("prometheus_config {\n  enable: true\n  path: %q\n}\n", cmp.Or(m.Path, defaultMetrics))
	}
	all := maps.Clone(r.own)
	all[configFile(r.cr)] = r.facts.ConfigText
	r.hash = hashOf(all)
	if len(r.own) == 0 {
		return
	}
	r.ownName = configPrefix(r.cr) + hashOf(r.own)[:8]
	r.add(plan.Typed(gvkConfigMap, &corev1.ConfigMap{ObjectMeta: r.meta(r.ownName), Immutable: ptr.To(true), Data: r.own}))
}

// hashOf is a hash of files.
func hashOf(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// keep leaves the ConfigMaps of older templates until no pod can need them any more.
func (r *renderer) keep() {
	running := r.facts.Running
	if running == nil || running.Current && running.Config == r.ownName && running.Hash == r.hash {
		return
	}
	for _, e := range r.cr.Status.Inventory.Entries {
		if e.Kind == gvkConfigMap.Kind && e.Group == "" && e.Name != r.ownName && strings.HasPrefix(e.Name, configPrefix(r.cr)) {
			r.plan.Keep = append(r.plan.Keep, plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: e.Namespace, Name: e.Name})
		}
	}
}

// batching prints the batching parameters as text proto (BatchingParameters in session_bundle_config.proto).
func batching(b *v1alpha1.BatchingSpec) string {
	var out strings.Builder
	for _, f := range []struct {
		name  string
		value *int64
	}{
		{"max_batch_size", b.MaxBatchSize},
		{"batch_timeout_micros", b.BatchTimeoutMicros},
		{"max_enqueued_batches", b.MaxEnqueuedBatches},
		{"num_batch_threads", b.NumBatchThreads},
	} {
		if f.value != nil {
			fmt.Fprintf(&out, "%s { value: %d }\n", f.name, *f.value)
		}
	}
	for _, size := range b.AllowedBatchSizes {
		fmt.Fprintf(&out, "allowed_batch_sizes: %d\n", size)
	}
	if b.PadVariableLengthInputs {
		out.WriteString("pad_variable_length_inputs: true\n")
	}
	return out.String()
}

// service renders the Service of the tutorial: the ports rest and grpc, in this order. What the API server allocates is
// not declared, so that it survives every update (defect 6); only where the number of a port changes, its nodePort is
// asked for again, since the API server finds it by that number.
func (r *renderer) service() {
	port := func(name string, number int32) corev1.ServicePort {
		p := corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP}
		if was, found := r.facts.Ports[name]; found && was.Port != int64(number) && r.serviceType() != corev1.ServiceTypeClusterIP {
			p.NodePort = int32(min(max(was.NodePort, 0), 65535)) //nolint:gosec // Bounded here.
		}
		return p
	}
	r.add(plan.Typed(gvkService, &corev1.Service{
		ObjectMeta: r.meta(serviceName(r.cr)),
		Spec: corev1.ServiceSpec{
			Ports:    []corev1.ServicePort{port("rest", restPort(r.cr)), port("grpc", grpcPort(r.cr))},
			Selector: podLabels(r.cr),
			Type:     r.serviceType(),
		},
	}))
}

func (r *renderer) serviceType() corev1.ServiceType {
	return cmp.Or(r.cr.Spec.ServiceType, corev1.ServiceTypeNodePort)
}
