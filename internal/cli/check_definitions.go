package cli

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/engine/catalog"
)

// partOf is the label of MLKeeper's definitions, which config/crd/common adds and hack/crds.sh reads.
const partOf = "app.kubernetes.io/part-of"

// What stands in a cluster under the name of a definition.
const (
	standsAbsent = "Absent"
	// standsCurrent and standsOutdated are MLKeeper's own, of this release or of another.
	standsCurrent, standsOutdated = "Current", "Outdated"
	standsForeign                 = "Foreign"
)

// DefinitionState is what stands in a cluster under the name of one of MLKeeper's CustomResourceDefinitions.
type DefinitionState struct {
	Name string `json:"name"`
	// Stands is Absent, Current, Outdated, or Foreign for the definition of another operator.
	Stands string `json:"stands"`
	// Managers are the field managers that have written it.
	Managers []string `json:"managers"`
	// Webhook converts its versions: the namespace and name of a Service, or a URL. Empty for none.
	Webhook string `json:"webhook"`
	// Answers says that a pod of that Service is ready, so that the other operator runs.
	Answers bool `json:"answers"`
	// StoredVersions are those in which objects may be stored.
	StoredVersions []string `json:"storedVersions"`
	// Deleting says that it is being deleted, with all objects of its kind.
	Deleting bool `json:"deleting"`
}

// shippedDefinition is one of the definitions in this binary.
type shippedDefinition struct {
	// folder is engine, or the name of the controller.
	folder string
	object *unstructured.Unstructured
}

