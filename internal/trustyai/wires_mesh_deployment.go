package trustyai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/wiring"
)

const (
	meshLabel        = "modelmesh-service=modelmesh-serving"
	meshEnv          = "MM_PAYLOAD_PROCESSORS"
	meshTLSEnv       = "MM_TLS_KEY_CERT_PATH"
	meshTLSPath      = "/etc/trustyai/tls"
	meshTLSCert      = meshTLSPath + "/tls.crt"
	meshTLSContainer = "mm"
)

// Reasons why a ModelMesh Deployment is not wired.
const (
	ReasonEnvFromSource     = "EnvFromSource"
	ReasonMountPathConflict = "MountPathConflict"
	ReasonVolumeConflict    = "VolumeConflict"
	ReasonNoContainers      = "NoContainers"
)

// meshDetail is what an entry in a ModelMesh Deployment consists of. Volume and Secret are wanted; the rest tells which
// parts MLKeeper added, and so may take out.
type meshDetail struct {
	// Volume and Secret name the volume of a Secured service's certificate; empty for a Plain one.
	Volume string `json:"volume,omitempty"`
	Secret string `json:"secret,omitempty"`
	// AddedVolume says that the volume is ours.
	AddedVolume bool `json:"addedVolume,omitempty"`
	// Env are the containers whose list of payload processors we added the URL to, NewEnv those among them that had no
	// such variable, Mounts those we added the mount to, TLSEnv those we added MM_TLS_KEY_CERT_PATH to.
	Env    []string `json:"env,omitempty"`
	NewEnv []string `json:"newEnv,omitempty"`
	Mounts []string `json:"mounts,omitempty"`
	TLSEnv []string `json:"tlsEnv,omitempty"`
}

func meshDetailOf(detail string) meshDetail {
	var d meshDetail
	if json.Unmarshal([]byte(detail), &d) != nil {
		return meshDetail{}
	}
	return d
}

func (d meshDetail) text() string {
	raw, err := json.Marshal(d)
	if err != nil || string(raw) == "{}" {
		return ""
	}
	return string(raw)
}

// adds says that something of the entry is ours.
func (d meshDetail) adds() bool {
	return d.AddedVolume || len(d.Env)+len(d.Mounts)+len(d.TLSEnv) > 0
}

// meshDeploymentWire adds the service to the payload processors of ModelMesh's Deployments, as upstream does.
func meshDeploymentWire(clusterDomain string) wiring.Wire {
	return wiring.Wire{
		Name:          WireMeshDeployments,
		GVK:           gvkDeployment,
		LabelSelector: meshLabel,
		Strip:         stripMeshDeployment,
		Wanted: func(target *unstructured.Unstructured, alive []client.Object) []wiring.Entry {
			upstream := func(cr *v1.TrustyAIService) bool { return !ADRShape(cr) }
			cr := wirer(services(alive, upstream), recordedIn(target))
			if cr == nil {
				return nil
			}
			var d meshDetail
			if exposureNow(cr) == v1.ExposureSecured {
				d.Volume, d.Secret = ServiceName(cr)+meshVolumeSuffix, internalSecretNow(cr)
			}
			return []wiring.Entry{{Owner: ownerID(cr), Value: ConsumerURLIn(cr, clusterDomain), Detail: d.text()}}
		},
		Edit: editMeshDeployment,
	}
}

// maxMeshSpec is the number of bytes that are kept of the pods of a ModelMesh Deployment. A container with some payload processors needs less than
// a kilobyte.
const maxMeshSpec = 64 << 10

// stripMeshDeployment keeps what the edit looks at: of every container its name, the two variables and the mounts of certificates. Whoever may
// write a Deployment can give it ModelMesh's label, so that nothing is kept of pods that have too much of that: the edit then refuses them.
func stripMeshDeployment(u *unstructured.Unstructured) *unstructured.Unstructured {
	return stripTo(u, func(out *unstructured.Unstructured) {
		spec := map[string]any{}
		for _, field := range []string{"containers", "initContainers"} {
			var kept []any
			for _, c := range podItems(u, field) {
				kept = append(kept, stripMeshContainer(c))
			}
			if kept != nil {
				spec[field] = kept
			}
		}
		var volumes []any
		for _, v := range podItems(u, "volumes") {
			if isMeshVolume(v["name"]) {
				volumes = append(volumes, map[string]any{"name": v["name"], "secret": map[string]any{"secretName": secretOf(v)}})
			}
		}
		if volumes != nil {
			spec["volumes"] = volumes
		}
		if raw, err := json.Marshal(spec); err != nil || len(raw) > maxMeshSpec {
			spec = map[string]any{}
		}
		out.Object["spec"] = map[string]any{"template": map[string]any{"spec": spec}}
		// What ModelMeshReady is judged from.
		copyField(u, out, "spec", "replicas")
		for _, count := range []string{"observedGeneration", "replicas", "updatedReplicas", "availableReplicas"} {
			copyField(u, out, "status", count)
		}
	})
}

