package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

var serviceGVR = schema.GroupVersionResource{Group: serviceKind.Group, Version: serviceKind.Version, Resource: "trustyaiservices"}

// prompt is something to do once a command has printed a text.
type prompt struct {
	text string
	do   func(ctx context.Context)
}

// prompted is an output that does what it is prompted to, in order, each once.
type prompted struct {
	bytes.Buffer
	ctx     context.Context
	prompts []prompt
}

func (p *prompted) Write(b []byte) (int, error) {
	if len(p.prompts) > 0 && strings.Contains(string(b), p.prompts[0].text) {
		next := p.prompts[0]
		p.prompts = p.prompts[1:]
		next.do(p.ctx)
	}
	return p.Buffer.Write(b)
}

// runPrompted is run for a command that waits for what happens meanwhile.
func runPrompted(t *testing.T, cmd *cobra.Command, prompts []prompt, args ...string) (stdout string, err error) {
	t.Helper()
	out := &prompted{ctx: context.WithoutCancel(t.Context()), prompts: prompts}
	cmd.SetOut(out)
	cmd.SetErr(out)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func waiting() (u *unstructured.Unstructured, objects []*unstructured.Unstructured) {
	u = liveService("s", "1", "2026-01-01T03:04:05Z")
	withReady(u, "False", "ComponentsNotReady", "Not all service components are ready: waiting for Deployment default/d")
	claim := child(claimGVK, u, "claim", map[string]any{"status": map[string]any{"phase": "Bound"}})
	d := workload(u, 0)
	controller := true
	d.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "x/v1", Kind: "TrustyAIService", Name: "s", UID: "1", Controller: &controller}})
	return u, []*unstructured.Unstructured{u, claim, d}
}

func mustUpdate(ctx context.Context, t *testing.T, dyn *dynamicfake.FakeDynamicClient, gvr schema.GroupVersionResource, u *unstructured.Unstructured) {
	t.Helper()
	if _, err := dyn.Resource(gvr).Namespace("default").Update(ctx, u, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestWaitTellsWhatChangesUntilItIsReady(t *testing.T) {
	u, objects := waiting()
	c, dyn := fakeCluster(t, explainKinds, objects...)
	stdout, err := runPrompted(t, NewWaitCommand(environment(fakeController{}, c)), []prompt{
		{"PersistentVolumeClaim claim: ready", func(ctx context.Context) {
			mustUpdate(ctx, t, dyn, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, workload(u, 1))
		}},
		{"Deployment d: ready", func(ctx context.Context) {
			mustUpdate(ctx, t, dyn, serviceGVR, withReady(u.DeepCopy(), "True", "AllComponentsReady", "fine"))
		}},
	}, "tas/s", "--timeout", "60s")
	if err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	golden(t, "wait-ready.golden.txt", stdout)
	for _, a := range dyn.Actions() {
		if a.GetVerb() == "list" && a.GetResource().Resource == "secrets" {
			t.Error("the values of Secrets were read")
		}
	}
}

func TestWaitSaysAtTheTimeoutWhatIsMissing(t *testing.T) {
	_, objects := waiting()
	c, _ := fakeCluster(t, explainKinds, objects...)
	_, _, err := run(t, NewWaitCommand(environment(fakeController{}, c)), "", "tas/s", "--timeout", "3s")
	if err == nil {
		t.Fatal("it ended well")
	}
	golden(t, "wait-timeout.golden.txt", err.Error()+"\n")
}

func TestWaitEndsWhereWaitingDoesNotHelp(t *testing.T) {
	u, objects := waiting()
	withReady(u, "False", "DuplicateService", "another one is there", map[string]any{"type": "Stalled", "status": "True", "reason": "DuplicateService"})
	c, _ := fakeCluster(t, explainKinds, objects...)
	start := time.Now()
	_, _, err := run(t, NewWaitCommand(environment(fakeController{}, c)), "", "tas/s", "--timeout", "1m")
	if err == nil || !strings.Contains(err.Error(), "does not become Ready without a change") || !strings.Contains(err.Error(), "Delete one of the two") {
		t.Errorf("%v", err)
	}
	if took := time.Since(start); took < grace || took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestWaitForDeletionAwaitsWhatGoesAndNamesWhatStays(t *testing.T) {
	_, objects := waiting()
	c, dyn := fakeCluster(t, explainKinds, objects...)
	remove := func(ctx context.Context, gvr schema.GroupVersionResource, name string) {
		if err := dyn.Resource(gvr).Namespace("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	controller := fakeControllerWith{kinds: []schema.GroupVersionKind{claimGVK}}
	stdout, err := runPrompted(t, NewWaitCommand(environment(controller, c)), []prompt{
		{"PersistentVolumeClaim claim: ready", func(ctx context.Context) {
			remove(ctx, serviceGVR, "s")
			time.AfterFunc(time.Second, func() {
				remove(ctx, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "d")
			})
		}},
	}, "tas/s", "--for", "deleted", "--timeout", "60s")
	if err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	golden(t, "wait-deleted.golden.txt", stdout)
	_, _, err = run(t, NewWaitCommand(environment(controller, c)), "", "tas/s", "--timeout", "5s")
	if err == nil || !strings.Contains(err.Error(), `no TrustyAIService "s"`) {
		t.Errorf("of one that is not there: %v", err)
	}
	stdout, _, err = run(t, NewWaitCommand(environment(controller, c)), "", "tas/s", "--for=deleted", "--timeout", "5s")
	if err != nil || !strings.Contains(stdout, "is gone") {
		t.Errorf("of one that is gone already: %v\n%s", err, stdout)
	}
}

func TestWaitGoesOnWithoutWhatItMayNotWatch(t *testing.T) {
	u, objects := waiting()
	c, dyn := fakeCluster(t, explainKinds, objects...)
	refuse := func(resource string) {
		dyn.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
		})
	}
	refuse("deployments")
	stdout, err := runPrompted(t, NewWaitCommand(environment(fakeController{}, c)), []prompt{
		{"Deployment may not be watched", func(ctx context.Context) {
			mustUpdate(ctx, t, dyn, serviceGVR, withReady(u.DeepCopy(), "True", "AllComponentsReady", "fine"))
		}},
	}, "tas/s", "--timeout", "60s")
	if err != nil || !strings.Contains(stdout, "Deployment may not be watched") || strings.Contains(stdout, "Deployment d: missing") {
		t.Errorf("%v\n%s", err, stdout)
	}
	refuse("trustyaiservices")
	_, _, err = run(t, NewWaitCommand(environment(fakeController{}, c)), "", "tas/s", "--timeout", "20s")
	if err == nil || !strings.Contains(err.Error(), "request the rights get, list and watch") {
		t.Errorf("%v", err)
	}
}

func TestWaitRefusesFlagsThatMeanNothing(t *testing.T) {
	c, _ := fakeCluster(t, explainKinds)
	for _, args := range [][]string{{"tas/s", "--for=never"}, {"tas/s", "--timeout=0s"}, {}} {
		if _, _, err := run(t, NewWaitCommand(environment(fakeController{}, c)), "", args...); err == nil {
			t.Errorf("%v are accepted", args)
		}
	}
}

// fakeControllerWith is a fakeController with further kinds of children.
type fakeControllerWith struct {
	fakeController
	kinds []schema.GroupVersionKind
}

func (r fakeControllerWith) Children() []schema.GroupVersionKind {
	return append(r.fakeController.Children(), r.kinds...)
}
