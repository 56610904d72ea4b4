package faults

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// look is how often a run looks whether what it waits for has come. It asks its own memory, never the cluster.
const look = 5 * time.Millisecond

// errLate is the failure of a run that does not come to its end.
var errLate = errors.New("not within the time")

// await waits until a condition holds.
func (r *run) await(what string, check func() error) error {
	deadline := time.Now().Add(r.suite.Patience)
	for {
		err := check()
		if err == nil {
			return nil
		}
		r.remedy()
		// A fault that lasts, or comes late, begins the time anew.
		if over := r.faultsOver(); over.Add(r.suite.Patience).After(deadline) {
			deadline = over.Add(r.suite.Patience)
		}
		if last := r.history.last().Add(3 * r.suite.Patience); r.rolling() && last.After(deadline) {
			deadline = last
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %s: %w", errLate, what, err)
		}
		select {
		case <-r.ctx.Done():
			return fmt.Errorf("%w: %s: %w", errLate, what, err)
		case <-time.After(look):
		}
	}
}

// rolling says that a Deployment of the run is not through with what it was told, which is up to the controllers of
// Kubernetes: on a busy machine they may take minutes, and what is told of it meanwhile is the truth. The time of the
// operator begins when they are done, or when nothing has changed for long, as with pods that no node will ever take.
func (r *run) rolling() bool {
	for _, u := range r.history.all("deployments.apps") {
		if _, ours := replicasOf(u); ours && !current(u) {
			return true
		}
	}
	return false
}

// remedy does what a user does about a custom resource that says that it waits for one: it asks for another attempt.
// Only what the API server called invalid may end so, since that calls for a change (contribution guideline 5); everything
// else must heal by itself.
func (r *run) remedy() {
	f := r.plan.Fault
	over := r.faultsOver()
	hits := r.injected()
	if f == nil || f.Status != http.StatusUnprocessableEntity || r.remedied == hits || over.IsZero() ||
		time.Since(over) < time.Second {
		return
	}
	for key, u := range r.history.all(r.kind.Resource) {
		if c := conditionOf(u, "Stalled"); c == nil || c["status"] != "True" {
			continue
		}
		r.remedied = hits
		r.note("remedy: %s is asked for another attempt", key)
		if err := r.ask(u); err != nil {
			r.note("remedy: %v", err)
		}
	}
}

// ask has a custom resource reconciled at the request of a user.
func (r *run) ask(u *unstructured.Unstructured) error {
	object := r.kind.Resource + "/" + lasting(u.GetName(), r.world.Namespace)
	r.mu.Lock()
	r.spared.add(object, "metadata.annotations."+escape(keeper.ReconcileAtAnnotation))
	r.spared.add(object, "status.lastHandledReconcileAt")
	r.mu.Unlock()
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, keeper.ReconcileAtAnnotation, time.Now().Format(time.RFC3339Nano))
	return r.world.Patch(r.kind.GVK, u.GetName(), body)
}

// progress is for how long an operator may keep to itself how far a custom resource has come, which is no verdict.
const progress = 3 * time.Second

// still waits until no operator wrote and nothing changed for a while, in which everything was told that there is to tell.
func (r *run) still(quiet time.Duration) error {
	return r.await("nothing is written any more", func() error {
		quiet := quiet
		for _, u := range r.history.all(r.kind.Resource) {
			if c := conditionOf(u, "Reconciling"); c != nil && c["status"] == "True" {
				quiet = max(quiet, progress)
			}
		}
		last := r.journal.lastWrite()
		if at := r.history.last(); at.After(last) {
			last = at
		}
		if over := r.trapOver(); over.After(last) {
			last = over
		}
		since := time.Since(last)
		if since < quiet {
			return fmt.Errorf("something happened %s ago", since)
		}
		// Each resource has a watch of its own, and on a busy machine one of them comes after the answers to writes.
		if since < quiet+lag && r.inconsistent() {
			return errors.New("a watch may be behind")
		}
		if r.passDue(quiet) {
			return errors.New("a reconcile is due")
		}
		return nil
	})
}

// verifiable says which webhook of a Service has no caBundle yet: the devcluster fills it in at any time once a pod answers, as
// cert-manager's cainjector does.
func (r *run) verifiable() error {
	for key, u := range r.history.all("") {
		if !strings.Contains(key, "webhookconfigurations.") {
			continue
		}
		webhooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
		for _, one := range webhooks {
			config, _, _ := unstructured.NestedMap(one.(map[string]any), "clientConfig")
			if config["service"] != nil && config["caBundle"] == nil {
				return fmt.Errorf("%s has no caBundle", key)
			}
		}
	}
	return nil
}

// Leaked returns the stacks of the product's goroutines that still run although every operator was stopped.
func Leaked(timeout time.Duration) []string {
	deadline := time.Now().Add(timeout)
	for {
		buffer := make([]byte, 16<<20)
		stacks := strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n")
		var out []string
		for _, one := range stacks {
			if strings.Contains(one, "mlkeeper.dev/internal/") {
				out = append(out, one)
			}
		}
		if len(out) == 0 || time.Now().After(deadline) {
			return out
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// answered says why the last request of a user for a reconcile is not answered yet.
func answered(cr *unstructured.Unstructured) error {
	if cr == nil {
		return errors.New("there is no custom resource")
	}
	handled, _, _ := unstructured.NestedString(cr.Object, "status", "lastHandledReconcileAt")
	if asked := cr.GetAnnotations()[keeper.ReconcileAtAnnotation]; handled != asked {
		return fmt.Errorf("%s was handled last, not %s", handled, asked)
	}
	return nil
}
