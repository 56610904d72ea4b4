package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// subject is what a cause stands on.
type subject int

const (
	// onChild is one child, onAPI the API of a child, onServer the server that a workload depends on.
	onChild subject = iota
	onAPI
	onServer
)

// cause is one that can stand.
type cause struct {
	name Cause
	on   subject
	// early says that it can stand before the child exists, too.
	early bool
	// late matches the resources whose children it cannot stand on early, since a user creates objects of them, too; nil for none.
	late *regexp.Regexp
	// unborn matches the resources whose children it can stand on only early, since they would lose their data otherwise; nil for none.
	unborn *regexp.Regexp
	// but matches the resources whose children it cannot stand on; nil for none.
	but *regexp.Regexp
	// only matches those whose children it can stand on; nil for all.
	only *regexp.Regexp
	// begin has the cause stand; what it returns ends it.
	begin func(*run, *unstructured.Unstructured) (end func() error, err error)
	// says is how the status tells of the cause.
	says telling
	// condition is the condition that says so; Ready is False then.
	condition string
	// labelled says that the child needs a label that another client can take without any other effect.
	labelled bool
	// alter changes the schema of a field of the child; nil where no field is needed.
	alter alteration
	// asks says that the operator waits for a user when the cause ends.
	asks bool
	// fight is how often the operator may write the child before it yields or pauses: a field is taken back three times, and the
	// managedFields are migrated before the first apply; a child is created or repaired five times.
	fight int
	// endless says that the operator pauses and never yields.
	endless bool
}

var (
	// claims lose their data with their end.
	claims = regexp.MustCompile(`^persistentvolumeclaims$`)
	// spread matches the resources that no namespace has, which a quota does not count.
	spread = regexp.MustCompile(`^.*\.(rbac\.authorization|admissionregistration)\.k8s\.io$`)
	// uncalled matches what the API server asks no webhook of, which could not be taken away any more (k8s.io/apiserver,
	// pkg/admission/plugin/webhook/predicates/rules, IsExemptAdmissionConfigurationResource).
	uncalled = regexp.MustCompile(`^.*configurations\.admissionregistration\.k8s\.io$`)
	// inputs are the resources with data.
	inputs = regexp.MustCompile(`^(configmaps|secrets)$`)
)

// How a status tells that another has the name of a child.
const (
	conflictReason = `ResourceConflict|NotHandedOver`
	conflictRemedy = `rename or delete that object|hand it over|delete the ConfigMap`
)

// How a status tells of what several causes have in common.
var (
	tellsOfField   = told(otherWriter, `FieldOwnershipCeded`, `remove one of the two declarations`)
	tellsOfRepair  = told(`is changed back by somebody`, `RepairBackOff`, `find out who changes it`)
	tellsOfSilence = told(`took too long|No model server answers`, `Unreachable|EndpointUnreachable`, `growing pauses|REST endpoint`)
)

