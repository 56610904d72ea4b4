package kserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
)

// secrets are the Secrets of the participant with payloads.
func (s *site) secrets() []corev1.Secret {
	s.t.Helper()
	list := &corev1.SecretList{}
	s.must(s.c.Client.List(context.Background(), list, client.InNamespace(cluster.OperatorNamespace), client.HasLabels{keeper.PayloadLabel}))
	return slices.DeleteFunc(list.Items, func(one corev1.Secret) bool {
		participant, _ := record.PayloadMarks(&one)
		return participant != s.runtime.Participant
	})
}

// payloads is an error while there is another number of these Secrets, or one that nothing owns.
func (s *site) payloads(want int) error {
	got := s.secrets()
	for i := range got {
		if len(got[i].OwnerReferences) != 1 {
			return fmt.Errorf("nothing owns Secret %s", got[i].Name)
		}
	}
	if len(got) != want {
		return fmt.Errorf("there are %d Secrets with payloads, not %d", len(got), want)
	}
	return nil
}

// marked are the cluster-scoped objects, of all kinds that a client may list, whose text has a mark.
func marked(t *testing.T, config *rest.Config, mark string) (found []string, read map[string]int) {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	as, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	read = map[string]int{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			if r.Namespaced || !slices.Contains(r.Verbs, "list") {
				continue
			}
			objects := &unstructured.UnstructuredList{}
			objects.SetAPIVersion(list.GroupVersion)
			objects.SetKind(r.Kind + "List")
			err := as.List(context.Background(), objects)
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range objects.Items {
				text, err := objects.Items[i].MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if read[r.Kind]++; strings.Contains(string(text), mark) {
					found = append(found, fmt.Sprintf("%s %s: %s", r.Kind, objects.Items[i].GetName(), text))
				}
			}
		}
	}
	return found, read
}

// viewer is a user with the role that is shipped for who may see what was ordered.
func (s *site) viewer() *rest.Config {
	s.t.Helper()
	user := "viewer-" + s.ns
	s.c.Apply(s.t, "../../config/rbac/kserve/compositionelement-viewer-role.yaml")
	s.c.Kubectl(s.t, "create", "clusterrolebinding", user, "--clusterrole=mlkeeper-compositionelement-viewer-role", "--user="+user)
	s.t.Cleanup(func() { s.c.Kubectl(s.t, "delete", "clusterrolebinding", user) })
	out := rest.CopyConfig(s.c.Config)
	out.Impersonate.UserName = user
	return out
}

// secretive is a model with a mark in an environment value.
func (s *site) secretive(mark string, replicas int) map[string]any {
	spec := sklearn(replicas)
	model := spec["predictor"].(map[string]any)["model"].(map[string]any)
	model["env"] = []any{map[string]any{"name": "AWS_SECRET_ACCESS_KEY", "value": mark}}
	return s.model("secretive", spec)
}

// untellable fails if the status of an element has a hash of its service that whoever guesses the service can compute.
func (s *site) untellable(element string) {
	s.t.Helper()
	e := s.element(element)
	if e == nil || len(e.Status.Inventory.Entries) != 1 {
		s.t.Fatalf("the service is not recorded: %+v", e)
	}
	recorded := e.Status.Inventory.Entries[0]
	live := &unstructured.Unstructured{}
	live.SetAPIVersion("serving.kserve.io/v1beta1")
	live.SetKind("InferenceService")
	s.must(s.c.Client.Get(context.Background(), client.ObjectKey{Namespace: recorded.Namespace, Name: recorded.Name}, live))
	seen := observe.From(live, false)
	if recorded.AppliedHash == "" || recorded.AppliedHash == seen.AppliedHash() || recorded.OwnedFieldsHash == seen.OwnedFieldsHash {
		s.t.Errorf("recorded is %+v, and the hashes of the service are %s and %s", recorded, seen.AppliedHash(), seen.OwnedFieldsHash)
	}
}

