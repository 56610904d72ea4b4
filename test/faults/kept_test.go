package faults

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// Custom resources come and go rounds times, and mostRounds times as long as something grows. What is kept for each of them grows in
// every round; what is kept for a time may grow by chance in some.
const rounds, mostRounds = 3, 6

// TestNothingIsKeptOfWhatIsGone: custom resources of every kind are created, repaired, changed to what makes no sense and deleted, and
// their namespaces with them. The operator keeps nothing of them in any map.
func TestNothingIsKeptOfWhatIsGone(t *testing.T) {
	if flags.plan != "" {
		return // TestReplay was asked for.
	}
	s := newSuite(t)
	var clock harness.ShiftedClock
	o := harness.Start(t, s.cluster, harness.Options{Engine: engine.Options{Clock: &clock}}, s.controllers()...)
	var grown []string
	var before map[string]int
	for round := 0; round < rounds || len(grown) > 0 && round < mostRounds; round++ {
		// What is kept for a time is dropped at the next occasion.
		clock.Shift(time.Duration(round) * time.Hour)
		s.comeAndGo(t, uint64(round))
		sizes := harness.Sizes(o.Engine)
		if now := larger(before, sizes); round == 1 {
			grown = now
		} else {
			grown = slices.DeleteFunc(grown, func(field string) bool { return !slices.Contains(now, field) })
		}
		for _, field := range grown {
			t.Logf("round %d: %s has %d entries, and had %d", round, field, sizes[field], before[field])
		}
		before = sizes
	}
	for _, field := range grown {
		t.Errorf("%s grows with every custom resource that comes and goes", field)
	}
	for _, field := range lockedMaps(t) {
		if _, counted := before[field]; !counted && unreached[field] == "" {
			t.Errorf("the map %s is not reachable from the engine, so that its size is unknown", field)
		}
	}
}

// larger says which sizes are larger than they were.
func larger(before, after map[string]int) []string {
	var out []string
	for field, n := range after {
		if n > before[field] {
			out = append(out, field)
		}
	}
	slices.Sort(out)
	return out
}

// comeAndGo has a custom resource of every base in a namespace of its own, until that is gone.
func (s *Suite) comeAndGo(t *testing.T, round uint64) {
	t.Helper()
	var wg sync.WaitGroup
	for _, k := range s.kinds {
		for i := range k.Bases {
			if k.Bases[i].Server {
				continue
			}
			random := rand.New(rand.NewPCG(uint64(s.Seed), round)) //nolint:gosec // A sample needs no cryptographic randomness.
			wg.Go(func() {
				if err := s.comesAndGoes(k, &k.Bases[i], random); err != nil {
					t.Errorf("%s/%s: %v", k.Name, k.Bases[i].Name, err)
				}
			})
		}
	}
	wg.Wait()
}

// comesAndGoes creates a custom resource, has its children repaired, changes it at random, and deletes it.
func (s *Suite) comesAndGoes(k *Kind, b *Base, random *rand.Rand) error {
	ops, err := s.changesOf(k, b)
	if err != nil {
		return err
	}
	spec, err := b.spec()
	if err != nil {
		return err
	}
	op := ops[random.IntN(len(ops))]
	changed, err := edited(spec, op.Edits)
	if err != nil {
		return err
	}
	r := s.newMisrun(k, b, Plan{Seed: s.Seed, Kind: k.Name, Workload: b.Name, Campaign: "kept"})
	defer s.recorder.forget(r.world.Namespace)
	defer r.cancel()
	if _, err := r.place(b, spec); err != nil {
		return err
	}
	if err := r.takeLabels(); err != nil {
		return err
	}
	if _, err := r.replace(b, changed, random.IntN(2) == 0); err != nil {
		return fmt.Errorf("%s: %w", op.Name, err)
	}
	r.world.clear()
	return r.endNamespace()
}

