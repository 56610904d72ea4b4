package trustyai

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/wiring"
	"mlkeeper.dev/internal/workload"
)

// system is the controller.
type system struct {
	settings Settings
	// random is where keys come from.
	random io.Reader
}

var _ controller.Controller[*v1.TrustyAIService, Facts] = (*system)(nil)

// New returns the controller of TrustyAIService.
func New(settings Settings) controller.Controller[*v1.TrustyAIService, Facts] {
	if settings.ClusterDomain == "" {
		settings.ClusterDomain = DefaultClusterDomain
	}
	return &system{settings: settings, random: rand.Reader}
}

// Gather does every read that rendering needs.
func (s *system) Gather(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService) (Facts, error) {
	facts := Facts{
		Now: read.Now(), Generation: s.settings.generation(cr),
		Migration: cr.Status.Migration.DeepCopy(),
		Serves: Serves{
			ServiceCA: read.Serves(gvkServiceCA), CertManager: read.Serves(gvkCertificate), Route: read.Serves(gvkRoute),
			ServiceMonitor: read.Serves(gvkServiceMonitor), HTTPRoute: read.Serves(gvkHTTPRoute), Constraints: read.Serves(gvkConstraints),
		},
		Inference: gatherInference(read, cr),
	}
	older := olderByChildren(read)
	facts.First = first(read.Siblings(), cr, older)
	if facts.First != "" {
		facts.Running, facts.Next = cr.Status.StorageFormat, facts.Migration
		return facts, nil
	}
	var err error
	if facts.Deployment, err = gatherDeployment(ctx, read, cr); err != nil {
		return Facts{}, err
	}
	facts.Closed = s.settings.DryRun || read.Child(gvkPolicy, cr.Namespace, namesOf(cr).policy) != nil
	if facts.Claim, err = gatherClaim(ctx, read, cr); err != nil {
		return Facts{}, err
	}
	facts.Sharer = sharer(read.Siblings(), cr, older)
	facts.Running = running(cr, facts)
	looks, again := looksAtVolume(read, cr)
	facts.VolumeAt = again
	if looks && cr.Spec.Storage.PV != "" {
		if facts.Volume, err = gatherVolume(ctx, read, cr); err != nil {
			return Facts{}, err
		}
	}
	if cr.Spec.Storage.Format == v1.StorageDatabase || usesDatabase(templateOf(cr.Spec.Storage.Format, facts)) {
		if facts.Database, err = s.gatherDatabase(ctx, read, cr, facts.Deployment); err != nil {
			return Facts{}, err
		}
	}
	if facts.Certs, err = s.gatherCerts(ctx, read, cr, facts); err != nil {
		return Facts{}, err
	}
	if err = s.awaitStanding(ctx, read, cr, &facts); err != nil {
		return Facts{}, err
	}
	if facts.GatewayCA, err = gatherGatewayCA(ctx, read, cr, facts.Certs); err != nil {
		return Facts{}, err
	}
	if facts.LoggerCA, err = s.gatherLoggerCA(ctx, read, cr, facts); err != nil {
		return Facts{}, err
	}
	if facts.TrustedCA, err = gatherTrustedCA(ctx, read, cr); err != nil {
		return Facts{}, err
	}
	if facts.UpstreamBinding, err = gatherUpstreamBinding(ctx, read, cr); err != nil {
		return Facts{}, err
	}
	facts.Next = next(inputOf(cr, facts))
	// The pods of the original operator run its image until they are replaced.
	if then, holds := s.scene(cr, facts).adoptedPods(); holds && layouts[then.Runs].serves(ExposureOf(cr)) {
		facts.Generation = then.Runs
	}
	s.assumeReplaced(cr, &facts)
	return facts, nil
}

// assumeReplaced takes the pods as replaced that would be, where nothing is written and no later reconcile shows what follows.
func (s *system) assumeReplaced(cr *v1.TrustyAIService, facts *Facts) {
	if !s.settings.DryRun || facts.Deployment == nil {
		return
	}
	r := s.scene(cr, *facts)
	if pods := r.workload(r.checkGeneration()); pods != nil && pods.Hold == "" {
		serves := r.serves()
		facts.Deployment.Serves = &serves
	}
}

