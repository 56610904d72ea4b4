package kubeflow

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/source"
)

const (
	remoteFolder = "https://example.org/team/more/base?ref=v1.0.0"
	remoteTree   = "git::https://example.org/team/more?ref=v1.0.0"
)

// servers is a store that has another archive at each address, and what was asked of it.
type servers struct {
	*fakeStore
	trees map[string]fstest.MapFS
	fails map[string]error
	stale error
	asked []source.Request
}

func (s *servers) Fetch(ctx context.Context, r source.Request) (*source.Artifact, error) {
	s.asked = append(s.asked, r)
	if err := s.fails[r.URI]; err != nil {
		return nil, err
	}
	tree, found := s.trees[r.URI]
	if !found {
		return nil, &source.Error{Class: source.Terminal, Reason: source.ReasonNotFound, Message: r.URI + ": 404", Remedy: "check the URI"}
	}
	data, err := manifesttest.Pack(tree)
	if err != nil {
		return nil, err
	}
	artifact, err := s.store.Unpack(ctx, "archive", data)
	if err == nil && strings.HasPrefix(r.URI, "git::") {
		artifact.Stale = s.stale
	}
	return artifact, err
}

// aConfigMap is a file with a ConfigMap.
func aConfigMap(name, value string) *fstest.MapFile {
	return &fstest.MapFile{Data: fmt.Appendf(nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: n}, data: {key: %s}}", name, value)}
}

// newServers has a repository with two applications: first refers to a folder elsewhere, second does not.
func newServers(t *testing.T) (*servers, *manager) {
	t.Helper()
	from := &servers{fakeStore: newFakeStore(t), fails: map[string]error{}}
	from.trees = map[string]fstest.MapFS{
		"https://example.test/manifests.tar.gz": {
			"first/kustomization.yaml":  {Data: []byte("resources: ['" + remoteFolder + "']")},
			"second/kustomization.yaml": {Data: []byte("resources: [object.yaml]")},
			"second/object.yaml":        aConfigMap("second", "value"),
		},
		remoteTree: {
			"base/kustomization.yaml":   {Data: []byte("resources: [../beside]")},
			"beside/kustomization.yaml": {Data: []byte("resources: [object.yaml]")},
			"beside/object.yaml":        aConfigMap("first", "one"),
		},
	}
	m := &manager{t: t, from: from.fakeStore, cr: custom("first", "second")}
	m.cr.Spec.Rendering = renderingKustomize
	m.cr.Annotations = map[string]string{}
	m.system, m.cluster = New(Settings{Trusted: true, Sources: from}), controllertest.New(testNow)
	return from, m
}

// again asks for what is there now.
func (m *manager) again() (plan.Plan, string) {
	m.t.Helper()
	m.cr.Annotations[keeper.ReconcileAtAnnotation] += "."
	return m.reconcile()
}

// value is the content of the ConfigMap of the application first.
func value(p plan.Plan) string {
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if o.Desired.GetName() == "first" {
				data, _ := o.Desired.Object["data"].(map[string]any)
				return fmt.Sprint(data["key"])
			}
		}
	}
	return ""
}

// TestWhatAnAddressNamesIsRendered fetches what a kustomization refers to, without credentials, and renders what is new there although the
// repository is as it was.
func TestWhatAnAddressNamesIsRendered(t *testing.T) {
	from, m := newServers(t)
	m.cr.Spec.Repos[0].SecretName = "access"
	secret := object("v1", "Secret", "kubeflow", "access")
	secret.Object["data"] = map[string]any{"token": "czNjcmV0"}
	m.cluster.Put(secret)
	p, objects := m.reconcile()
	if objects != "ConfigMap n/first, ConfigMap n/second" || value(p) != "one" || len(p.Problems)+len(p.Warnings) > 0 {
		t.Fatalf("%s: problems %v, warnings %q", objects, p.Problems, p.Warnings)
	}
	if len(from.asked) != 2 || from.asked[0].Auth.Token != "s3cret" {
		t.Fatalf("asked for %+v", from.asked)
	}
	if r := from.asked[1]; r.URI != remoteTree || !r.Fixed || !r.Before || r.Auth.Token != "" {
		t.Errorf("asked for %+v", r)
	}
	inputs := p.Inputs
	first := m.cluster.Answers[m.cluster.Asked[len(m.cluster.Asked)-1].Name]
	if p, _ := m.again(); m.cluster.Answers[m.cluster.Asked[len(m.cluster.Asked)-1].Name] != first || p.Inputs != inputs {
		t.Error("the same content is rendered again")
	}
	from.trees[remoteTree]["beside/object.yaml"] = aConfigMap("first", "two")
	if p, _ := m.again(); value(p) != "two" || p.Inputs == inputs {
		t.Errorf("with another content there it is %q", value(p))
	}
}

