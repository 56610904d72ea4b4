// Package world runs what the bench measures: a control plane of its own, operators as processes, and the objects that
// custom resources need before they come. It measures nothing.
package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/cluster"
)

// bootTimeout is what a control plane may take to come up on a busy machine.
const bootTimeout = 5 * time.Minute

// setupWriters is how many writers prepare a cluster; nothing is measured meanwhile.
const setupWriters = 16

// Cluster is one devcluster, booted for one measurement so that none inherits the load of another.
type Cluster struct {
	// Admin reaches the cluster as its administrator, without a rate limit of the client's.
	Admin  *rest.Config
	Client client.Client
	// Wire sends requests as the administrator without decoding what comes back.
	Wire  *Wire
	Audit *audit.Log
	Dir   string

	binary string
	boot   *Process
	once   sync.Once
}

// Boot boots a devcluster whose API server logs every request. The definitions of Route and ServiceMonitor are in it,
// so that a TrustyAIService has all its children.
func Boot(ctx context.Context, binary string, flags ...string) (*Cluster, error) {
	// The path of the control socket must be short, which the system's folder for temporary files is.
	dir, err := os.MkdirTemp("", "mlkeeper-bench-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, binary: binary, Audit: audit.Open(filepath.Join(dir, "audit.log"))}
	up := append([]string{
		binary, "up", "--dir", dir, "--audit-log", filepath.Join(dir, "audit.log"),
		"--crds", "route,servicemonitor", "--timeout", bootTimeout.String(),
		// A thousand stacks fit on no node of the ordinary size: a server of KServe requests a processor and 2 GiB, and each stack may have several pods.
		"--nodes=1", "--node-size=cpu=100k,memory=1Pi,pods=100k",
	}, flags...)
	c.boot, err = Start("devcluster", filepath.Join(dir, "devcluster.log"), nil, up...)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	// This is the line that "up" prints when the cluster is healthy.
	err = c.boot.AwaitOutput(ctx, "export KUBECONFIG=", bootTimeout)
	if err == nil {
		err = c.connect()
	}
	if err != nil {
		err = fmt.Errorf("boot a devcluster: %w\n%s", err, c.boot.Tail())
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.Dir, "kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS = -1
	c.Admin = config
	if c.Client, err = client.New(config, client.Options{Scheme: cluster.Scheme()}); err != nil {
		return err
	}
	c.Wire, err = NewWire(config)
	return err
}

// Stop ends the cluster and removes its folder.
func (c *Cluster) Stop() {
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = Run(ctx, c.binary, "down", "--dir", c.Dir)
		c.boot.Stop(30 * time.Second)
		_ = os.RemoveAll(c.Dir)
	})
}

// Restart stops one component of the control plane and starts it again, which cuts every connection to it.
func (c *Cluster) Restart(ctx context.Context, component string) error {
	return errors.Join(Run(ctx, c.binary, "stop", component, "--dir", c.Dir), Run(ctx, c.binary, "start", component, "--dir", c.Dir))
}

// Apply applies objects one after the other, and waits for definitions among them to be served.
func (c *Cluster) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, u := range objects {
		if err := c.retried(ctx, func() error {
			return c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u.DeepCopy()),
				client.FieldOwner("bench"), client.ForceOwnership)
		}); err != nil {
			return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if u.GetKind() == "CustomResourceDefinition" {
			if err := c.retried(ctx, func() error { return c.served(ctx, u) }); err != nil {
				return fmt.Errorf("wait for %s: %w", u.GetName(), err)
			}
		}
	}
	return nil
}

// retried retries what a definition that is not served yet, or a webhook that is not up yet, refuses.
func (c *Cluster) retried(ctx context.Context, do func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := do()
		if err == nil || apierrors.IsInvalid(err) || time.Now().After(deadline) {
			return err
		}
		if err := Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *Cluster) served(ctx context.Context, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if on, _ := version["served"].(bool); !on {
			continue
		}
		path := fmt.Sprintf("/apis/%s/%s/%s?limit=1", group, version["name"], plural)
		if _, err := c.Wire.Do(ctx, "GET", path, "", nil); err != nil {
			return err
		}
	}
	return nil
}

// CreateAll creates objects with several writers. Those that are there already stay as they are.
func (c *Cluster) CreateAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(setupWriters)
	for _, u := range objects {
		group.Go(func() error {
			err := c.Client.Create(ctx, u.DeepCopy())
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			if meta.IsNoMatchError(err) {
				return c.retried(ctx, func() error { return c.Client.Create(ctx, u.DeepCopy()) })
			}
			return err
		})
	}
	return group.Wait()
}

// Quiet waits until the controllers of Kubernetes have nothing to do: until nobody but those that renew leases and
// report the state of nodes has written anything for a while.
func (c *Cluster) Quiet(ctx context.Context, calm, timeout time.Duration) error {
	mark, last, deadline := c.Audit.Mark(), time.Now(), time.Now().Add(timeout)
	for time.Since(last) < calm {
		if time.Now().After(deadline) {
			return fmt.Errorf("the cluster did not become quiet within %s", timeout)
		}
		if err := Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		var err error
		mark, err = c.Audit.Since(mark, "", func(e audit.Entry) {
			class := e.Class()
			if (class == audit.Write || class == audit.Event) && e.Resource != "nodes" && e.Subresource != "token" {
				last = time.Now()
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Pause waits, or returns why it must not.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Explain returns, as an error, the conditions of the first custom resource like this one that is not Ready, for the
// message of a failure.
func (c *Cluster) Explain(ctx context.Context, like Service) error {
	object, err := like.Object()
	if err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(object.GetAPIVersion())
	list.SetKind(object.GetKind() + "List")
	if err := c.Client.List(ctx, list); err != nil {
		return err
	}
	for _, u := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		ready := false
		for _, item := range conditions {
			m, _ := item.(map[string]any)
			ready = ready || m["type"] == "Ready" && m["status"] == "True"
		}
		if !ready {
			return fmt.Errorf("%s/%s is not Ready: %v", u.GetNamespace(), u.GetName(), conditions)
		}
	}
	return nil
}

// Read returns the object at a path.
func (c *Cluster) Read(ctx context.Context, path string) (*unstructured.Unstructured, error) {
	data, err := c.Wire.Do(ctx, "GET", path, "", nil)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(data)
}