// first names the oldest other custom resource of the namespace that holds the names of the ADR before this one does.
func first(siblings []client.Object, cr *v1.TrustyAIService, older order) string {
	for _, o := range siblings {
		sibling, ok := o.(*v1.TrustyAIService)
		if !ok || sibling.UID == cr.UID || !ADRShape(cr) || !ADRShape(sibling) {
			continue
		}
		if older(sibling, cr) {
			return sibling.Name
		}
	}
	return ""
}

// sharer names an older custom resource of the namespace that keeps files on the claim of this one: one of the two has named it in its spec.
func sharer(siblings []client.Object, cr *v1.TrustyAIService, older order) string {
	for _, o := range siblings {
		sibling, ok := o.(*v1.TrustyAIService)
		if !ok || sibling.UID == cr.UID || sibling.Spec.Storage.ExistingClaim == "" && cr.Spec.Storage.ExistingClaim == "" ||
			namesOf(sibling).pvc != namesOf(cr).pvc {
			continue
		}
		if files := sibling.Spec.Storage.Format == v1.StoragePVC || sibling.Status.StorageFormat == v1.StoragePVC; files && older(sibling, cr) {
			return sibling.Name
		}
	}
	return ""
}

// order says that a comes before b. It is total: of two custom resources, each reconcile finds the same one first.
type order func(a, b *v1.TrustyAIService) bool

// olderByStatus orders by creationTimestamp, and within its one second by who has children already as far as the status tells, then by UID.
// The children of a Secured service are in its Inventories, so of it the storage format tells, which is written with the Deployment.
func olderByStatus(a, b *v1.TrustyAIService) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c < 0
	}
	begun := func(cr *v1.TrustyAIService) bool {
		return len(cr.Status.Inventory.Entries) > 0 || cr.Status.StorageFormat != ""
	}
	if has, had := begun(a), begun(b); has != had {
		return has
	}
	return a.UID < b.UID
}

// olderByChildren is olderByStatus, with the children themselves asked before the status, which is written later than they are: the one that
// has them would otherwise give way to one of the same second, which cannot get them.
func olderByChildren(read controller.Reader) order {
	has := func(cr *v1.TrustyAIService, gvk schema.GroupVersionKind, name string) bool {
		child := read.Child(gvk, cr.Namespace, name)
		return child != nil && child.Annotations[keeper.OwnerAnnotation] == ownerID(cr)
	}
	return func(a, b *v1.TrustyAIService) bool {
		if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
			return olderByStatus(a, b)
		}
		ofA, ofB := namesOf(a), namesOf(b)
		for _, child := range []struct {
			gvk  schema.GroupVersionKind
			a, b string
		}{
			{gvkDeployment, ofA.base, ofB.base},
			{gvkClaim, ofA.pvc, ofB.pvc},
			{gvkService, ofA.base, ofB.base},
			{gvkServiceAccount, ofA.proxyAccount, ofB.proxyAccount},
		} {
			if ours, theirs := has(a, child.gvk, child.a), has(b, child.gvk, child.b); ours != theirs {
				return ours
			}
		}
		return olderByStatus(a, b)
	}
}

// running is the format of the pods that run: what the status says, else what the Deployment says (one adopted from
// upstream, or a status that was lost), else what the first pods will have. A service created with DATABASE, the
// annotation and a claim that is there already has its data on the claim (trustyai-service-operator HEAD 11c335b).
func running(cr *v1.TrustyAIService, facts Facts) v1.StorageFormat {
	if cr.Status.StorageFormat != "" {
		return cr.Status.StorageFormat
	}
	if d := facts.Deployment; d != nil {
		switch {
		case d.Template == TemplateDatabase:
			return v1.StorageDatabase
		case d.Template != "":
			return v1.StoragePVC
		case d.Format != "":
			return d.Format
		}
	}
	_, asked := cr.Annotations[MigrationAnnotation]
	hasSource := cr.Spec.Storage.Folder != "" && cr.Spec.Data != nil && cr.Spec.Data.Filename != ""
	if cr.Spec.Storage.Format == v1.StorageDatabase && asked && hasSource && facts.Claim != nil {
		return v1.StoragePVC
	}
	return cr.Spec.Storage.Format
}