// stripMeshContainer is stripMeshDeployment for one container.
func stripMeshContainer(c map[string]any) map[string]any {
	out := map[string]any{"name": c["name"]}
	var env, mounts []any
	for _, name := range []string{meshEnv, meshTLSEnv} {
		e := envOf(c, name)
		if e == nil {
			continue
		}
		kept := map[string]any{"name": name}
		if value, found := e["value"]; found {
			kept["value"] = value
		}
		if from := e["valueFrom"]; from != nil {
			kept["valueFrom"] = shortened(from)
		}
		env = append(env, kept)
	}
	for _, m := range mapsIn(c["volumeMounts"]) {
		if m["mountPath"] == meshTLSPath || isMeshVolume(m["name"]) {
			mounts = append(mounts, map[string]any{"name": m["name"], "mountPath": m["mountPath"]})
		}
	}
	if env != nil {
		out["env"] = env
	}
	if mounts != nil {
		out["volumeMounts"] = mounts
	}
	return out
}

// meshVolumeSuffix is what the name of the volume of a certificate ends with.
const meshVolumeSuffix = "-internal"

// isMeshVolume says that a volume may be that of a certificate.
func isMeshVolume(name any) bool {
	text, _ := name.(string)
	return strings.HasSuffix(text, meshVolumeSuffix)
}

// editMeshDeployment makes all changes to one Deployment at once, for every update rolls its pods.
func editMeshDeployment(live *unstructured.Unstructured, recorded, wanted []wiring.Entry) (*unstructured.Unstructured, []wiring.Outcome, error) {
	p := podOf(live.DeepCopy())
	for _, r := range recorded {
		if !slices.ContainsFunc(wanted, func(w wiring.Entry) bool { return sameMeshEntry(r, w) }) {
			p.removeURL(r.Value, meshDetailOf(r.Detail))
		}
	}
	var outcomes []wiring.Outcome
	for _, w := range wanted {
		d, known := meshDetailOf(w.Detail), false
		for _, r := range recorded {
			if sameMeshEntry(r, w) {
				d, known = meshDetailOf(r.Detail), true
			}
		}
		out := wiring.Outcome{Entry: w, Wired: true, Reason: ReasonWired}
		if refusal := p.obstacle(d); refusal != nil {
			out.Wired, out.Reason, out.Message = false, refusal.reason, refusal.message
		} else {
			if !known && p.upstreamDid(w.Value, d) {
				p.adopt(w.Value, &d)
			}
			p.putIn(w.Value, &d)
		}
		if out.Record = d.adds(); out.Record {
			out.Entry.Detail = d.text()
		} else if out.Wired {
			out.Reason, out.Message = ReasonPreExisting, "every container sent its payloads there before; it stays when the service goes"
		}
		outcomes = append(outcomes, out)
	}
	if !p.changed {
		return nil, outcomes, nil
	}
	return p.object, outcomes, nil
}

// sameMeshEntry says that a recorded entry is the wanted one: same service, same URL, same certificate.
func sameMeshEntry(r, w wiring.Entry) bool {
	a, b := meshDetailOf(r.Detail), meshDetailOf(w.Detail)
	return r.Owner == w.Owner && r.Value == w.Value && a.Volume == b.Volume && a.Secret == b.Secret
}

// obstacle is why the entry cannot be added. Nothing is added then, for half an entry sends payloads of some models only.
func (p *meshPod) obstacle(d meshDetail) *wireError {
	if len(podItems(stripMeshDeployment(p.object), "containers")) == 0 {
		return &wireError{ReasonNoContainers, fmt.Sprintf("the Deployment has no containers that could be read, or more than %d bytes of "+
			"containers, values of %s and mounts: reduce them", maxMeshSpec, meshEnv)}
	}
	for _, c := range p.containers() {
		name, _ := c["name"].(string)
		if e := envOf(c, meshEnv); e != nil && e["valueFrom"] != nil {
			return &wireError{ReasonEnvFromSource, fmt.Sprintf("container %s takes %s from elsewhere, and nothing can be "+
				"added to that: give the variable a value", name, meshEnv)}
		}
		if d.Volume == "" {
			continue
		}
		if m := mountAt(c, meshTLSPath); m != nil && m["name"] != d.Volume {
			return &wireError{ReasonMountPathConflict, fmt.Sprintf("container %s has volume %v at %s: remove that mount",
				name, m["name"], meshTLSPath)}
		}
	}
	if v := p.volume(d.Volume); d.Volume != "" && v != nil && secretOf(v) != d.Secret {
		return &wireError{ReasonVolumeConflict, fmt.Sprintf("a volume %s of another kind or secret is there: rename it", d.Volume)}
	}
	return nil
}

// upstreamDid says that the original operator wired the Deployment for the same service, as found at the adoption (invariant
// 8): nobody else names a volume after the service's certificate. Its entries then are ours, and go with the service.
func (p *meshPod) upstreamDid(url string, d meshDetail) bool {
	if d.Volume == "" || secretOf(p.volume(d.Volume)) != d.Secret {
		return false
	}
	return slices.ContainsFunc(p.containers(), func(c map[string]any) bool {
		value, _ := envOf(c, meshEnv)["value"].(string)
		return slices.Contains(strings.Fields(value), url)
	})
}

