package catalog

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/devcluster/internal/version"
)

// policies are admission policies that refuse and fill in what the originals do beside
// their schemas, in webhooks or in API servers of their own.
//
//go:embed policies/*.yaml
var policies embed.FS

//go:embed probe.yaml
var probe string

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	// policyKinds are the resources of the kinds in policies.
	policyKinds = map[string]string{
		"MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
		"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	}
)

// policyResource is where policies and bindings of a kind are.
func policyResource(kind string) schema.GroupVersionResource {
	out := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: policyKinds[kind]}
	if strings.HasPrefix(kind, "Mutating") {
		out.Version = version.MutatingPolicies
	}
	return out
}

// enforce installs the policies of the named definitions and returns once they are in
// force, which is before the first object of the kinds can be made.
func enforce(ctx context.Context, client dynamic.Interface, names []string) error {
	var objects []*unstructured.Unstructured
	for _, name := range names {
		text, err := policies.ReadFile("policies/" + name + ".yaml")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		found, err := decode(strings.NewReader(string(text)))
		if err != nil {
			return fmt.Errorf("policies of %s: %w", name, err)
		}
		objects = append(objects, found...)
	}
	if len(objects) == 0 {
		return nil
	}
	name := strconv.FormatInt(time.Now().UnixNano(), 36)
	last, err := decode(strings.NewReader(strings.ReplaceAll(probe, "NAME", name)))
	if err != nil {
		return err
	}
	for _, o := range append(objects, last...) {
		resource := policyResource(o.GetKind())
		o.SetAPIVersion(resource.GroupVersion().String())
		_, err := client.Resource(resource).Apply(ctx, o.GetName(), o,
			metav1.ApplyOptions{FieldManager: "devcluster", Force: true})
		if err != nil {
			return fmt.Errorf("installing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if err := inForce(ctx, client, last[0].GetName()); err != nil {
		return err
	}
	for _, o := range last {
		if err := client.Resource(policyResource(o.GetKind())).Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// inForce waits until the policies of the probe are applied to a ConfigMap that is never
// stored: one fills in what the other refuses.
func inForce(ctx context.Context, client dynamic.Interface, name string) error {
	ctx, cancel := context.WithTimeout(ctx, served)
	defer cancel()
	asked := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
	for {
		_, err := client.Resource(configMaps).Namespace(metav1.NamespaceDefault).Create(ctx, asked.DeepCopy(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "in force") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the admission policies do not come into force, as a probe tells: %w", errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