// gatherDeployment reads the Deployment: what the cache has of one that MLKeeper wrote, and the live object of one that
// it has not written yet, whose selector must be kept (invariant 8).
func gatherDeployment(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService) (*Deployment, error) {
	name := ServiceName(cr)
	child := read.Child(gvkDeployment, cr.Namespace, name)
	if seen := child.Stripped(); seen != nil {
		// One that carries our digest and is not partial has our template, even if somebody took the mark of it off: taken
		// for upstream's, it would be declared without a template, and lose the one it has.
		if marks := seen.GetAnnotations(); marks[templateAnnotation] != "" || child.AppliedHash() != "" && !child.Partial() {
			d := &Deployment{Rollout: workload.RolloutOf(seen)}
			d.Template = Template(marks[templateAnnotation])
			if d.Template == "" {
				d.Template = rendered(cr)
			}
			d.Selector = decodeLabels(marks[selectorAnnotation])
			d.AdoptedPods, d.Serves = decoded[AdoptedPods](marks[adoptedWithAnnotation]), decodeServed(marks[servesAnnotation])
			return d, nil
		}
	}
	if child == nil && !fromUpstream(cr) {
		return nil, nil
	}
	live, err := read.Referenced(ctx, gvkDeployment, cr.Namespace, name)
	if err != nil || live == nil {
		return nil, err
	}
	d := &Deployment{Rollout: workload.RolloutOf(live)}
	d.Template = Template(live.GetAnnotations()[templateAnnotation])
	selector, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	if d.Template == "" || live.GetAnnotations()[selectorAnnotation] != "" {
		d.Selector = selector
	}
	d.Format = formatOf(live)
	d.AdoptedPods = decoded[AdoptedPods](live.GetAnnotations()[adoptedWithAnnotation])
	d.Serves = decodeServed(live.GetAnnotations()[servesAnnotation])
	if d.Template == "" && belongsTo(live, cr) {
		d.AdoptedPods = &AdoptedPods{Runs: imageGeneration(imageIn(live))}
	}
	return d, nil
}

// rendered is the template that the status asks for.
func rendered(cr *v1.TrustyAIService) Template {
	facts := Facts{Running: cr.Status.StorageFormat, Migration: cr.Status.Migration}
	if facts.Running == "" {
		facts.Running = cr.Spec.Storage.Format
	}
	return templateOf(cr.Spec.Storage.Format, facts)
}

// belongsTo says that an object that MLKeeper has not written names the custom resource as its owner, by a reference or,
// where MLKeeper has taken that off and not yet gone on, by its mark.
func belongsTo(live *unstructured.Unstructured, cr *v1.TrustyAIService) bool {
	return live.GetAnnotations()[keeper.OwnerAnnotation] == ownerID(cr) || refersTo(live, cr)
}

func refersTo(live *unstructured.Unstructured, cr *v1.TrustyAIService) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == cr.UID })
}

// decoded is what an annotation of the Deployment records; nil where that cannot be read.
func decoded[T any](text string) *T {
	var out T
	if text == "" || json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return &out
}

// fromUpstream says that the original operator may have had this resource: it left its finalizer or a status, but no
// Deployment of ours was seen yet (which is when status.storageFormat is written). Only then objects may stand under our
// names that no watch of ours has seen, and are worth a read (invariant 8).
func fromUpstream(cr *v1.TrustyAIService) bool {
	return cr.Status.StorageFormat == "" && (len(cr.Status.Conditions) > 0 || cr.Status.Phase != "" ||
		cr.Annotations[keeper.PreviousOperatorAnnotation] != "" || slices.Contains(cr.Finalizers, upstreamFinalizer))
}

// imageIn reads the image of the service from a Deployment of the original operator.
func imageIn(u *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	for _, item := range containers {
		if c, _ := item.(map[string]any); c["name"] == serviceContainer {
			image, _ := c["image"].(string)
			return image
		}
	}
	return ""
}