// adopt records what upstream added, part by part.
func (p *meshPod) adopt(url string, d *meshDetail) {
	d.AddedVolume = true
	for _, c := range p.containers() {
		name, _ := c["name"].(string)
		value, _ := envOf(c, meshEnv)["value"].(string)
		if urls := strings.Fields(value); slices.Contains(urls, url) {
			d.Env = append(d.Env, name)
			if len(urls) == 1 {
				d.NewEnv = append(d.NewEnv, name)
			}
		}
		if mountAt(c, meshTLSPath) != nil {
			d.Mounts = append(d.Mounts, name)
		}
		if name == meshTLSContainer && envOf(c, meshTLSEnv)["value"] == meshTLSCert {
			d.TLSEnv = append(d.TLSEnv, name)
		}
	}
}

// putIn adds every part of the entry that is missing, and records it.
func (p *meshPod) putIn(url string, d *meshDetail) {
	for _, c := range p.containers() {
		name, _ := c["name"].(string)
		p.putEnv(c, name, url, d)
		if d.Volume == "" {
			continue
		}
		if mountAt(c, meshTLSPath) == nil {
			p.add(c, "volumeMounts", map[string]any{"name": d.Volume, "mountPath": meshTLSPath, "readOnly": true})
			d.Mounts = withName(d.Mounts, name)
		}
		if name == meshTLSContainer && envOf(c, meshTLSEnv) == nil {
			p.add(c, "env", map[string]any{"name": meshTLSEnv, "value": meshTLSCert})
			d.TLSEnv = withName(d.TLSEnv, name)
		}
	}
	if d.Volume != "" && p.volume(d.Volume) == nil {
		p.add(p.spec, "volumes", map[string]any{"name": d.Volume, "secret": map[string]any{"secretName": d.Secret}})
		d.AddedVolume = true
	}
}

func (p *meshPod) putEnv(c map[string]any, name, url string, d *meshDetail) {
	e := envOf(c, meshEnv)
	if e == nil {
		p.add(c, "env", map[string]any{"name": meshEnv, "value": url})
		d.Env, d.NewEnv = withName(d.Env, name), withName(d.NewEnv, name)
		return
	}
	value, _ := e["value"].(string)
	if slices.Contains(strings.Fields(value), url) {
		return
	}
	if strings.TrimSpace(value) == "" {
		e["value"] = value + url
	} else {
		e["value"] = value + " " + url
	}
	p.changed = true
	d.Env = withName(d.Env, name)
}

// removeURL removes exactly the recorded parts, as far as they are still what they were (defects 2 and 3 of
// reference/trustyai.md: upstream removed nothing, and panicked where a container had no such variable).
func (p *meshPod) removeURL(url string, d meshDetail) {
	for _, c := range p.containers() {
		name, _ := c["name"].(string)
		if slices.Contains(d.Env, name) {
			p.removeEnv(c, url, slices.Contains(d.NewEnv, name))
		}
		if slices.Contains(d.TLSEnv, name) {
			p.drop(c, "env", func(e map[string]any) bool { return e["name"] == meshTLSEnv && e["value"] == meshTLSCert })
		}
		if slices.Contains(d.Mounts, name) {
			p.drop(c, "volumeMounts", func(m map[string]any) bool {
				return m["name"] == d.Volume && m["mountPath"] == meshTLSPath
			})
		}
	}
	if d.AddedVolume && !p.mounted(d.Volume) {
		p.drop(p.spec, "volumes", func(v map[string]any) bool { return v["name"] == d.Volume && secretOf(v) == d.Secret })
	}
}

func (p *meshPod) removeEnv(c map[string]any, url string, isNew bool) {
	e := envOf(c, meshEnv)
	value, ok := e["value"].(string)
	if !ok || !slices.Contains(strings.Fields(value), url) {
		return
	}
	left := removeWord(value, url)
	p.changed = true
	switch {
	case left == "" && isNew:
		p.drop(c, "env", func(o map[string]any) bool { return o["name"] == meshEnv && o["value"] == value })
	case left == "":
		delete(e, "value")
	default:
		e["value"] = left
	}
}

// removeWord takes the last occurrence of a word out of a list separated by white space, with the space before it.
func removeWord(list, word string) string {
	for end := len(list); ; {
		at := strings.LastIndex(list[:end], word)
		if at < 0 {
			return list
		}
		before, after := list[:at], list[at+len(word):]
		head, tail := strings.TrimRight(before, yamlBlank), strings.TrimLeft(after, yamlBlank)
		if (head != before || before == "") && (tail != after || after == "") {
			if head == "" {
				return before + tail
			}
			return head + after
		}
		end = at
	}
}

func withName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(slices.Clone(names), name)
}
