package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mlkeeper.dev/test/bench/internal/world"
)

// readyTimeout is how long services may take to become Ready: a machine with two cores runs about a hundred objects a
// second with all the controllers of Kubernetes.
const readyTimeout = 20 * time.Minute

// birth is the creation of one custom resource.
type birth struct {
	uid string
	at  time.Time
}

// isReady says that a custom resource is Ready for its present spec.
func isReady(f world.Followed) bool {
	return f.True("Ready") && f.Status.ObservedGeneration == f.Metadata.Generation
}

// create creates custom resources with as many writers as the operator has workers, and calls back after each. It
// returns when each was acknowledged, by its key.
func (b *Bench) create(
	ctx context.Context, c *world.Cluster, services []world.Service, call func(world.Service, world.Followed),
) (map[string]birth, error) {
	bodies, paths := make([][]byte, len(services)), make([]string, len(services))
	for i, s := range services {
		u, err := s.Object()
		if err != nil {
			return nil, err
		}
		paths[i] = "/apis/" + u.GetAPIVersion() + "/namespaces/" + s.Namespace + "/" + s.Shape.Plural()
		if bodies[i], err = u.MarshalJSON(); err != nil {
			return nil, err
		}
	}
	out := make(map[string]birth, len(services))
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.Config.Concurrency)
	for i, s := range services {
		group.Go(func() error {
			data, err := c.Wire.Do(ctx, "POST", paths[i], "application/json", bodies[i])
			if err != nil {
				return fmt.Errorf("create %s/%s: %w", s.Namespace, s.Name, err)
			}
			at := time.Now()
			var made world.Followed
			if err := json.Unmarshal(data, &made); err != nil {
				return err
			}
			mu.Lock()
			out[s.Key()] = birth{uid: made.Metadata.UID, at: at}
			mu.Unlock()
			if call != nil {
				call(s, made)
			}
			return nil
		})
	}
	return out, group.Wait()
}

// bringUp creates services of one kind and waits until all are Ready. It returns when each was made and when each was first seen
// Ready.
func (b *Bench) bringUp(
	ctx context.Context, c *world.Cluster, op *world.Process, services []world.Service,
) (map[string]birth, map[string]time.Time, error) {
	follower, err := c.Follow(ctx, services[0].Shape.Resource, isReady, nil)
	if err != nil {
		return nil, nil, err
	}
	defer follower.Stop()
	created, err := b.create(ctx, c, services, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := follower.Await(ctx, len(services), readyTimeout, op.Running); err != nil {
		return nil, nil, errors.Join(err, c.Explain(ctx, services[0]))
	}
	return created, follower.Ready(), nil
}

// secondsToReady returns how long each service took from its creation to the first sight of Ready.
func secondsToReady(services []world.Service, created map[string]birth, ready map[string]time.Time) []float64 {
	var out []float64
	for _, s := range services {
		if at, ok := readyOf(ready, s); ok {
			out = append(out, at.Sub(created[s.Key()].at).Seconds())
		}
	}
	return out
}

// readyOf finds when a service was ready. What is followed may be its Deployment.
func readyOf(ready map[string]time.Time, s world.Service) (time.Time, bool) {
	for _, key := range []string{s.Key(), s.DeploymentKey()} {
		if at, ok := ready[key]; ok {
			return at, true
		}
	}
	return time.Time{}, false
}
