package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// databaseElsewhere is a Service of which nobody can tell whether it answers.
const databaseElsewhere = `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {type: ExternalName, externalName: db.example.org}
`

// databaseWithoutPods is a Service whose database does not run.
const databaseWithoutPods = `
apiVersion: v1
kind: Service
metadata: {name: hidden-host}
spec: {selector: {app: none}, ports: [{port: 33061}]}
`

// reads are those by which the operator looks at the Service of a database.
func reads(counts map[cluster.Request]int) int {
	return cluster.Sum(counts, func(r cluster.Request) bool {
		return r.Verb == "GET" && r.Resource == "services" || r.Verb == "LIST" && r.Resource == "endpointslices"
	})
}

// TestAServiceSaysWhatItsDatabaseLacks: while no pod is ready, the status says that the Service of the database is missing, or not ready. It holds
// no pods back, shows no value of the Secret, is asked for in growing pauses, and ends with the first ready pod.
func TestAServiceSaysWhatItsDatabaseLacks(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	o := start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}})
	end := c.FailPods(t, ns, "Unready")
	before, since := o.Requests.Snapshot(), time.Now()
	c.Apply(t, strings.NewReplacer("databaseService: db", "databaseService: hidden-host", "3306", "33061").Replace(databaseSecret("db")), ns)
	c.Apply(t, withDatabase("tas"), ns)
	says(t, c, ns, "tas", "DBAvailable", metav1.ConditionFalse, "DBServiceNotFound", "databaseService of the Secret db", "create it")
	says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "DBServiceNotFound", "create it", "waiting for Deployment "+ns+"/tas")
	if out := c.Kubectl(t, "-n", ns, "get", "tas", "tas"); !strings.Contains(out, "DBServiceNotFound") {
		t.Errorf("kubectl get shows %s", out)
	}
	explained(t, c, ns, "has no Service of the name that the Secret of the database has as databaseService", "Create the Service, or correct databaseService")
	thePod(t, c, ns)
	c.Apply(t, databaseWithoutPods, ns)
	says(t, c, ns, "tas", "DBAvailable", metav1.ConditionFalse, "DBServiceNotReady", "no ready endpoint")
	says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "DBServiceNotReady", "waiting for Deployment "+ns+"/tas")
	told := c.Kubectl(t, "-n", ns, "get", "tas,events", "-o", "yaml")
	for _, value := range []string{"hidden-host", "33061", "hunter2"} {
		if strings.Contains(told, value) {
			t.Errorf("%s is told:\n%s", value, told)
		}
	}
	asked := 1
	for pause := 5 * time.Second; time.Since(since) > pause; pause *= 2 {
		asked++
	}
	if n := reads(o.Requests.Since(before)); n == 0 || n > 2*asked {
		t.Errorf("%d reads, and the question was due %d times:\n%s", n, asked, cluster.Describe(o.Requests.Since(before)))
	}
	end()
	condition(t, c, ns, "tas", "DBAvailable", metav1.ConditionTrue)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	before = o.Requests.Snapshot()
	cluster.Consistently(t, 6*time.Second, func() error { return nil })
	if n := reads(o.Requests.Since(before)); n > 0 {
		t.Errorf("%d reads beside a pod that is ready:\n%s", n, cluster.Describe(o.Requests.Since(before)))
	}
}