// formatOf reads the storage format from the environment of a Deployment of the original operator.
func formatOf(u *unstructured.Unstructured) v1.StorageFormat {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	for _, item := range containers {
		c, _ := item.(map[string]any)
		env, _ := c["env"].([]any)
		for _, entry := range env {
			e, _ := entry.(map[string]any)
			text, _ := e["value"].(string)
			if format := v1.StorageFormat(text); e["name"] == "SERVICE_STORAGE_FORMAT" && (format == v1.StoragePVC || format == v1.StorageDatabase) {
				return format
			}
		}
	}
	return ""
}

func decodeLabels(text string) map[string]string {
	var out map[string]string
	if text == "" || json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}

// gatherClaim reads the claim of the service.
func gatherClaim(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService) (*Claim, error) {
	name := namesOf(cr).pvc
	if cr.Spec.Storage.ExistingClaim != "" {
		live, err := read.Referenced(ctx, gvkClaim, cr.Namespace, name)
		if err != nil || live == nil {
			return nil, err
		}
		phase, _, _ := unstructured.NestedString(live.Object, "status", "phase")
		return &Claim{UID: string(live.GetUID()), Phase: phase}, nil
	}
	child := read.Child(gvkClaim, cr.Namespace, name)
	if size := sizeOf(child); size != "" {
		return &Claim{UID: string(child.UID), Size: size, Ours: true}, nil
	}
	// With the annotation, the data of a first DATABASE may be on a claim that MLKeeper never wrote.
	if _, asked := cr.Annotations[MigrationAnnotation]; child == nil && !fromUpstream(cr) && !asked {
		return nil, nil
	}
	live, err := read.Referenced(ctx, gvkClaim, cr.Namespace, name)
	if err != nil || live == nil {
		return nil, err
	}
	size, _, _ := unstructured.NestedString(live.Object, "spec", "resources", "requests", "storage")
	return &Claim{UID: string(live.GetUID()), Size: size, Ours: belongsTo(live, cr)}, nil
}

// sameSize says that two quantities are the same, however they are written.
func sameSize(a, b string) bool {
	x, err := resource.ParseQuantity(a)
	y, other := resource.ParseQuantity(b)
	return err == nil && other == nil && x.Cmp(y) == 0
}

func sizeOf(child *observe.Object) string {
	if seen := child.Stripped(); seen != nil {
		return seen.GetAnnotations()[sizeAnnotation]
	}
	return ""
}

// bindingTakes is how long a claim is given to be bound before it is asked why it is not: the volume was looked at before
// the claim was made, and of a thousand claims that are made at once the last is bound after minutes.
const bindingTakes = 5 * time.Minute

// volumeReasons are the reasons of the problems that a PersistentVolume may be.
var volumeReasons = []string{
	"VolumeNotFound", "VolumeBoundElsewhere", "VolumeReleased", "VolumeClassDiffers", "VolumeTooSmall",
}

// looksAtVolume says whether the PersistentVolume must be read, which costs a request each time that somebody writes to
// it, and else when again. Once our claim asks for it and nothing was wrong with it, the claim itself tells that it is
// bound; only if that takes long it is looked at again.
func looksAtVolume(read controller.Reader, cr *v1.TrustyAIService) (now bool, again time.Time) {
	claim := read.Child(gvkClaim, cr.Namespace, namesOf(cr).pvc)
	if claim == nil || !sameSize(sizeOf(claim), cr.Spec.Storage.Size) {
		return true, time.Time{}
	}
	if claim.Health.Status == health.Current {
		return false, time.Time{}
	}
	ready := meta.FindStatusCondition(cr.Status.Conditions, "Ready")
	due := claim.CreationTimestamp.Add(bindingTakes)
	if ready == nil || slices.Contains(volumeReasons, ready.Reason) || claim.Terminating() || !read.Now().Before(due) {
		return true, time.Time{}
	}
	return false, due
}

