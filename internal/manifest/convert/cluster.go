package convert

import (
	"errors"
	"slices"
	"strings"
)

// The keys of an endpoint's topology that became fields.
const (
	hostname = "kubernetes.io/hostname"
	zone     = "topology.kubernetes.io/zone"
)

// endpointSlice moves the node and the zone of an endpoint out of its topology, of which v1 takes nothing else.
func endpointSlice(o *object, _ string) error {
	dropped := map[string]bool{}
	for _, endpoint := range mapsAt(o.content, "endpoints") {
		for key, value := range mapAt(endpoint, "topology") {
			switch key {
			case hostname:
				fill(endpoint, "nodeName", value)
			case zone:
				fill(endpoint, "zone", value)
			default:
				dropped[key] = true
			}
		}
		delete(endpoint, "topology")
	}
	if len(dropped) > 0 {
		keys := make([]string, 0, len(dropped))
		for key := range dropped {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		o.warn("the topology %s of its endpoints is left out, which v1 does not take", strings.Join(keys, ", "))
	}
	return nil
}

// event drops the state of a series, which v1 has not.
func event(o *object, _ string) error {
	delete(mapAt(o.content, "series"), "state")
	return nil
}

// signingRequest asks for the signer, which v1beta1 guessed from the content of the request, and names the usages that it took
// where it was told none.
func signingRequest(o *object, _ string) error {
	spec := childAt(o.content, "spec")
	signer, _ := spec["signerName"].(string)
	if signer == "" || signer == "kubernetes.io/legacy-unknown" {
		return errors.New("v1 asks for spec.signerName, and takes no kubernetes.io/legacy-unknown: name the signer")
	}
	if usages, _ := spec["usages"].([]any); len(usages) == 0 {
		spec["usages"] = []any{"digital signature", "key encipherment"}
	}
	return nil
}

// runtimeClass moves the fields that v1alpha1 had in a spec to the top.
func runtimeClass(o *object, old string) error {
	spec := mapAt(o.content, "spec")
	if old != "v1alpha1" || spec == nil {
		return nil
	}
	delete(o.content, "spec")
	move(spec, "runtimeHandler", o.content, "handler")
	move(spec, "overhead", o.content, "overhead")
	move(spec, "scheduling", o.content, "scheduling")
	return nil
}

// keepsZero is the annotation by which v1beta3 let a level have no seats of its own.
const keepsZero = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

// priorityLevel renames the shares, as v1beta3 did. Zero meant what was assumed, 30, and means none at all in v1.
func priorityLevel(o *object, old string) error {
	annotations := mapAt(o.content, "metadata", "annotations")
	_, keeps := annotations[keepsZero]
	delete(annotations, keepsZero)
	limited := mapAt(o.content, "spec", "limited")
	if limited == nil {
		return nil
	}
	const shares = "nominalConcurrencyShares"
	move(limited, "assuredConcurrencyShares", limited, shares)
	if isZero(limited[shares]) && (old != "v1beta3" || !keeps) {
		delete(limited, shares)
	}
	return nil
}

// isZero says that a number, as YAML or JSON gives it, is zero.
func isZero(value any) bool { return value == int64(0) || value == float64(0) }

// policyBinding names what the first version of a binding did when a validation failed; v1 asks for it.
func policyBinding(o *object, _ string) error {
	spec := mapAt(o.content, "spec")
	if actions, _ := spec["validationActions"].([]any); spec != nil && len(actions) == 0 {
		spec["validationActions"] = []any{"Deny"}
	}
	return nil
}