// takeLabels changes a label of each child, and waits until it is repaired.
func (r *run) takeLabels() error {
	const theirs = "theirs"
	for key, u := range r.children() {
		label := overwritableLabel(u)
		if label == "" {
			continue
		}
		err := r.jsonPatch(u.DeepCopy(), jsonOp{"replace", "/metadata/labels/" + pointer(label), theirs})
		if errors.Is(err, errNoDrift) {
			continue
		}
		if err != nil {
			return fmt.Errorf("change %s: %w", key, err)
		}
		if err := r.await("the repair of "+key, func() error {
			if now := r.children()[key]; now != nil && now.GetLabels()[label] == theirs {
				return fmt.Errorf("label %s is %s", label, theirs)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// endNamespace deletes the namespace of the run, and waits until it is gone.
func (r *run) endNamespace() error {
	ns := &corev1.Namespace{}
	ns.Name = r.world.Namespace
	if err := r.suite.cluster.Client.Delete(r.ctx, ns); err != nil {
		return fmt.Errorf("delete the namespace: %w", err)
	}
	return r.await("the namespace to be gone", func() error {
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		if err := r.suite.cluster.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns); err != nil {
			return client.IgnoreNotFound(err)
		}
		time.Sleep(20 * look)
		return errors.New("it is being deleted")
	})
}

// unreached are maps in structs with a lock that the engine does not lead to, with the reason why their sizes do not matter.
var unreached = map[string]string{
	"observe.shared.by":                "an entry goes with the last object that has the marks (TestMarksGoWithTheirObjects)",
	"impersonation.Clients.byUser":     "there are 256 at most",
	"watch.refWatch.objects":           "no such watch is left",
	"watch.refWatch.presentHashes":     "no such watch is left",
	"participant.Participant.failures": "these controllers run without the participant, and a failure ends with its request",
	"participant.Participant.untidy":   "these controllers run without the participant, and an entry ends when it is written",
	"participant.knownSecrets.by":      "these controllers run without the participant, and an entry goes with its custom resource",
	"kafka.Transport.publishing":       "these controllers run without the participant, and an entry ends with its message",
	"kafka.consumer.first":             "these controllers run without the participant, and a topic has few partitions",
	"kafka.clientLog.said":             "these controllers run without the participant, and the messages are constant texts of the client",
	"shard.Shards.held":                "these operators have no shards, and a manager holds as many as there are",
	"source.chartIndexes.known":        "there are 128 at most",
	"source.together.trees":            "it ends with the run that opened the trees",
	"source.Store.entries":             "the size of the store is limited",
	"source.Store.flights":             "an entry ends with its fetch",
	"source.Store.sources":             "the size of the store is limited",
}

// notKept are packages that the manager does not run: commands with what they serve, the process that renders charts, and support for tests.
var notKept = []string{"cli", "console", "helm", "wiringtest"}

// lockedMaps are the maps in structs of the product that have a lock: what is shared is kept.
func lockedMaps(t *testing.T) []string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && slices.Contains(notKept, d.Name()) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if structure, ok := spec.Type.(*ast.StructType); ok {
					out = append(out, mapsOf(file.Name.Name+"."+spec.Name.Name, structure)...)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d maps were found: %v", len(out), err)
	}
	return out
}

// mapsOf are the fields of a struct that are maps, if it has a lock.
func mapsOf(name string, s *ast.StructType) []string {
	var out []string
	locked := false
	for _, f := range s.Fields.List {
		selector, _ := f.Type.(*ast.SelectorExpr)
		_, isMap := f.Type.(*ast.MapType)
		switch {
		case isMap, selector != nil && selector.Sel.Name == "Map":
			for _, field := range f.Names {
				out = append(out, name+"."+field.Name)
			}
		case selector != nil && (selector.Sel.Name == "Mutex" || selector.Sel.Name == "RWMutex"):
			locked = true
		}
	}
	if !locked {
		return nil
	}
	return out
}
