package trustyai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// Test_TheServiceOfADatabase: only a Service of the namespace is judged, by any of its names.
func Test_TheServiceOfADatabase(t *testing.T) {
	for host, want := range map[string]string{
		"db": "db", "DB": "db", "db.ns": "db", "db.ns.svc": "db", "db.ns.svc.cluster.local": "db", "db.ns.svc.cluster.local.": "db",
		"db.other": "", "db.other.svc": "", "db.other.svc.cluster.local": "", "db.ns.svc.example.org": "", "db.ns.svc.cluster.local.example.org": "",
		"db-0.db.ns.svc": "", "db.example.org": "", "ns": "ns", "db.": "", ".ns": "", "": "", "localhost": "", "10.0.0.1": "", "2130706433": "", "::1": "",
		"db\n": "", "db:3306": "", "db/../secrets": "", "${HOST}": "", strings.Repeat("d", 64): "",
	} {
		if got := ownService(host, "ns", "cluster.local"); got != want {
			t.Errorf("%q is taken for the Service %q, not %q", host, got, want)
		}
	}
	if got := ownService("db.ns.svc.corp.example", "ns", "corp.example"); got != "db" {
		t.Errorf("in a cluster with another domain it is %q", got)
	}
}

// liveObjects answers the reads of a job, and notes them.
type liveObjects struct {
	service   *unstructured.Unstructured
	slices    []unstructured.Unstructured
	forbidden string
	reads     []string
}

func (l *liveObjects) List(
	_ context.Context, gvk schema.GroupVersionKind, namespace, selector string, limit int64,
) ([]unstructured.Unstructured, error) {
	l.reads = append(l.reads, fmt.Sprintf("list %s %s %s", gvk.Kind, namespace, selector))
	if l.forbidden == gvk.Kind {
		return nil, errors.New("forbidden")
	}
	return l.slices[:min(int64(len(l.slices)), limit)], nil
}

func (l *liveObjects) ListAs(context.Context, string, schema.GroupVersionKind, string, int) ([]unstructured.Unstructured, error) {
	return nil, errors.New("nobody else's rights are used")
}

func (l *liveObjects) Get(_ context.Context, user string, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	l.reads = append(l.reads, fmt.Sprintf("get %s %s %s%s", gvk.Kind, namespace, name, user))
	if l.forbidden == gvk.Kind {
		return nil, errors.New("forbidden")
	}
	return l.service, nil
}