func readDefinitions(files fs.FS) ([]shippedDefinition, error) {
	names, err := fs.Glob(files, "*/*.yaml")
	if err != nil {
		return nil, err
	}
	var out []shippedDefinition
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if raw, err = yaml.YAMLToJSON(raw); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		d := shippedDefinition{folder: path.Dir(name), object: &unstructured.Unstructured{}}
		if err := d.object.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// versions are the names of the versions, and the versions as they are declared.
func versionsOf(definition *unstructured.Unstructured) (names []string, all []any) {
	all, _, _ = unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range all {
		if fields, ok := version.(map[string]any); ok {
			name, _ := fields["name"].(string)
			names = append(names, name)
		}
	}
	return names, all
}

// definition checks what stands in the cluster under the name of one definition.
func (c *checker) definition(ctx context.Context, shipped shippedDefinition) error {
	name := shipped.object.GetName()
	live, err := c.dynamic.Resource(definitionResource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		c.add(checkProblem, name, "you may not read CustomResourceDefinitions")
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read the CustomResourceDefinition %s: %w", name, err)
	case err != nil:
		live = nil
	}
	state, err := c.stateOf(ctx, shipped, live)
	if err != nil {
		return err
	}
	one := Check{Subject: name, Definition: state}
	one.State, one.Message = c.judgeDefinition(shipped, live, state)
	c.report.Checks = append(c.report.Checks, one)
	if live != nil && len(live.GetOwnerReferences()) > 0 {
		owner := live.GetOwnerReferences()[0]
		c.add(checkWarning, name, "it has an owner, %s %s, with which Kubernetes deletes it and all of its objects: remove its ownerReferences",
			owner.Kind, owner.Name)
	}
	return nil
}

func (c *checker) stateOf(ctx context.Context, shipped shippedDefinition, live *unstructured.Unstructured) (*DefinitionState, error) {
	state := &DefinitionState{Name: shipped.object.GetName(), Stands: standsAbsent, Managers: []string{}, StoredVersions: []string{}}
	if live == nil {
		return state, nil
	}
	for _, e := range live.GetManagedFields() {
		if e.Subresource == "" && !slices.Contains(state.Managers, e.Manager) {
			state.Managers = append(state.Managers, e.Manager)
		}
	}
	slices.Sort(state.Managers)
	state.StoredVersions, _, _ = unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	state.Webhook = catalog.ConversionWebhook(live)
	state.Deleting = live.GetDeletionTimestamp() != nil
	_, declared := versionsOf(shipped.object)
	_, found := versionsOf(live)
	switch {
	case state.Webhook != "" || live.GetLabels()[partOf] != "mlkeeper":
		state.Stands = standsForeign
	case reflect.DeepEqual(declared, found):
		state.Stands = standsCurrent
	default:
		state.Stands = standsOutdated
	}
	var err error
	state.Answers, err = c.answers(ctx, state.Webhook)
	if apierrors.IsForbidden(err) {
		c.add(checkWarning, state.Name, "you may not list endpointslices.discovery.k8s.io in the namespace of the webhook %s, so that its operator counts as one "+
			"that runs", state.Webhook)
		state.Answers, err = true, nil
	}
	return state, err
}

// answers says that a webhook has a pod that is ready. What is not a Service of the cluster counts as one that answers.
func (c *checker) answers(ctx context.Context, webhook string) (bool, error) {
	namespace, service, isService := strings.Cut(webhook, "/")
	switch {
	case webhook == "":
		return false, nil
	case !isService || strings.Contains(service, "/"):
		return true, nil
	}
	mapping, err := c.lookup(schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"})
	if err != nil || mapping == nil {
		return true, err
	}
	slices, err := c.list(ctx, mapping, namespace, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
	if err != nil {
		return false, fmt.Errorf("read the endpoints of the Service %s: %w", webhook, err)
	}
	for _, slice := range slices {
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
		for _, endpoint := range endpoints {
			fields, _ := endpoint.(map[string]any)
			if ready, _, _ := unstructured.NestedBool(fields, "conditions", "ready"); ready {
				return true, nil
			}
		}
	}
	return false, nil
}

// judgeDefinition says what an installation does with what stands there, or what is wrong with it in one that exists.
func (c *checker) judgeDefinition(shipped shippedDefinition, live *unstructured.Unstructured, state *DefinitionState) (verdict, message string) {
	served, _ := versionsOf(shipped.object)
	lost := slices.DeleteFunc(slices.Clone(state.StoredVersions), func(v string) bool { return slices.Contains(served, v) })
	switch {
	case state.Deleting:
		return checkProblem, fmt.Sprintf("it is being deleted, and with it every object of its kind: wait until it is gone, or remove the finalizers of "+
			"those that kubectl get %s -A still lists", state.Name)
	case len(lost) > 0:
		return checkProblem, fmt.Sprintf("objects may be stored in %s, which MLKeeper does not have, so that the API server refuses its definition: "+
			"store them in %s, and take the others out of status.storedVersions", strings.Join(lost, ", "), strings.Join(served, " or "))
	case state.Stands == standsForeign && state.Answers:
		return checkProblem, fmt.Sprintf("another operator's, which runs: %s converts its versions; stop that operator, or what it does with this kind, "+
			"as docs/trustyai.md says, and then run make install, with FORCE=1 if it goes on for other kinds", state.Webhook)
	case c.pre:
		return c.change(state)
	case state.Stands == standsAbsent:
		return checkProblem, "it is not there: run make install"
	case state.Stands == standsForeign:
		return checkProblem, "another operator's, written by " + strings.Join(state.Managers, ", ") + ": run make install, which adopts it"
	case state.Stands == standsOutdated:
		return checkProblem, "it is of another release: run make install of this one"
	case !established(live):
		return checkProblem, "the API server does not serve it: kubectl describe crd " + state.Name + " says why"
	}
	return checkOK, "of this release" + storedNote(state)
}

// change says what an installation does with a definition that does not stand in its way.
func (c *checker) change(state *DefinitionState) (verdict, message string) {
	switch state.Stands {
	case standsAbsent:
		return checkChange, "make install creates it"
	case standsOutdated:
		return checkChange, "make install updates it" + storedNote(state)
	case standsForeign:
		without := ""
		if state.Webhook != "" {
			without = ", without the webhook " + state.Webhook + ", which no longer answers"
		}
		return checkChange, "another operator's, written by " + strings.Join(state.Managers, ", ") + ": make install adopts it" + without +
			"; objects stay" + storedNote(state)
	}
	return checkOK, "of this release" + storedNote(state)
}

// storedNote tells that objects may be stored in more than one version, which nothing needs.
func storedNote(state *DefinitionState) string {
	if len(state.StoredVersions) < 2 {
		return ""
	}
	return "; objects may be stored in " + strings.Join(state.StoredVersions, " and ")
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return fields["type"] == "Established" && fields["status"] == "True"
	})
}

// dataScienceCluster is how Open Data Hub and OpenShift AI are told which operators they run.
var dataScienceCluster = schema.GroupKind{Group: "datasciencecluster.opendatahub.io", Kind: "DataScienceCluster"}

// openDataHub warns of the operator that would apply the definition of TrustyAI again, and start its operator.
func (c *checker) openDataHub(ctx context.Context, names []string) error {
	if len(names) > 0 && !slices.Contains(names, "trustyai") {
		return nil
	}
	mapping, err := c.mapper().RESTMapping(dataScienceCluster)
	if err != nil {
		// It is not served, or nobody knows: then its objects cannot be read either.
		return nil //nolint:nilerr // A cluster without Open Data Hub is the rule.
	}
	all, err := c.list(ctx, mapping, "", metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("read the DataScienceClusters: %w", err)
	}
	for _, u := range all {
		if state, _, _ := unstructured.NestedString(u.Object, "spec", "components", "trustyai", "managementState"); state == "Managed" {
			c.add(checkProblem, dataScienceCluster.Kind+" "+u.GetName(), "spec.components.trustyai is Managed: Open Data Hub would apply its definition "+
				"again, and run the original operator; set managementState to Removed, as docs/trustyai.md says")
		}
	}
	return nil
}
