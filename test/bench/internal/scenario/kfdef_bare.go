package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/test/bench/internal/world"
	"mlkeeper.dev/test/cluster"
)

// bareKubeflow returns how many seconds bare writes of the objects take until every one is accepted: Namespaces and
// definitions, then what is built in, then the custom resources, over which the API server sleeps while their definitions are
// less than two seconds old. It is what the API server itself needs.
func (b *Bench) bareKubeflow(ctx context.Context, k *kubeflow) (float64, error) {
	_, id, stop, err := b.bootKubeflow(ctx, k)
	if err != nil {
		return 0, err
	}
	defer stop()
	wire, err := world.NewWire(id.Config)
	if err != nil {
		return 0, err
	}
	objects, err := cluster.Parse(string(k.objects))
	if err != nil {
		return 0, err
	}
	w := &bareWriter{wire: wire, plurals: map[schema.GroupKind]string{}}
	for _, u := range objects {
		if u.GetKind() == "CustomResourceDefinition" {
			w.define(u)
		}
	}
	var waves [3][]*unstructured.Unstructured
	for _, u := range objects {
		wave := 1
		if _, defined := w.plurals[u.GroupVersionKind().GroupKind()]; defined {
			wave = 2
		} else if u.GetKind() == "Namespace" || u.GetKind() == "CustomResourceDefinition" {
			wave = 0
		}
		waves[wave] = append(waves[wave], u)
	}
	began := time.Now()
	for _, wave := range waves {
		group, running := errgroup.WithContext(ctx)
		group.SetLimit(b.Config.Concurrency)
		for _, u := range wave {
			group.Go(func() error { return w.create(running, u) })
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
	}
	return time.Since(began).Seconds(), nil
}

// bareWriter creates objects of any kind without discovery.
type bareWriter struct {
	wire *world.Wire
	// plurals are those of the kinds that definitions make.
	plurals map[schema.GroupKind]string
}

func (w *bareWriter) define(crd *unstructured.Unstructured) {
	w.plurals[plan.DefinedBy(crd)], _, _ = unstructured.NestedString(crd.Object, "spec", "names", "plural")
}

func (w *bareWriter) path(u *unstructured.Unstructured) string {
	gvk := u.GroupVersionKind()
	plural, ok := w.plurals[gvk.GroupKind()]
	if !ok {
		guess, _ := meta.UnsafeGuessKindToResource(gvk)
		plural = guess.Resource
	}
	path := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		path = "/api/" + gvk.Version
	}
	if ns := u.GetNamespace(); ns != "" {
		path += "/namespaces/" + ns
	}
	return strings.Join([]string{path, plural}, "/")
}

// create creates an object, again and again until its kind is served and what it is in exists.
func (w *bareWriter) create(ctx context.Context, u *unstructured.Unstructured) error {
	body, err := json.Marshal(u.Object)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(readyTimeout); ; {
		_, err := w.wire.Do(ctx, http.MethodPost, w.path(u), "application/json", body)
		var refused *world.StatusError
		switch {
		case err == nil, errors.As(err, &refused) && refused.Code == http.StatusConflict:
			return nil // Or somebody else, such as a controller, has made it.
		case refused == nil, time.Now().After(deadline):
			return err
		case refused.Code != http.StatusNotFound && refused.Code != http.StatusForbidden && refused.Code < http.StatusTooManyRequests:
			return err
		}
		if err := world.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