// gatherVolume reads the PersistentVolume that the spec names.
func gatherVolume(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService) (*Volume, error) {
	name := cr.Spec.Storage.PV
	live, err := read.Referenced(ctx, gvkVolume, "", name)
	if err != nil {
		return nil, err
	}
	out := &Volume{Name: name, Missing: live == nil}
	if live != nil {
		text := func(path ...string) string {
			s, _, _ := unstructured.NestedString(live.Object, path...)
			return s
		}
		out.Class, out.Capacity = text("spec", "storageClassName"), text("spec", "capacity", "storage")
		out.ClaimNamespace, out.ClaimName = text("spec", "claimRef", "namespace"), text("spec", "claimRef", "name")
		out.ClaimUID = text("spec", "claimRef", "uid")
	}
	return out, nil
}

// gatherDatabase reads the Secret with the credentials and reduces it to what may be shown.
func (s *system) gatherDatabase(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, d *Deployment) (Database, error) {
	n := namesOf(cr)
	secret, err := read.Referenced(ctx, gvkSecret, cr.Namespace, n.databaseSecret)
	if err != nil {
		return Database{}, err
	}
	authority, err := read.Referenced(ctx, gvkSecret, cr.Namespace, n.databaseCA)
	if err != nil {
		return Database{}, err
	}
	ca := controller.Only(controller.SecretData(authority), corev1.ServiceAccountRootCAKey)
	out := Database{
		Secret: n.databaseSecret, Found: secret != nil, CA: authority != nil,
		Unsigned: authority != nil && len(ca[corev1.ServiceAccountRootCAKey]) == 0,
	}
	if secret == nil {
		return out, nil
	}
	data := controller.SecretData(secret)
	for _, key := range mandatoryKeys {
		if len(data[key]) == 0 {
			out.Missing = append(out.Missing, key)
		}
	}
	out.Generation = len(data[generationKey]) > 0
	known := controller.Only(data, slices.Concat(mandatoryKeys, []string{generationKey})...)
	out.Digest = read.Digest(known, ca)
	if out.usable() {
		out.Failure, out.Asked = s.askForDatabase(read, cr, d, data, out.Digest)
	}
	return out, nil
}

// gatherTrustedCA says whether OpenShift's bundle of trusted CAs is there (trustyai-service-operator HEAD 11c335b).
func gatherTrustedCA(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService) (bool, error) {
	if ExposureOf(cr) != v1.ExposureSecured {
		return false, nil
	}
	bundle, err := read.Referenced(ctx, gvkConfigMap, cr.Namespace, trustedCA)
	if err != nil || bundle == nil {
		return false, err
	}
	return bundle.GetLabels()["config.openshift.io/inject-trusted-cabundle"] == "true", nil
}

// gatherUpstreamBinding looks for the ClusterRoleBinding that the original operator left. Its name proves nothing, since other services
// and programs may come to it: only the reference to the UID of the custom resource does, which those alone can write who may bind roles
// in the whole cluster.
func gatherUpstreamBinding(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService) (bool, error) {
	if !isOrWasSecured(cr) || !fromUpstream(cr) && cr.Annotations[keeper.PreviousOperatorAnnotation] == "" {
		return false, nil
	}
	binding, err := read.Referenced(ctx, gvkBinding, "", upstreamBinding(cr))
	return binding != nil && refersTo(binding, cr), err
}

// gatherInference notes what is wired, or could be, from what the wires keep of their targets.
func gatherInference(read controller.Reader, cr *v1.TrustyAIService) Inference {
	out := Inference{Services: append([]client.Object{cr}, read.Siblings()...), Targets: map[string][]*unstructured.Unstructured{}}
	for _, wire := range []string{WireMeshConfig, WireMeshDeployments, WireKServe} {
		if targets := read.Targets(wire, cr.Namespace); len(targets) > 0 {
			out.Targets[wire] = targets
		}
	}
	return out
}

// madeByUs says that the object would not be there without MLKeeper.
func madeByUs(u *unstructured.Unstructured) bool {
	record, err := wiring.Recorded(u)
	return err == nil && record.Created != ""
}