// causes are all that can stand. The model servers in pods are the user's, who has their logs: some causes have no remedy.
var causes = []cause{
	{
		name: Foreign, early: true, unborn: claims, begin: (*run).replaceByForeign,
		says: told(`belongs to nobody|nothing on it says that it is this|is not MLKeeper's`, conflictReason, conflictRemedy),
	},
	{
		name: ForeignMarked, early: true, unborn: claims, begin: (*run).replaceByMarked,
		says: told(`belongs to (ConfigMap|ClusterRole) owner-of-`, conflictReason, conflictRemedy),
	},
	// A quota is met by a creation alone.
	{
		name: Quota, early: true, late: inputs, unborn: claims, but: spread, begin: (*run).setQuota,
		says: told(`(?i)quota`, `QuotaExceeded`, `raise the ResourceQuota of namespace`),
	},
	{name: Policy, early: true, begin: (*run).denyByPolicy, says: told(`(?i)policy`, `AdmissionDenied`, `change what the policy objects to`)},
	{
		name: WebhookDown, early: true, but: uncalled, begin: (*run).addWebhook,
		says: told(`(?i)webhook`, `WebhookUnavailable`, `repair the server of the webhook "down\.faults\.test"`),
	},
	{name: Forbidden, early: true, begin: (*run).forbid, says: told(`(?i)forbidden`, `Forbidden`, `grant the right`)},
	// What is not there yet has no field that cannot be changed.
	{
		name: Immutable, begin: (*run).refuseAsImmutable,
		says: told(`cannot be changed`, `ImmutableField`, `undo the change, or delete the object`), asks: true,
	},
	{name: Invalid, early: true, begin: (*run).refuseAsInvalid, says: told(`refuses`, `Invalid`, `correct the field`), asks: true},
	{
		name: Terminating, early: true, begin: (*run).refuseAsTerminating,
		says: told(`namespace is being deleted`, `NamespaceTerminating`, `create the resource again in another namespace`),
	},
	// The causes from here on need a child that is there. A claim that somebody deletes has lost its data, whatever MLKeeper does.
	{
		name: Held, but: claims, begin: (*run).hold,
		says: told(`(?i)to be gone|being deleted|finalizer`, `Progressing|ComponentsNotReady`, `finalizers`),
	},
	{name: Retaken, begin: (*run).retake, says: tellsOfField, condition: "FieldManagerConflict", labelled: true, fight: 4},
	{name: Reverted, begin: (*run).revert, says: tellsOfField, condition: "FieldManagerConflict", labelled: true, fight: 4},
	{name: Removed, begin: (*run).keepRemoving, says: tellsOfRepair, labelled: true, fight: 6, endless: true},
	{name: Unmarked, begin: (*run).keepUnmarking, says: tellsOfRepair, fight: 6, endless: true},
	{name: Emptied, only: inputs, begin: (*run).keepEmptying, says: tellsOfRepair, fight: 6, endless: true},
	{
		name: Deleted, but: claims, begin: (*run).keepDeleting,
		says: told(`is deleted by somebody`, `RecreationBackOff`, `find out who deletes it`), fight: 5, endless: true,
	},
	{
		name: APIRemoved, on: onAPI, early: true, begin: (*run).removeAPI,
		says: told(`is not served`, `Progressing|ComponentsNotReady`, `install what provides it`),
	},
	{name: FieldRemoved, on: onAPI, alter: withoutField, begin: (*run).removeField, says: told(`does not declare this field`, `Ready`, ``)},
	{name: TypeChanged, on: onAPI, alter: ofAnotherType, begin: (*run).changeType, says: told(`refuses`, `Invalid`, `correct the field`)},
	{
		name: FieldRequired, on: onAPI, alter: requiring, begin: (*run).requireField,
		says: told(`refuses.*requiredByFaults`, `Invalid`, `correct the field`),
	},
	serverCause(ServerHangs, tellsOfSilence),
	serverCause(ServerLate, tellsOfSilence),
	serverCause(ServerSlow, told(`being fetched|is cut|sends too slowly`, `Fetching|Unreachable|ModelsUnavailable`, ``)),
	serverCause(ServerGarbage, told(`a page in place of|is no model status|is no index of charts`, `ArchiveInvalid|ModelsUnavailable`, ``)),
	serverCause(ServerUntrusted, told(`certificate|authority`, `Unreachable`, `add the CA that signed`)),
	serverCause(ServerRedirects, told(`redirects|answered 302`, `RedirectRefused|ModelsUnavailable`, `use the URL that it redirects to|answered 302`)),
}

// serverCause is a cause that stands on the server of a workload.
func serverCause(how Cause, says telling) cause {
	return cause{
		name: how, on: onServer, early: true, says: says,
		begin: func(r *run, _ *unstructured.Unstructured) (func() error, error) { return r.serve(how) },
	}
}

// causeOf returns a cause by its name; nil where there is none.
func causeOf(name Cause) *cause {
	for i := range causes {
		if causes[i].name == name {
			return &causes[i]
		}
	}
	return nil
}

// concerns says that the cause can stand on a child.
func (c *cause) concerns(resource string, u *unstructured.Unstructured) bool {
	switch {
	case c.but != nil && c.but.MatchString(resource), c.only != nil && !c.only.MatchString(resource):
		return false
	case c.labelled && overwritableLabel(u) == "":
		return false
	}
	return c.name != Emptied || emptiable(u)
}

// moments are the moments at which the cause can begin: whether from the beginning.
func (c *cause) moments(resource string) []bool {
	var out []bool
	if c.unborn == nil || !c.unborn.MatchString(resource) {
		out = append(out, false)
	}
	if c.early && (c.late == nil || !c.late.MatchString(resource)) {
		out = append(out, true)
	}
	return out
}

// nothing ends a cause that is over already.
func nothing() error { return nil }

// replaceByForeign puts an object of somebody else in the place of the child.
func (r *run) replaceByForeign(u *unstructured.Unstructured) (func() error, error) {
	return r.replaceBy(u, foreign(u))
}

// replaceByMarked does the same with an object that has MLKeeper's labels, and is controlled by another object.
func (r *run) replaceByMarked(u *unstructured.Unstructured) (func() error, error) {
	owner := &unstructured.Unstructured{}
	// What no namespace has can only be owned by its like.
	owner.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if u.GetNamespace() == "" {
		owner.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	}
	owner.SetName("owner-of-" + r.world.Namespace)
	if err := r.world.Put(owner); err != nil {
		return nil, err
	}
	stranger := foreign(u)
	labels := stranger.GetLabels()
	for key, value := range u.GetLabels() {
		labels[key] = value
	}
	stranger.SetLabels(labels)
	yes := true
	stranger.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes,
	}})
	end, err := r.replaceBy(u, stranger)
	return func() error {
		return errors.Join(end(), client.IgnoreNotFound(r.suite.cluster.Client.Delete(r.ctx, owner.DeepCopy())))
	}, err
}

