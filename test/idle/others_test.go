package idle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// rounds is how often each object is written by others.
const rounds = 5

// TestQuietWhileOthersWrite has others write what they write into healthy objects again and again: a router that admits its Route
// anew, KServe's manager and Kubernetes' controllers that note the time in conditions, somebody's annotations. No child and no
// status changes by that, no timer is left, and nothing is read live but each Secret that was written, and the ConfigMap of KServe's
// loggers, whose contents no watch of metadata shows.
func TestQuietWhileOthersWrite(t *testing.T) {
	w := newWorld(t, len(fixture.Shapes))
	w.settle(t)
	api, err := dynamic.NewForConfig(w.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	before, statuses, written := w.activity(t), 0, 0
	for _, s := range w.services {
		for _, o := range append(s.Children(t, w.cluster), targetsOf(s)...) {
			if w.cluster.Get(t, o.GVK, o.Namespace, o.Name) == nil {
				continue // Not every shape has each target.
			}
			other := resource(t, w.cluster, api, o)
			for range rounds {
				if o.GVK.Kind != "InferenceService" { // KServe hands on its annotations to the pods, which begin anew.
					annotate(t, other, o.Name)
				}
				if o.GVK.Kind == "Secret" || o.Name == "kserve-logger-ca-bundle" {
					written++
				}
				statuses += noteTheTime(t, other, o.Name)
			}
		}
	}
	if statuses < 5*rounds {
		t.Fatalf("only %d statuses had a time in them", statuses)
	}
	w.settle(t)
	since := w.operator.Requests.Since(before.requests)
	writes := cluster.Sum(since, cluster.Request.Write, "leases")
	reads := cluster.Sum(since, cluster.Request.Read, "leases", "secrets", "configmaps")
	contents := cluster.Sum(since, func(r cluster.Request) bool {
		return r.Read() && (r.Resource == "secrets" || r.Resource == "configmaps")
	})
	if writes > 0 || reads > 0 || contents > written {
		t.Errorf("%d writes, %d reads, %d reads of contents, which were written %d times:\n%s",
			writes, reads, contents, written, cluster.Describe(since))
	}
	for _, s := range w.services {
		s.AwaitReady(t, w.cluster)
		harness.NoTimer(t, w.cluster, fixture.GVK, s.Namespace, s.Name)
	}
}

// targetsOf are the objects of others that a service is wired to, in whatever shape.
func targetsOf(s *fixture.Service) []fixture.Child {
	return []fixture.Child{
		{GVK: schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}, Namespace: s.Namespace, Name: "model"},
		{GVK: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: s.Namespace, Name: "modelmesh"},
		{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: s.Namespace, Name: "model-serving-config"},
	}
}

func annotate(t *testing.T, api dynamic.ResourceInterface, name string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"somebody.example.com/seen":%q}}}`, time.Now().Format(time.RFC3339Nano))
	if _, err := api.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatalf("annotate %s: %v", name, err)
	}
}

// noteTheTime writes another time wherever the status has one, and returns 1 if there was any.
func noteTheTime(t *testing.T, api dynamic.ResourceInterface, name string) int {
	t.Helper()
	times := 0
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		u, err := api.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if times = setTimes(u.Object["status"], time.Now()); times > 0 {
			_, err = api.UpdateStatus(t.Context(), u, metav1.UpdateOptions{FieldManager: "somebody"})
		}
		return err
	})
	if err != nil {
		t.Fatalf("write the status of %s: %v", name, err)
	}
	return min(times, 1)
}

// setTimes sets the times that controllers note in a status, and returns how many there are.
func setTimes(in any, now time.Time) int {
	n := 0
	switch v := in.(type) {
	case map[string]any:
		for key, value := range v {
			if text, ok := value.(string); ok && strings.HasPrefix(key, "last") && strings.HasSuffix(key, "Time") && text != "" {
				v[key] = now.UTC().Format(time.RFC3339)
				n++
				continue
			}
			n += setTimes(value, now)
		}
	case []any:
		for _, value := range v {
			n += setTimes(value, now)
		}
	}
	return n
}
