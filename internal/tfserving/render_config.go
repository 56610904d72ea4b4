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
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// templateAnnotation records on the Deployment which form its pod template has. Without it, and without inputsAnnotation, of which somebody may have
// taken one away, the template is of an earlier version of MLKeeper: it keeps that form until it changes anyway, so that an upgrade restarts no pod.
const (
	templateAnnotation = keeper.AnnotationPrefix + "template"
	templateForm       = "2"
)

// configs are the ConfigMaps that the pods read.
type configs struct {
	// ownName is the immutable ConfigMap that MLKeeper makes; empty where it makes none.
	ownName string
	// file is the ConfigMap with the model config, parameters the one with batching and monitoring; empty for neither.
	file, parameters string
	// hash is that of everything that the server reads from files of configuration, podHash that of what it reads once.
	hash, podHash string
	// earlier says that the template has the form of an earlier version.
	earlier bool
}

// configuration renders the ConfigMaps of the pods. They hold the model config as it was checked, also where that of the owner's ConfigMap
// was: a pod that starts after that was broken reads what the others run. The name of an immutable one follows from its content, so
// that pods of an older template keep theirs.
func (r *renderer) configuration() {
	file, parameters := configFile(r.cr), parameters(r.cr)
	all := configFiles(r.cr, r.facts.ConfigText)
	c := &r.configs
	c.hash = configHash(r.cr, r.facts.ConfigText)
	c.podHash = c.hash
	if polls(r.cr, r.facts) {
		c.podHash = hashOf(parameters)
		c.file = liveName(r.cr)
		meta := r.meta(c.file)
		if r.facts.Left != "" {
			meta.Annotations = map[string]string{leftAnnotation: r.facts.Left}
		}
		r.add(plan.Typed(gvkConfigMap, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{file: r.facts.ConfigText}}))
		r.immutable(parameters)
		return
	}
	running := r.facts.Running
	c.earlier = running != nil && running.Hash == c.hash && running.Template == "" && running.Inputs == ""
	if c.earlier && !r.facts.ConfigOwn {
		c.file = r.cr.Spec.ConfigMap
		r.immutable(parameters)
		return
	}
	r.immutable(all)
	c.file = c.ownName
	if len(parameters) == 0 {
		c.parameters = ""
	}
}

// immutable renders the ConfigMap of files that are read once.
func (r *renderer) immutable(files map[string]string) {
	c := &r.configs
	if len(files) == 0 {
		return
	}
	c.ownName = configPrefix(r.cr) + hashOf(files)[:8]
	c.parameters = c.ownName
	r.add(plan.Typed(gvkConfigMap, &corev1.ConfigMap{ObjectMeta: r.meta(c.ownName), Immutable: ptr.To(true), Data: files}))
}

// parameters are the files that MLKeeper writes beside the model config.
func parameters(cr *v1alpha1.Tfserv) map[string]string {
	out := map[string]string{}
	if b := cr.Spec.Batching; b != nil {
		out[batchingFile] = batching(b)
	}
	if m := cr.Spec.Monitoring; m != nil {
		out[monitoringFile] = fmt.Sprintf("prometheus_config {\n  enable: true\n  path: %q\n}\n", cmp.Or(m.Path, defaultMetrics))
	}
	return out
}

// configFiles are all files of configuration, with a model config.
func configFiles(cr *v1alpha1.Tfserv, text string) map[string]string {
	out := parameters(cr)
	out[configFile(cr)] = text
	return out
}

// configHash is the hash of the configuration with a model config.
func configHash(cr *v1alpha1.Tfserv, text string) string { return hashOf(configFiles(cr, text)) }

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
	if running == nil || running.Current && running.Config == r.configs.uses() && running.Hash == r.configs.hash {
		return
	}
	for _, e := range r.cr.Status.Inventory.Entries {
		if e.Kind != gvkConfigMap.Kind || e.Group != "" || !strings.HasPrefix(e.Name, configPrefix(r.cr)) {
			continue
		}
		if e.Name != r.configs.ownName && e.Name != r.configs.file {
			r.plan.Keep = append(r.plan.Keep, plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: e.Namespace, Name: e.Name})
		}
	}
}

// uses is the ConfigMap of ours that the Deployment is recorded to use.
func (c configs) uses() string {
	if c.earlier {
		return c.ownName
	}
	return cmp.Or(c.ownName, c.file)
}

// polls says that servers that run read the model config again. A model that is downloaded before the server starts needs another pod.
func polls(cr *v1alpha1.Tfserv, facts Facts) bool {
	return cr.Spec.ConfigReload == v1alpha1.ConfigPoll && len(facts.Downloads) == 0
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
