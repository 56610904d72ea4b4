package laws

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"mlkeeper.dev/test/cluster"
)

// stands fails when the Inventories of a bundle, or what they own, do not last for a while.
func (b *bench) stands(name string) {
	b.Helper()
	want := len(b.inventories(name))
	cluster.Consistently(b, while, func() error {
		if n := len(b.inventories(name)); n != want || n == 0 {
			return fmt.Errorf("%d Inventories of %d stand", n, want)
		}
		if b.must(clusterRoleGVK, "", b.ns+"-role").GetDeletionTimestamp() != nil {
			return fmt.Errorf("the ClusterRole is being deleted")
		}
		return nil
	})
}

func TestLaw04AnAnswerThatIsNotNotFoundMeansWait(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.staged(b.namespace()))
	b.ready("b")
	uid := string(b.bundle("b").UID)
	code, reason := http.StatusInternalServerError, "InternalError"
	refuse := func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, b.ns+"/bundles/b") {
			return answer(r, code, reason)
		}
		return nil
	}
	b.journal.hook(refuse)
	mark := b.journal.mark()
	b.delete(bundleGVK, b.ns, "b")
	asked := func() error {
		if len(b.journal.since(mark, func(r request) bool {
			return r.method == http.MethodGet && strings.HasSuffix(r.path, b.ns+"/bundles/b")
		})) == 0 {
			return fmt.Errorf("nobody asked whether %s is gone", uid)
		}
		return nil
	}
	cluster.Eventually(t, patience, asked)
	b.stands("b")
	b.op.Stop()
	code, reason = http.StatusForbidden, "Forbidden"
	mark = b.journal.mark()
	b.restart()
	cluster.Eventually(t, patience, asked)
	b.stands("b")
	b.journal.hook(nil)
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.noInventories("b")
}

func TestLaw04AnotherShardDoesNotTearDown(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.staged(b.namespace()))
	b.ready("b")
	b.op.Stop()
	b.delete(bundleGVK, b.ns, "b")
	b.gone(bundleGVK, b.ns, "b")
	other := b.opts.Options
	other.Engine.ShardSelector = labels.SelectorFromSet(labels.Set{shardLabel: "of-somebody-else"})
	op := b.operator(other)
	b.stands("b")
	op.Stop()
	b.restart()
	b.noInventories("b")
	b.gone(clusterRoleGVK, "", b.ns+"-role")
}

func TestLaw04AnotherOfTheSameNameIsAnotherOwner(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	b.apply("b", b.staged(other))
	b.ready("b")
	old := b.bundle("b").UID
	b.op.Stop()
	b.delete(bundleGVK, b.ns, "b")
	b.gone(bundleGVK, b.ns, "b")
	spec := b.staged(other)
	spec.Stages[1].Objects = append(spec.Stages[1].Objects, configMap(b.ns, "new", "v"))
	b.apply("b", spec)
	b.restart()
	b.ready("b")
	cluster.Eventually(t, patience, func() error {
		invs := b.inventories("b")
		for _, inv := range invs {
			if inv.Spec.Owner.UID == old {
				return fmt.Errorf("Inventory %s of the old one stands", inv.Name)
			}
		}
		if len(invs) != 2 {
			return fmt.Errorf("%d Inventories of the new one", len(invs))
		}
		return nil
	})
	b.ready("b")
	b.stands("b")
	b.value("new", "v")
}

func TestLaw04WithTheDefinitionGoneEverythingGoes(t *testing.T) {
	t.Parallel()
	b := open(t, options{Cluster: cluster.Start(t)})
	other := b.namespace()
	b.apply("b", b.staged(other))
	b.ready("b")
	// Nobody sees the custom resource go, since the operator does not run.
	b.op.Stop()
	b.delete(definitionGVK, "", "bundles.test.mlkeeper.dev")
	b.gone(definitionGVK, "", "bundles.test.mlkeeper.dev")
	b.must(clusterRoleGVK, "", b.ns+"-role")
	b.restart()
	b.noInventories("b")
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.gone(configMapGVK, other, "far")
}
