package scenario

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/world"
)

const deploymentResource = "/apis/apps/v1/deployments"

// Stack is what the operator writes for one custom resource of a shape, as it was sent. A baseline sends it again for
// another namespace.
type Stack struct {
	source world.Service
	uid    string
	// Creates are the children in the order in which they were made, Accepted and Ready the two writes of the status
	// that the minimum has. Late is what was made only when the service could serve: the entry in ModelMesh's configuration.
	Creates, Late   []world.Request
	Accepted, Ready world.Request
}

// Minimum is the least number of writes that brings the stack to Ready: one per child and two of the status.
func (s Stack) Minimum() int { return len(s.Creates) + len(s.Late) + 2 }

// all are the children in the order in which they were made.
func (s Stack) all() []world.Request { return slices.Concat(s.Creates, s.Late) }

// Resources are the paths of the children's resources, without a namespace.
func (s Stack) Resources() []string {
	var out []string
	for _, r := range s.all() {
		out = append(out, collection(r.Path()))
	}
	return out
}

// late says whether a write is one that waits for the service to serve.
func (s Stack) late(e audit.Entry) bool {
	return slices.ContainsFunc(s.Late, func(r world.Request) bool { return objectAt(r.Path()).Resource == e.Resource })
}

// collection turns /apis/G/V/namespaces/N/R into /apis/G/V/R.
func collection(path string) string {
	before, after, found := strings.Cut(path, "/namespaces/")
	if !found {
		return path
	}
	_, resource, _ := strings.Cut(after, "/")
	return before + "/" + resource
}

// For returns the request as it would be sent for another service, whose custom resource has a UID. The references to
// the owner must be right, or the garbage collector would take the children away.
func (s Stack) For(r world.Request, to world.Service, uid string) world.Request {
	body := bytes.ReplaceAll(r.Body, []byte(s.source.Namespace), []byte(to.Namespace))
	return world.Request{
		Method: r.Method, ContentType: r.ContentType,
		URI:  strings.ReplaceAll(strings.ReplaceAll(r.URI, s.source.Namespace, to.Namespace), s.source.Name, to.Name),
		Body: bytes.ReplaceAll(bytes.ReplaceAll(body, []byte(s.source.Name), []byte(to.Name)), []byte(s.uid), []byte(uid)),
	}
}

// capture runs the operator over one service of each shape, behind a proxy that keeps what it writes.
func (b *Bench) capture(ctx context.Context, shapes ...world.Shape) (map[string]Stack, error) {
	c, id, err := b.boot(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	recorder, err := id.Record()
	if err != nil {
		return nil, err
	}
	defer recorder.Stop()
	kubeconfig, err := id.WriteKubeconfig("recorded.kubeconfig", recorder.URL)
	if err != nil {
		return nil, err
	}
	var services []world.Service
	for _, shape := range shapes {
		// No other text has these names in it, so that they can be replaced.
		services = append(services, world.Service{Shape: shape, Namespace: "captured-ns-" + shape.Name, Name: "captured-name-" + shape.Name})
	}
	if err := c.Prepare(ctx, services); err != nil {
		return nil, err
	}
	op, err := c.Run(ctx, b.Config.Operator, "captured", kubeconfig, world.DefaultLease)
	if err != nil {
		return nil, err
	}
	defer op.Stop(30 * time.Second)
	if err := op.AwaitReady(ctx, time.Minute); err != nil {
		return nil, err
	}
	out := map[string]Stack{}
	for _, s := range services {
		created, _, err := b.bringUp(ctx, c, op.Process, []world.Service{s})
		if err != nil {
			return nil, err
		}
		if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
			return nil, err
		}
		stack, err := stackOf(s, created[s.Key()].uid, recorder.Writes())
		if err != nil {
			return nil, err
		}
		out[s.Shape.Name] = stack
		if err := b.keep(s.Shape.Name, recorder.Writes(), s.Namespace); err != nil {
			return nil, err
		}
	}
	return out, b.burst(ctx, c, op.Process, recorder)
}

// burst brings up some services at once and keeps what was written for the one with the most statuses: under load there
// may be statuses between the accepted and the Ready one that a lone service does not have.
func (b *Bench) burst(ctx context.Context, c *world.Cluster, op *world.Process, recorder *world.Recorder) error {
	services := world.Services(world.ADR, "burst", 0, b.Config.Concurrency)
	if err := c.Prepare(ctx, services); err != nil {
		return err
	}
	if _, _, err := b.bringUp(ctx, c, op, services); err != nil {
		return err
	}
	most, busiest := 0, services[0]
	for _, s := range services {
		n := 0
		for _, r := range recorder.Writes() {
			if strings.HasSuffix(r.Path(), s.StatusPath()) {
				n++
			}
		}
		if n > most {
			most, busiest = n, s
		}
	}
	b.say("in a burst of %d, a service had up to %d statuses", len(services), most)
	busiest.Shape.Name = "burst"
	return b.keep(busiest.Shape.Name, recorder.Writes(), busiest.Namespace)
}

// stackOf picks the writes of one service out of all that were recorded.
func stackOf(s world.Service, uid string, writes []world.Request) (Stack, error) {
	stack := Stack{source: s, uid: uid}
	for _, r := range writes {
		path := r.Path()
		switch {
		case strings.HasSuffix(path, s.StatusPath()):
			if stack.Accepted.Method == "" {
				stack.Accepted = r
			}
			stack.Ready = r
		case r.Method == http.MethodPost && isChild(path, r.Body, s) && stack.Accepted.Method != "":
			stack.Late = append(stack.Late, r)
		case r.Method == http.MethodPost && isChild(path, r.Body, s):
			stack.Creates = append(stack.Creates, r)
		}
	}
	if len(stack.Creates) == 0 || stack.Accepted.Method == "" || !bytes.Contains(stack.Ready.Body, []byte(`"True"`)) {
		return stack, fmt.Errorf("the operator wrote %d children of %s and no status that says Ready", len(stack.Creates), s.Namespace)
	}
	return stack, nil
}

// isChild tells children from leases, events and the Inventories of the operator's own. The ConfigMap with ModelMesh's
// configuration, which a service is wired to, counts as a child: the service does not work without that write.
func isChild(path string, body []byte, s world.Service) bool {
	for _, other := range []string{"/leases", "/events", "/inventories", "reviews"} {
		if strings.HasSuffix(path, other) {
			return false
		}
	}
	// A child that is in no namespace says whose it is.
	return strings.Contains(path, "/namespaces/"+s.Namespace+"/") || bytes.Contains(body, []byte(s.Namespace))
}

// keep writes what was captured with one of the names in it to a file: its order and its statuses show where a write could be saved.
func (b *Bench) keep(file string, writes []world.Request, names ...string) error {
	var out bytes.Buffer
	for _, r := range writes {
		// Events are sent in a form that nobody can read.
		if !strings.Contains(r.URI, "/events") && slices.ContainsFunc(names, func(name string) bool {
			return strings.Contains(r.URI, name) || bytes.Contains(r.Body, []byte(name))
		}) {
			fmt.Fprintf(&out, "%s %s\n%s\n\n", r.Method, r.URI, r.Body)
		}
	}
	return os.WriteFile(b.file("captured-"+file+".txt"), out.Bytes(), 0o644)
}