// objectOf is an object with a body in YAML; nil for an empty one.
func objectOf(t *testing.T, body string) *unstructured.Unstructured {
	t.Helper()
	if body == "" {
		return nil
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(body), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// Test_WhatTheAPISaysAgainstADatabase: what is absent or not ready is told, and what is not known is not.
func Test_WhatTheAPISaysAgainstADatabase(t *testing.T) {
	const (
		service  = `{spec: {clusterIP: 10.0.0.7, ports: [{port: 8080, protocol: TCP}, {port: 3306, protocol: TCP}]}}`
		unready  = `{endpoints: [{addresses: [10.1.0.1], conditions: {ready: false}}]}`
		ready    = `{endpoints: [{addresses: [10.1.0.1], conditions: {ready: false}}, {addresses: [10.1.0.2], conditions: {ready: true}}]}`
		unsaid   = `{endpoints: [{addresses: [10.1.0.1]}]}`
		external = `{spec: {type: ExternalName, externalName: db.example.org}}`
		headless = `{spec: {clusterIP: None}}`
	)
	many := strings.Split(strings.Repeat(unready+"\n", maxSlices), "\n")[:maxSlices]
	for _, tc := range []struct {
		name, service, port string
		slices              []string
		forbidden           string
		want                databaseAnswer
		reads               int
	}{
		{"ready", service, "3306", []string{unready, ready}, "", "", 2},
		{"ready, as far as is said", service, "3306", []string{unsaid}, "", "", 2},
		{"no Service", "", "3306", []string{ready}, "", "DBServiceNotFound", 1},
		{"no port", service, "3307", []string{ready}, "", "DBPortNotFound", 1},
		{"a port of another protocol", `{spec: {clusterIP: 10.0.0.7, ports: [{port: 3306, protocol: UDP}]}}`, "3306", nil, "", "DBPortNotFound", 1},
		{"a port without a protocol", `{spec: {clusterIP: 10.0.0.7, ports: [{port: 3306}]}}`, "3306", []string{ready}, "", "", 2},
		{"no number", service, "3306\n", []string{ready}, "", "", 2},
		{"no EndpointSlice", service, "3306", nil, "", "DBServiceNotReady", 2},
		{"no endpoint", service, "3306", []string{`{endpoints: null}`}, "", "DBServiceNotReady", 2},
		{"no ready endpoint", service, "3306", []string{unready, unready}, "", "DBServiceNotReady", 2},
		{"more than are read", service, "3306", many, "", "", 2},
		{"headless", headless, "3306", []string{ready}, "", "", 2},
		{"headless, and not ready", headless, "3306", nil, "", "DBServiceNotReady", 2},
		{"elsewhere", external, "3306", nil, "", "", 1},
		{"Services may not be read", service, "3307", nil, "Service", "", 1},
		{"EndpointSlices may not be listed", service, "3306", nil, "EndpointSlice", "", 2},
		{"no Service that can be read", `{spec: {ports: 1}}`, "3306", nil, "", "", 1},
		{"no EndpointSlice that can be read", service, "3306", []string{`{endpoints: 1}`}, "", "", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			live := &liveObjects{service: objectOf(t, tc.service), forbidden: tc.forbidden}
			for _, text := range tc.slices {
				live.slices = append(live.slices, *objectOf(t, text))
			}
			answer, _ := databaseQuestion("ns", "db", tc.port)(t.Context(), live).(databaseAnswer)
			if answer != tc.want || answer.Retry() != controller.RetryPassing {
				t.Errorf("the answer is %q, to be asked for again within %s", answer, answer.Retry())
			}
			want := []string{"get Service ns db", "list EndpointSlice ns kubernetes.io/service-name=db"}
			if !slices.Equal(live.reads, want[:tc.reads]) {
				t.Errorf("%q were read", live.reads)
			}
		})
	}
}

// withoutPods is a cluster with credentials whose values occur nowhere else, and a Deployment that has so many ready pods of two.
func withoutPods(t *testing.T, text string, ready int64) (*cluster, Facts, plan.Plan) {
	t.Helper()
	c, cr := newCluster(), custom(t, text)
	cr.Spec.Replicas = pointer(int32(2))
	c.Put(secretOf2("ns", "db", map[string]string{
		"databaseKind": "mariadb", "databaseUsername": "u", "databasePassword": "p", "databaseService": hiddenHost, "databasePort": hiddenPort,
		"databaseName": "d", "databaseGeneration": "update",
	}))
	_, p := gatherAndRender(t, c, cr)
	if len(c.Asked) > 0 {
		t.Fatalf("%v was asked before there are pods", c.Asked)
	}
	c.Written(p, ownerID(cr))
	c.Get(plan.Key{GroupKind: gvkDeployment.GroupKind(), Namespace: "ns", Name: "tas"}).Object["status"] = map[string]any{"readyReplicas": ready}
	facts, p := gatherAndRender(t, c, cr)
	return c, facts, p
}

// plainDatabaseSpec is without certificates, which are other ones in each plan.
var plainDatabaseSpec = strings.Replace(databaseSpec, "spec:", "spec:\n  exposure: Plain", 1)

const hiddenHost, hiddenPort = "hidden-host", "33061"

// Test_TheAPISpeaksWhileNoPodIsReady: it is asked while no pod is ready, told with its remedy and without a value of the Secret, and holds
// nothing back.
func Test_TheAPISpeaksWhileNoPodIsReady(t *testing.T) {
	for reason, word := range map[string]string{
		"DBServiceNotFound": "create it", "DBPortNotFound": "databasePort", "DBServiceNotReady": "no ready endpoint",
	} {
		c, before, unanswered := withoutPods(t, plainDatabaseSpec, 0)
		if len(c.Asked) != 1 || c.Asked[0].Every != controller.RetryPassing || before.Database.Failure != "" || !before.Database.Asked {
			t.Fatalf("%+v was asked, and is answered with %+v", c.Asked, before.Database)
		}
		c.Answers[c.Asked[0].Name] = databaseAnswer(reason)
		cr := custom(t, plainDatabaseSpec)
		cr.Spec.Replicas = pointer(int32(2))
		facts, p := gatherAndRender(t, c, cr)
		if !bytes.Equal(print(t, p), print(t, unanswered)) || len(p.Problems) > 0 {
			t.Errorf("%s changes the plan: %v", reason, p.Problems)
		}
		unready := seen(p, func(u *unstructured.Unstructured) bool {
			if u.GetKind() == "Deployment" {
				u.Object["status"] = map[string]any{"observedGeneration": int64(1), "replicas": int64(2)}
			}
			return true
		})
		verdict := testSystem().Project(cr, facts, unready)
		told := condition(cr, ConditionDBAvailable)
		if !strings.HasPrefix(told, "False/"+reason+"/") || !strings.Contains(told, word) || !strings.Contains(told, "databaseService of the Secret db") {
			t.Errorf("DBAvailable is %s", told)
		}
		if condition(cr, ConditionStorageReady) != told || verdict.Reason != reason || "False/"+reason+"/"+verdict.Progress != told {
			t.Errorf("StorageReady is %s, the verdict %+v", condition(cr, ConditionStorageReady), verdict)
		}
		stays := cr.DeepCopy()
		testSystem().Project(stays, before, unready)
		if compactJSON(t, stays.Status) != compactJSON(t, cr.Status) {
			t.Errorf("before the first answer of another manager the status is %s", compactJSON(t, stays.Status))
		}
		facts.Database.Failure = ""
		testSystem().Project(stays, facts, unready)
		if got := condition(stays, ConditionDBAvailable); !strings.HasPrefix(got, "Unknown/DBNotChecked/") {
			t.Errorf("after an answer that says nothing DBAvailable is %s", got)
		}
		status := compactJSON(t, cr.Status) + fmt.Sprintf("%+v %+v %s", verdict, facts.Database, c.Asked[0].Name)
		if strings.Contains(status, hiddenHost) || strings.Contains(status, hiddenPort) {
			t.Errorf("a value of the Secret is told: %s", status)
		}
	}
}

// Test_AReadyPodKnowsBetter: one that is ready has reached the database, whatever the API says, and it is not asked any more.
func Test_AReadyPodKnowsBetter(t *testing.T) {
	c, facts, p := withoutPods(t, plainDatabaseSpec, 1)
	if len(c.Asked) > 0 {
		t.Errorf("%+v was asked beside a ready pod", c.Asked)
	}
	facts.Database.Failure = reasonDBServiceNotReady
	for replicas, want := range map[int64]string{1: "True/DBAvailable/", 2: "Unknown/DBNotChecked/"} {
		cr := custom(t, plainDatabaseSpec)
		testSystem().Project(cr, facts, seen(p, func(u *unstructured.Unstructured) bool {
			return u.GetKind() != "Deployment" || unstructured.SetNestedField(u.Object, replicas, "spec", "replicas") == nil
		}))
		if got := condition(cr, ConditionDBAvailable); !strings.HasPrefix(got, want) {
			t.Errorf("with a ready pod of %d DBAvailable is %s", replicas, got)
		}
	}
}

// Test_NobodyAsksForADatabaseThatIsNotUsed: neither for a service without pods, nor by credentials that name a host elsewhere.
func Test_NobodyAsksForADatabaseThatIsNotUsed(t *testing.T) {
	c, cr := newCluster(), custom(t, plainDatabaseSpec)
	cr.Spec.Replicas = pointer(int32(0))
	c.Put(credentials("p"))
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerID(cr))
	gatherAndRender(t, c, cr)
	elsewhere := custom(t, plainDatabaseSpec)
	c.Put(secretOf2("ns", "db", map[string]string{
		"databaseKind": "mariadb", "databaseUsername": "u", "databasePassword": "p", "databaseService": "db.other.svc", "databasePort": "1", "databaseName": "d",
	}))
	_, p = gatherAndRender(t, c, elsewhere)
	c.Written(p, ownerID(elsewhere))
	gatherAndRender(t, c, elsewhere)
	if len(c.Asked) > 0 {
		t.Errorf("%+v was asked", c.Asked)
	}
}

// Test_OtherCredentialsAreAnotherQuestion: it is asked at once, and not after the pause of the one before.
func Test_OtherCredentialsAreAnotherQuestion(t *testing.T) {
	c, _, _ := withoutPods(t, plainDatabaseSpec, 0)
	c.Put(credentials("other"))
	cr := custom(t, plainDatabaseSpec)
	gatherAndRender(t, c, cr)
	gatherAndRender(t, c, cr)
	if len(c.Asked) != 3 || c.Asked[0].Name == c.Asked[1].Name || c.Asked[1].Name != c.Asked[2].Name {
		t.Errorf("%+v was asked", c.Asked)
	}
}