// TestViewersSeeNoPayload: neither a user with the role that is shipped nor an administrator finds a property of a payload in a cluster-scoped
// object, in whatever state an element, a composition or an order is. The Secrets go with what they are of.
func TestViewersSeeNoPayload(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	mark := "hunter2-" + uuid.NewString()
	viewer := s.viewer()
	unseen := func(when string, kinds ...string) {
		t.Helper()
		for who, config := range map[string]*rest.Config{"a viewer": viewer, "an administrator": s.c.Config} {
			found, read := marked(t, config, mark)
			for _, one := range found {
				t.Errorf("%s: %s sees %s", when, who, one)
			}
			for _, kind := range kinds {
				if read[kind] == 0 {
					t.Errorf("%s: %s sees no %s", when, who, kind)
				}
			}
		}
	}
	c := s.primed(map[string]any{"shared": mark})
	i := s.deployed(c, s.secretive(mark, 1))
	unseen("deployed", "CompositionElement", "CompositionDefinition")
	s.untellable(i.Elements[0].ID)
	// The composition, and the content.
	s.c.Eventually(t, patience, func() error { return s.payloads(2) })

	s.must(s.runtime.Update(within(t), i, s.secretive(mark, 2)))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	if e := s.element(i.Elements[0].ID); e == nil || e.Spec.Previous == nil || e.Spec.Previous.Payload == nil {
		t.Errorf("what ran before the update is not kept: %+v", e)
	}
	unseen("updated", "CompositionElement")
	s.c.Eventually(t, patience, func() error { return s.payloads(3) })
	s.must(s.runtime.Review(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	unseen("reviewed", "CompositionElement")

	s.runtime.Withhold(within(t), true)
	another := s.primed(map[string]any{"shared": mark})
	waiting := s.instance(another, s.model("waiting", sklearn(1)))
	s.must(s.runtime.Deploy(within(t), waiting))
	s.must(s.runtime.Await(within(t), "it is asked for", func() bool { return s.runtime.Seen("PARTICIPANT_REQ_SYNC_MSG") > 0 }))
	unseen("pending", "PendingOrder")
	s.runtime.Withhold(within(t), false)
	s.must(s.runtime.AwaitInstance(within(t), waiting, "DEPLOYED", "NO_ERROR"))

	as, err := client.New(viewer, client.Options{})
	s.must(err)
	if err := as.List(context.Background(), &corev1.SecretList{}, client.InNamespace(cluster.OperatorNamespace)); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer may list Secrets: %v", err)
	}
	for _, instance := range []*acmruntime.Instance{i, waiting} {
		s.must(s.runtime.Undeploy(within(t), instance))
		s.must(s.runtime.AwaitInstance(within(t), instance, "UNDEPLOYED", "NO_ERROR"))
		s.must(s.runtime.Delete(within(t), instance))
		s.must(s.runtime.AwaitInstance(within(t), instance, "DELETED", "NO_ERROR"))
	}
	s.c.Eventually(t, patience, func() error { return s.payloads(2) })
	s.clean()
	s.c.Eventually(t, patience, func() error { return s.payloads(0) })
}

// TestPayloadsOfEarlierReleases: an earlier release has stored the properties in the custom resources. They are moved, and what runs is not
// touched.
func TestPayloadsOfEarlierReleases(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	mark := "hunter2-" + uuid.NewString()
	properties := s.secretive(mark, 1)
	i := s.deployed(s.primed(map[string]any{}), properties)
	id, before := i.Elements[0].ID, s.service("secretive")
	s.operator.Stop()
	text, err := json.Marshal(properties)
	s.must(err)
	e := s.element(id)
	e.Spec.Content.Payload, e.Spec.Content.Properties = nil, &runtime.RawExtension{Raw: text}
	s.must(s.c.Client.Update(context.Background(), e))
	s.must(s.c.Client.DeleteAllOf(context.Background(), &corev1.Secret{}, client.InNamespace(cluster.OperatorNamespace), client.HasLabels{keeper.PayloadLabel}))
	definition := &keeper.CompositionDefinition{}
	s.must(s.c.Client.Get(context.Background(), client.ObjectKey{Name: i.Composition.ID}, definition))
	definition.Spec.Payload, definition.Spec.Elements[0].Properties = nil, &runtime.RawExtension{Raw: []byte(`{"shared":"` + mark + `"}`)}
	s.must(s.c.Client.Update(context.Background(), definition))
	s.start()
	s.c.Eventually(t, patience, func() error {
		if found, _ := marked(t, s.c.Config, mark); len(found) > 0 {
			return errors.New(found[0])
		}
		return s.payloads(2)
	})
	s.operator.Settle(t, patience)
	if now := s.service("secretive"); now == nil || now.GetUID() != before.GetUID() || now.GetGeneration() != before.GetGeneration() {
		t.Errorf("the service is %v, it was %v", now, before)
	}
	s.must(s.runtime.Update(within(t), i, s.secretive(mark, 2)))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	if err := wantReplicas(s.service("secretive"), 2); err != nil {
		t.Error(err)
	}
}

// TestRestoredPayloads: the policies of the installation let the participant own Secrets that somebody has restored from a backup.
func TestRestoredPayloads(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	i := s.deployed(s.primed(map[string]any{}), s.secretive("1", 1))
	s.c.Eventually(t, patience, func() error { return s.payloads(2) })
	s.operator.Stop()
	for _, one := range s.secrets() {
		s.must(s.c.Client.Delete(context.Background(), &one))
		one.ResourceVersion, one.UID, one.OwnerReferences, one.ManagedFields = "", "", nil, nil
		s.must(s.c.Client.Create(context.Background(), &one, client.FieldOwner("kubectl-create")))
	}
	s.start()
	s.c.Eventually(t, patience, func() error { return s.payloads(2) })
	s.must(s.runtime.Update(within(t), i, s.secretive("2", 2)))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
}