// TestWhatAnAddressNamesIsGone holds that what ran stays, that the other applications go on, and who is told what.
func TestWhatAnAddressNamesIsGone(t *testing.T) {
	from, m := newServers(t)
	if _, objects := m.reconcile(); objects != "ConfigMap n/first, ConfigMap n/second" {
		t.Fatal(objects)
	}
	for _, c := range []struct {
		name   string
		change func()
		class  plan.Class
		reason string
		pause  time.Duration
	}{
		{"404", func() {
			from.fails[remoteTree] = &source.Error{Class: source.Terminal, Reason: source.ReasonNotFound, Message: "404", Remedy: "check"}
		}, plan.Terminal, source.ReasonNotFound, controller.RetryLasting},
		{"no route", func() {
			from.fails[remoteTree] = &source.Error{Class: source.Transient, Reason: source.ReasonUnreachable, Message: "no route"}
		}, plan.Waiting, source.ReasonUnreachable, controller.RetryPassing},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change()
			from.trees["https://example.test/manifests.tar.gz"]["second/object.yaml"] = aConfigMap("second", c.reason)
			p, objects := m.again()
			if objects != "ConfigMap n/first, ConfigMap n/second" || value(p) != "one" {
				t.Errorf("declared is %s, %s", objects, value(p))
			}
			if len(p.Problems) != 1 || p.Problems[0].Class != c.class || p.Problems[0].Reason != c.reason || p.Problems[0].Field != "spec.applications[0]" ||
				!strings.Contains(p.Problems[0].Message, `first/kustomization.yaml: "`+remoteFolder+`" cannot be fetched: `) {
				t.Errorf("%v", p.Problems)
			}
			unavailable := meta.FindStatusCondition(m.cr.Status.Conditions, ConditionSourceUnavailable)
			if unavailable == nil || unavailable.Reason != c.reason || !strings.Contains(unavailable.Message, remoteFolder) {
				t.Errorf("condition %v", unavailable)
			}
			if one := m.cr.Status.Applications[0]; one.Phase != phaseFailed || !strings.Contains(one.Message, remoteFolder) {
				t.Errorf("%+v", one)
			}
			result, _ := m.cluster.Answers[m.cluster.Asked[len(m.cluster.Asked)-1].Name].(*Result)
			if got := result.Retry(); got != c.pause {
				t.Errorf("asked again after %s at most", got)
			}
		})
	}
	clear(from.fails)
	if p, _ := m.again(); len(p.Problems) > 0 || meta.FindStatusCondition(m.cr.Status.Conditions, ConditionSourceUnavailable) != nil {
		t.Errorf("it is back: %v, %v", p.Problems, m.cr.Status.Conditions)
	}
	from.stale = &source.Error{Class: source.Transient, Reason: source.ReasonUnreachable, Message: remoteTree + ": no route"}
	if p, _ := m.again(); len(p.Problems) > 0 || !strings.Contains(strings.Join(p.Warnings, ""), "is used, since they cannot be asked now: "+remoteTree) {
		t.Errorf("what it gave before is used: problems %v, warnings %q", p.Problems, p.Warnings)
	}
}

// TestAddressesThatAreNotFetched holds what the flag and the rendering allow.
func TestAddressesThatAreNotFetched(t *testing.T) {
	for name, c := range map[string]struct {
		bases     RemoteBases
		rendering string
		entry     string
		err       string
	}{
		"pinned":       {entry: remoteFolder},
		"moving":       {entry: "https://example.org/team/more/base", err: "write ?ref="},
		"moving, any":  {bases: AnyBases, entry: "https://example.org/team/more/base"},
		"none":         {bases: NoBases, entry: remoteFolder, err: "is an address"},
		"as by kfctl":  {rendering: "Kfctl", entry: remoteFolder, err: "is an address"},
		"no such file": {entry: "https://example.org/v1.0.0/x.yaml", err: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			from, m := newServers(t)
			if c.rendering != "" {
				m.cr.Spec.Rendering = renderingKfctl
			}
			m.system = New(Settings{Trusted: true, Sources: from, RemoteBases: c.bases})
			from.trees["git::https://example.org/team/more"] = from.trees[remoteTree]
			from.trees["https://example.test/manifests.tar.gz"]["first/kustomization.yaml"].Data = []byte("resources: ['" + c.entry + "']")
			p, objects := m.reconcile()
			switch {
			case c.err == "" && (len(p.Problems) > 0 || !strings.Contains(objects, "ConfigMap n/first")):
				t.Errorf("%s: %v", objects, p.Problems)
			case c.err != "" && (len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Error(), c.err) || !strings.Contains(objects, "/second")):
				t.Errorf("%s: %v", objects, p.Problems)
			}
			if len(from.asked) > 2 || c.err == "is an address" && len(from.asked) > 1 {
				t.Errorf("asked for %+v", from.asked)
			}
		})
	}
	if RemoteBases("pinned").Check() != nil || RemoteBases("all").Check() == nil {
		t.Error("the flag is not checked")
	}
}
