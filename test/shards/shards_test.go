package shards

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"mlkeeper.dev/internal/engine/shard"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	cluster.Main(m, fixture.CRDs())
}

// scene are two managers and services of both shapes in every shard.
type scene struct {
	*testing.T
	c        *cluster.Cluster
	services []*fixture.Service
	managers []*manager
}

// TestAManagerThatGoesHandsOverWithoutOneWrite has two managers share four shards. One of them ends in an orderly way, returns, and is killed.
// Each time the shards change hands, nothing is written but leases; after that, who holds a shard repairs what is changed in it, and nobody
// else does.
func TestAManagerThatGoesHandsOverWithoutOneWrite(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	binary := build(t)
	// make rbac-minimal counts the requests of the first alone, the deletion of its lease included.
	rights := []cluster.Rights{{Controllers: []string{"trustyai"}}, {}}
	s := &scene{T: t, c: c, managers: []*manager{start(t, c, binary, rights[0]), start(t, c, binary, rights[1])}}
	share(t, c, 2)
	s.serve()
	s.drift("part-of", "both share")

	s.quiet("an orderly end", func() {
		s.managers[0].signal(t, syscall.SIGTERM)
		share(t, c, 1)
	})
	s.drift("version", "one has everything")

	s.quiet("the return", func() {
		s.managers[0] = start(t, c, binary, rights[0])
		share(t, c, 2)
	})
	s.drift("instance", "both share again")

	s.quiet("a crash", func() {
		s.managers[1].signal(t, syscall.SIGKILL)
		share(t, c, 1)
	})
	s.drift("name", "the other one has everything")
}

// serve creates services of both shapes until each shard has one of each.
func (s *scene) serve() {
	for len(s.services) < 8 {
		missing := fixture.Shapes[len(s.services)/4]
		one := &fixture.Service{Namespace: s.c.Namespace(s)}
		if shard.Of(one.Namespace, 4) != len(s.services)%4 {
			continue
		}
		s.services = append(s.services, fixture.CreateIn(s, s.c, missing, one.Namespace))
	}
	for _, one := range s.services {
		one.AwaitReady(s, s.c)
	}
}

// since are the writes of all managers since a time.
func (s *scene) since(at time.Time) []string {
	var out []string
	for _, m := range s.managers {
		out = append(out, m.writes(s.T, s.c, at)...)
	}
	return out
}

// settle waits until no manager has written for three seconds.
func (s *scene) settle() {
	s.Helper()
	cluster.Eventually(s, 2*time.Minute, func() error {
		at := time.Now()
		time.Sleep(3 * time.Second)
		if got := s.since(at); len(got) > 0 {
			return fmt.Errorf("managers still write: %v", got)
		}
		return nil
	})
}

// quiet fails if a manager writes while the shards change hands, or in the ten seconds after that.
func (s *scene) quiet(what string, change func()) {
	s.Helper()
	s.settle()
	at := time.Now()
	change()
	time.Sleep(10 * time.Second)
	if got := s.since(at); len(got) > 0 {
		s.Errorf("%s costs %d writes:\n%s", what, len(got), strings.Join(got, "\n"))
	}
}

// drift changes a label of a Service of every custom resource, and waits until it is repaired. One manager repairs it. The label is another one each time, since one that changes three times in ten minutes is ceded.
func (s *scene) drift(label, what string) {
	s.Helper()
	s.settle()
	at := time.Now()
	changed := map[string]string{}
	for _, one := range s.services {
		children := one.Children(s, s.c)
		i := slices.IndexFunc(children, func(child fixture.Child) bool { return child.GVK.Kind == "Service" })
		changed[one.Namespace] = children[i].Name
		s.c.Kubectl(s, "label", "--overwrite", "service", children[i].Name, "-n", one.Namespace, "app.kubernetes.io/"+label+"=somebody")
	}
	for namespace, name := range changed {
		cluster.Eventually(s, time.Minute, func() error {
			out := s.c.Kubectl(s, "get", "service", name, "-n", namespace, "-o", `jsonpath={.metadata.labels.app\.kubernetes\.io/`+label+`}`)
			if strings.TrimSpace(out) == "somebody" {
				return fmt.Errorf("%s: the Service of %s is not repaired", what, namespace)
			}
			return nil
		})
	}
	s.settle()
	for namespace, name := range changed {
		path := "/namespaces/" + namespace + "/services/" + name
		var writers []string
		for _, m := range s.managers {
			if slices.ContainsFunc(m.writes(s.T, s.c, at), func(request string) bool { return strings.HasSuffix(request, path) }) {
				writers = append(writers, m.account)
			}
		}
		if len(writers) != 1 {
			s.Errorf("%s: the Service of %s was written by %v", what, namespace, writers)
		}
	}
}
