package trustyai

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/pki"
)

// adopted is a service of the original operator, as it is found.
func adopted(t *testing.T, spec string) (*cluster, *v1.TrustyAIService) {
	t.Helper()
	c, cr := newCluster(gvkServiceCA), custom(t, spec)
	cr.Status.Phase = "Ready"
	d := parse(t, upstreamDeployment)
	d.SetOwnerReferences([]metav1.OwnerReference{{Kind: "TrustyAIService", Name: cr.Name, UID: cr.UID}})
	if strings.Contains(spec, "DATABASE") {
		content := strings.Replace(compactJSON(t, d.Object), `"value":"PVC"`, `"value":"DATABASE"`, 1)
		d = parse(t, content)
		c.Put(credentials("p"))
	}
	c.Put(d)
	return c, cr
}

func deploymentIn(t *testing.T, p plan.Plan) plan.Object {
	t.Helper()
	for _, o := range p.Stages[0].Objects {
		if o.Desired.GetKind() == "Deployment" {
			return o
		}
	}
	t.Fatal("no Deployment")
	return plan.Object{}
}

func hasTemplate(o plan.Object) bool {
	_, found, _ := unstructured.NestedMap(o.Desired.Object, "spec", "template")
	return found
}

func Test_AdoptionLeavesTheTemplateUntilSomethingChanges(t *testing.T) {
	for name, change := range map[string]func(*system, *cluster, *v1.TrustyAIService){
		"the spec": func(_ *system, _ *cluster, cr *v1.TrustyAIService) {
			cr.Generation, cr.Spec.Metrics.Schedule = 2, "9s"
		},
		"the image": func(s *system, _ *cluster, _ *v1.TrustyAIService) { s.settings.Image = "new" },
		"the proxy": func(s *system, _ *cluster, _ *v1.TrustyAIService) { s.settings.ProxyImage = "new" },
		"the credentials": func(_ *system, c *cluster, _ *v1.TrustyAIService) {
			c.Put(credentials("rotated"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := upstreamSpec
			if name == "the credentials" {
				spec = databaseSpec
			}
			c, cr := adopted(t, spec)
			s := testSystem()
			render := func() plan.Object {
				facts, err := s.Gather(t.Context(), c, cr)
				if err != nil {
					t.Fatal(err)
				}
				p := s.Render(cr, facts)
				if len(p.Problems) > 0 {
					t.Fatal(p.Problems)
				}
				return deploymentIn(t, p)
			}
			first := render()
			if !first.Partial || hasTemplate(first) {
				t.Fatal("the template is declared, which replaces the pods")
			}
			c.Own(first.Desired.DeepCopy(), testOwner)
			delete(c.Objects, first.Key())
			if again := render(); !again.Partial || compactJSON(t, again.Desired.Object) != compactJSON(t, withoutMarks(c.Children[first.Key()]).Object) {
				t.Fatal("the next reconcile renders something else")
			}
			change(s, c, cr)
			for range 2 {
				o := render()
				if o.Partial || !hasTemplate(o) || o.Desired.GetAnnotations()[adoptedWithAnnotation] != "" {
					t.Fatal("the change does not reach the pods")
				}
				selector, _, _ := unstructured.NestedStringMap(o.Desired.Object, "spec", "selector", "matchLabels")
				if selector["app.kubernetes.io/version"] != "1.38.0" {
					t.Fatalf("the live selector is lost: %v", selector)
				}
				c.Own(o.Desired.DeepCopy(), testOwner)
			}
		})
	}
}

// withoutMarks is an object as it was rendered, before cluster.own marked it.
func withoutMarks(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := u.DeepCopy()
	out.SetUID("")
	out.SetCreationTimestamp(metav1.Time{})
	marks := out.GetAnnotations()
	delete(marks, keeper.OwnerAnnotation)
	out.SetAnnotations(marks)
	return out
}

func Test_AdoptionCountsWhatComesLaterFromThenOn(t *testing.T) {
	c, cr := adopted(t, upstreamSpec)
	_, p := gatherAndRender(t, c, cr)
	c.Own(deploymentIn(t, p).Desired.DeepCopy(), testOwner)
	cert := map[string]string{"tls.crt": "a", "tls.key": "b"}
	for _, name := range []string{"tas-tls", "tas-internal"} {
		c.Put(servingCertificate(name, cert))
	}
	_, p = gatherAndRender(t, c, cr)
	o := deploymentIn(t, p)
	if !o.Partial || !strings.Contains(o.Desired.GetAnnotations()[adoptedWithAnnotation], `"certs":"`) {
		t.Fatal("the first certificates replace the pods, or are not recorded")
	}
	c.Own(o.Desired.DeepCopy(), testOwner)
	c.Put(servingCertificate("tas-tls", map[string]string{"tls.crt": "renewed", "tls.key": "b"}))
	if _, p = gatherAndRender(t, c, cr); deploymentIn(t, p).Partial {
		t.Error("renewed certificates do not reach the pods")
	}
}

// withoutKey reads as the command line does, which cannot compute digests.
type withoutKey struct{ *cluster }

func (withoutKey) Digest(...map[string][]byte) string { return digest.Redacted }

func Test_AdoptedPodsStayWithoutTheKeyOfTheDigests(t *testing.T) {
	c, cr := adopted(t, databaseSpec)
	_, p := gatherAndRender(t, c, cr)
	written := deploymentIn(t, p).Desired
	c.Own(written.DeepCopy(), testOwner)
	s := testSystem()
	facts, err := s.Gather(t.Context(), withoutKey{c}, cr)
	if err != nil {
		t.Fatal(err)
	}
	o := deploymentIn(t, s.Render(cr, facts))
	if got, want := o.Desired.GetAnnotations()[adoptedWithAnnotation], written.GetAnnotations()[adoptedWithAnnotation]; !o.Partial || got != want {
		t.Errorf("the pods were adopted with %s, and would be with %s", want, got)
	}
}

// A write may fail after the owner was taken off and before the rest was written.
func Test_AdoptionGoesOnWhereItWasInterrupted(t *testing.T) {
	c, cr := adopted(t, upstreamSpec)
	d := c.Objects[plan.Key{GroupKind: gvkDeployment.GroupKind(), Namespace: "ns", Name: "tas"}]
	d.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Inventory", Name: "i", UID: "i"}})
	d.SetAnnotations(map[string]string{keeper.OwnerAnnotation: ownerID(cr)})
	for _, cached := range []bool{false, true} {
		if cached {
			c.Children[plan.KeyOf(d)] = d
		}
		if _, p := gatherAndRender(t, c, cr); !deploymentIn(t, p).Partial {
			t.Errorf("cached=%t: the template is declared, which replaces the pods", cached)
		}
	}
}

func Test_ADeploymentOfSomebodyElseIsNotAdopted(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	cr.Status.Phase = "Ready"
	c.Put(parse(t, upstreamDeployment))
	if _, p := gatherAndRender(t, c, cr); deploymentIn(t, p).Partial {
		t.Error("it names no owner, and yet it counts as the original operator's")
	}
}

func Test_TheClaimOfAMigratedServiceIsAdoptedToo(t *testing.T) {
	c, cr := adopted(t, databaseSpec)
	if _, p := gatherAndRender(t, c, cr); find(p, "PersistentVolumeClaim", "tas-pvc") != nil {
		t.Fatal("a claim is made though there is none")
	}
	claim := parse(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: tas-pvc, namespace: ns}
spec: {resources: {requests: {storage: 5Gi}}}
`)
	c.Put(claim)
	if _, p := gatherAndRender(t, c, cr); find(p, "PersistentVolumeClaim", "tas-pvc") != nil {
		t.Fatal("a claim of somebody else is taken")
	}
	claim.SetOwnerReferences([]metav1.OwnerReference{{UID: cr.UID}})
	_, p := gatherAndRender(t, c, cr)
	o := mustFind(t, p, "PersistentVolumeClaim", "tas-pvc")
	if size, _, _ := unstructured.NestedString(o.Object, "spec", "resources", "requests", "storage"); size != "5Gi" {
		t.Errorf("the claim asks for %s", size)
	}
}

func Test_ARenewedAuthorityComesWithTheOneBefore(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	first, _ := stored(t, c, cr)
	c.Time = testNow.Add(pki.AuthorityLife * 3 / 4)
	due, p := gatherAndRender(t, c, cr)
	if due.Certs.CA != first.Certs.CA {
		t.Error("an authority that is not stored is trusted")
	}
	c.Written(p, testOwner)
	stored(t, c, cr)
	renewed, p := stored(t, c, cr)
	own := renewed.Certs.Own[0]
	if bytes.Equal(own.Cert, first.Certs.Own[0].Cert) || string(own.CA) != string(own.Cert)+first.Certs.CA {
		t.Fatalf("%d bytes of trust, of which the new authority has %d", len(own.CA), len(own.Cert))
	}
	if again, _ := gatherAndRender(t, c, cr); again.Certs.Digest != renewed.Certs.Digest || again.Certs.CA != renewed.Certs.CA {
		t.Error("the next reconcile trusts something else, which rolls the pods again")
	}
	data := controller.SecretData(c.Objects[plan.KeyOf(mustFind(t, p, "Secret", "tas-ca"))])
	data["ca.crt"] = append(data["ca.crt"], "garbage"...)
	if authority, trusted := storedAuthority(data, c.Time); authority == nil || string(trusted) != string(own.Cert) {
		t.Error("garbage is trusted")
	}
	c.Time = c.Time.Add(pki.AuthorityLife)
	if last, _ := gatherAndRender(t, c, cr); string(last.Certs.Own[0].CA) != string(last.Certs.Own[0].Cert) {
		t.Error("an expired authority is trusted")
	}
}

func Test_TheFirstCertificatesNeverReplaceOthers(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	check := func(p plan.Plan, want bool) {
		for _, o := range p.Stages[0].Objects {
			if o.Desired.GetKind() == "Secret" && o.IfNotPresent != want {
				t.Errorf("%s: create only is %t", o.Key(), o.IfNotPresent)
			}
		}
	}
	for _, want := range []int{1, 2, 0} {
		_, p := gatherAndRender(t, c, cr)
		first := 0
		for _, o := range p.Stages[0].Objects {
			if o.IfNotPresent {
				first++
			}
		}
		if first != want {
			t.Errorf("%d Secrets are only created, want %d", first, want)
		}
		c.Written(p, testOwner)
	}
	_, p := gatherAndRender(t, c, cr)
	check(p, false)
	c.Time = c.Time.Add(pki.LeafLife - time.Hour)
	_, p = gatherAndRender(t, c, cr)
	check(p, false)
}

// Test_DeploymentWithoutItsMarkIsStillOurs takes the mark of the template off a Deployment that MLKeeper wrote. Taken for
// upstream's, it would be declared without a template, which the API server refuses, and never be repaired again.
func Test_DeploymentWithoutItsMarkIsStillOurs(t *testing.T) {
	c, cr := newCluster(), custom(t, adrSpec)
	c.Put(parse(t, pvYAML))
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, testOwner)
	want := mustFind(t, p, "Deployment", ServiceName(cr))
	live := c.Children[plan.KeyOf(want)]
	marks := live.GetAnnotations()
	delete(marks, templateAnnotation)
	marks[keeper.AppliedHashAnnotation] = "of what was rendered"
	live.SetAnnotations(marks)
	_, p = gatherAndRender(t, c, cr)
	if got := mustFind(t, p, "Deployment", ServiceName(cr)); compactJSON(t, got.Object) != compactJSON(t, want.Object) {
		t.Errorf("it is rendered as %v", got.Object)
	}
}

// Test_TheImageOfTheOriginalOperatorIsReachedWhereItServes: its pods run on at the adoption, whatever image MLKeeper would run.
func Test_TheImageOfTheOriginalOperatorIsReachedWhereItServes(t *testing.T) {
	c, cr := adopted(t, upstreamSpec)
	key := plan.Key{GroupKind: gvkDeployment.GroupKind(), Namespace: "ns", Name: "tas"}
	live := c.Objects[key]
	containers, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["name"], containers[0].(map[string]any)["image"] = serviceContainer, "quay.io/trustyai/trustyai-service:latest"
	_ = unstructured.SetNestedSlice(live.Object, containers, "spec", "template", "spec", "containers")
	for _, name := range []string{"tas-tls", "tas-internal"} {
		c.Put(servingCertificate(name, map[string]string{"tls.crt": "c", "tls.key": "k"}))
	}
	for _, want := range []struct {
		upstream   string
		generation v1.ImageGeneration
	}{
		{":8081", v1.GenerationPython},
		{":8081", v1.GenerationPython},
		// The spec changes, and MLKeeper's image is rolled out.
		{":8080", v1.GenerationJavaTLS},
	} {
		facts, p := gatherAndRender(t, c, cr)
		config := fmt.Sprint(mustFind(t, p, "ConfigMap", "tas-kube-rbac-proxy-config").Object["data"])
		if !strings.Contains(config, want.upstream) || facts.Generation != want.generation {
			t.Errorf("%s: the proxy passes on to %s, and the Deployment waits for %q", facts.Generation, config, deploymentIn(t, p).Hold)
		}
		first := c.Children[key] == nil
		c.Written(p, testOwner)
		c.Own(deploymentIn(t, p).Desired.DeepCopy(), testOwner)
		delete(c.Objects, key)
		if !first {
			cr.Generation, cr.Spec.Metrics.Schedule = 2, "9s"
		}
	}
}

// Test_NoTwoServicesComeToOneNameOfABinding: all namespaces share the names of ClusterRoleBindings.
func Test_NoTwoServicesComeToOneNameOfABinding(t *testing.T) {
	names := map[string]string{}
	for _, namespace := range []string{"a", "b", "a-b", "b-c", "c"} {
		for _, name := range []string{"a", "b", "a-b", "b-c", "c", "x.y", "a-b-c", "trustyai-service"} {
			for _, spec := range []string{upstreamSpec, adrSpec + "  exposure: Secured\n"} {
				cr := custom(t, spec)
				cr.Namespace, cr.Name = namespace, name
				binding := namesOf(cr).proxyBinding
				if other, taken := names[binding]; taken && other != namespace+"/"+name {
					t.Errorf("%s is that of %s/%s and of %s", binding, namespace, name, other)
				}
				names[binding] = namespace + "/" + name
			}
		}
	}
}

// Test_TheBindingOfTheOriginalOperatorIsKnownByItsOwner: neither its name nor what a tenant can write makes a ClusterRoleBinding the child
// of a custom resource.
func Test_TheBindingOfTheOriginalOperatorIsKnownByItsOwner(t *testing.T) {
	const old, own = "tas-ns-proxy-rolebinding", "mlkeeper:trustyai-proxy:ns:tas"
	bindings := func(owner string) string {
		c, cr := adopted(t, upstreamSpec)
		binding := parse(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: "+old+"}")
		switch owner {
		case "nobody":
		case "nothing":
			binding = parse(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: other}")
		case "it":
			owner = string(cr.UID)
			fallthrough
		default:
			binding.SetOwnerReferences([]metav1.OwnerReference{{Kind: "TrustyAIService", Name: "tas", UID: types.UID(owner)}})
		}
		c.Put(binding)
		_, p := gatherAndRender(t, c, cr)
		var out []string
		for _, o := range p.Stages[0].Objects {
			if o.Desired.GetKind() == "ClusterRoleBinding" {
				out = append(out, o.Desired.GetName())
			}
		}
		return strings.Join(out, " ")
	}
	for owner, want := range map[string]string{"it": old, "another": own, "nobody": own, "nothing": own} {
		if got := bindings(owner); got != want {
			t.Errorf("where the binding refers to %s, the plan has %q", owner, got)
		}
	}
}