// replaceBy puts an object in the place of the child, if there is one yet; it is deleted at the end.
func (r *run) replaceBy(u, stranger *unstructured.Unstructured) (func() error, error) {
	c := r.suite.cluster.Client
	resource := r.plan.Standing.Resource
	lasts := resource + "/" + r.plan.Standing.Name
	r.allowed[lasts] = tally{2, 2}
	if r.plan.Standing.Early {
		r.allowed[lasts] = tally{1, 1}
	}
	// The operator is blind meanwhile, or it would be there first.
	r.pause(resource, true)
	defer r.pause(resource, false)
	if !r.plan.Standing.Early {
		if err := c.Delete(r.ctx, u.DeepCopy()); err != nil {
			return nothing, err
		}
	}
	err := r.await("the place of the child to be taken", func() error {
		return c.Create(r.ctx, stranger.DeepCopy(), client.FieldOwner(user))
	})
	return func() error {
		return client.IgnoreNotFound(c.Delete(r.ctx, stranger.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}, err
}

// setQuota has a ResourceQuota allow no object of the resource, and deletes the child.
func (r *run) setQuota(u *unstructured.Unstructured) (func() error, error) {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: r.world.Namespace, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceName("count/" + r.plan.Standing.Resource): *zero()}
	c := r.suite.cluster.Client
	if err := c.Create(r.ctx, quota); err != nil {
		return nil, err
	}
	err := r.await("the quota to be in effect", func() error {
		if err := c.Get(r.ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return errors.New("its status is empty")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() error { return c.Delete(r.ctx, quota) }, r.provoke(u)
}

// denyByPolicy has a ValidatingAdmissionPolicy deny the child.
func (r *run) denyByPolicy(u *unstructured.Unstructured) (func() error, error) {
	return r.admission(u, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deny-NS}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [RULE]}
  matchConditions: [{name: child, expression: 'CONDITION'}]
  validations: [{expression: "false", message: "no such objects here"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny-NS}
spec: {policyName: deny-NS, validationActions: [Deny]}
`)
}

// addWebhook has a webhook answer for the child that has no server.
func (r *run) addWebhook(u *unstructured.Unstructured) (func() error, error) {
	return r.admission(u, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: down-NS}
webhooks:
- name: down.faults.test
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: NS, name: there-is-none}}
  matchConditions: [{name: child, expression: 'CONDITION'}]
  rules: [RULE]
`)
}

// admission applies what refuses the child, waits until it does, and has the operator write the child. What makes the operator write a claim
// would be refused, too, so it comes first, and the operator hears of it last.
func (r *run) admission(u *unstructured.Unstructured, text string) (func() error, error) {
	if claims.MatchString(r.plan.Standing.Resource) {
		r.pause(r.plan.Standing.Resource, true)
		defer r.pause(r.plan.Standing.Resource, false)
		if err := r.provoke(u); err != nil {
			return nil, err
		}
		return r.refuseByAdmission(u, text)
	}
	end, err := r.refuseByAdmission(u, text)
	if err != nil {
		return nil, err
	}
	return end, r.provoke(u)
}

// refuseByAdmission applies what refuses the child, and waits until it does.
func (r *run) refuseByAdmission(u *unstructured.Unstructured, text string) (func() error, error) {
	resource, group, _ := strings.Cut(r.plan.Standing.Resource, ".")
	rule := fmt.Sprintf(`{apiGroups: [%q], apiVersions: ["*"], resources: [%q], operations: [CREATE, UPDATE]}`, group, resource)
	// What is being deleted must be free to go.
	condition := fmt.Sprintf(`!has(object.metadata.deletionTimestamp) && object.metadata.name == "%s"`, u.GetName())
	if u.GetNamespace() != "" {
		condition += fmt.Sprintf(` && object.metadata.namespace == "%s"`, u.GetNamespace())
	}
	text = strings.NewReplacer("RULE", rule, "CONDITION", condition, "NS", r.world.Namespace).Replace(text)
	made, err := r.world.made(text)
	if err != nil {
		return nil, err
	}
	end := func() error {
		var all error
		for _, one := range made {
			all = errors.Join(all, client.IgnoreNotFound(r.suite.cluster.Client.Delete(r.ctx, one)))
		}
		return all
	}
	err = r.await("the child to be refused", func() error {
		if err := r.probe(u); err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// probe asks the API server whether it would take a write of the child.
func (r *run) probe(u *unstructured.Unstructured) error {
	c := client.NewDryRunClient(r.suite.cluster.Client)
	if r.plan.Standing.Early {
		return c.Create(r.ctx, u.DeepCopy(), client.FieldOwner(user))
	}
	return c.Patch(r.ctx, u.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"faults.test/probe":"x"}}}`)),
		client.FieldOwner(user))
}

// provoke has the operator write the child: it is deleted, or where its data would go with it, changed.
func (r *run) provoke(u *unstructured.Unstructured) error {
	switch {
	case r.plan.Standing.Early:
		return nil
	case claims.MatchString(r.plan.Standing.Resource):
		return r.changeHash(u)
	}
	r.allowed[r.plan.Standing.Resource+"/"+r.plan.Standing.Name] = tally{1, 1}
	return r.suite.cluster.Client.Delete(r.ctx, u.DeepCopy())
}

// changeHash changes the applied hash of the child, which MLKeeper then applies again, and which has no other effect.
func (r *run) changeHash(u *unstructured.Unstructured) error {
	return r.jsonPatch(u, jsonOp{"replace", "/metadata/annotations/" + pointer(keeper.AppliedHashAnnotation), "changed"})
}

// refusing answers the writes of the child that match, until the end.
func (r *run) refusing(u *unstructured.Unstructured, status metav1.Status) func() error {
	resource, verbs := r.plan.Standing.Resource, []string{verbCreate, verbUpdate, verbPatch, verbApply}
	r.setBar(func(httpRequest *http.Request, req request) *http.Response {
		if req.Resource != resource || req.Name != u.GetName() || req.Namespace != u.GetNamespace() || !slices.Contains(verbs, req.Verb) {
			return nil
		}
		return failure(httpRequest, http.Header{"Content-Type": {"application/json"}}, status)
	})
	return func() error {
		r.setBar(nil)
		return nil
	}
}

// forbid takes the right to write the child away.
func (r *run) forbid(u *unstructured.Unstructured) (func() error, error) {
	t := r.plan.Standing
	resource, group, _ := strings.Cut(t.Resource, ".")
	end := r.refusing(u, metav1.Status{
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("%s %q is forbidden: User \"operator\" cannot write resource %q in API group %q in the namespace %q",
			t.Resource, u.GetName(), resource, group, u.GetNamespace()),
	})
	return end, r.provoke(u)
}

// refuseAsTerminating answers as for a namespace that is being deleted.
func (r *run) refuseAsTerminating(u *unstructured.Unstructured) (func() error, error) {
	end := r.refusing(u, metav1.Status{
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("%s %q is forbidden: unable to create new content in namespace %s because it is being terminated",
			r.plan.Standing.Resource, u.GetName(), u.GetNamespace()),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}},
	})
	return end, r.provoke(u)
}

// refuseAsImmutable answers as for a change of a field that cannot be changed.
func (r *run) refuseAsImmutable(u *unstructured.Unstructured) (func() error, error) {
	return r.refuseAsInvalidFor(u, "field is immutable")
}

// refuseAsInvalid answers as for a value that is not allowed.
func (r *run) refuseAsInvalid(u *unstructured.Unstructured) (func() error, error) {
	return r.refuseAsInvalidFor(u, "must be something else")
}

func (r *run) refuseAsInvalidFor(u *unstructured.Unstructured, why string) (func() error, error) {
	end := r.refusing(u, metav1.Status{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s %q is invalid: spec: Invalid value: \"x\": %s", u.GetKind(), u.GetName(), why),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type: metav1.CauseTypeFieldValueInvalid, Field: "spec", Message: `Invalid value: "x": ` + why,
		}}},
	})
	if r.plan.Standing.Early {
		return end, nil
	}
	return end, r.changeHash(u)
}

// hold deletes the child, which a finalizer of somebody else holds.
func (r *run) hold(u *unstructured.Unstructured) (func() error, error) {
	r.allowed[r.plan.Standing.Resource+"/"+r.plan.Standing.Name] = tally{1, 1}
	if err := r.jsonPatch(u, jsonOp{"add", "/metadata/finalizers", append(slices.Clone(u.GetFinalizers()), holder)}); err != nil {
		return nil, err
	}
	if err := r.settle(); err != nil {
		return nil, err
	}
	c := r.suite.cluster.Client
	return func() error {
		live := u.DeepCopy()
		if err := c.Get(r.ctx, client.ObjectKeyFromObject(u), live); err != nil {
			return err
		}
		finalizers := slices.DeleteFunc(live.GetFinalizers(), func(f string) bool { return f == holder })
		raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		if err != nil {
			return err
		}
		return client.IgnoreNotFound(c.Patch(r.ctx, live, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(user)))
	}, c.Delete(r.ctx, u.DeepCopy())
}
