package simkubelet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"mlkeeper.dev/devcluster/internal/egress"
	"mlkeeper.dev/devcluster/internal/health"
)

// workers is how many pods are synchronised at once.
const workers = 16

// Main is the entry point of the process; it returns when ctx ends.
func Main(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("simulated-kubelet", pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	listen := flags.String("listen", "127.0.0.1:0", "address of the health endpoint")
	proxy := flags.String("egress", "", "unix socket on which the API server's proxy to Services listens; empty for none")
	cidr := flags.String("pod-cidr", "10.244.0.0/16", "range of the addresses of pods")
	if err := flags.Parse(args); err != nil {
		return err
	}
	podRange, err := netip.ParsePrefix(*cidr)
	if err != nil {
		return fmt.Errorf("--pod-cidr: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 1000, 2000
	// The API server takes the name of a field manager from it.
	config.UserAgent = "kubelet"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	k, err := newKubelet(client, podRange)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	if *proxy != "" {
		calls, err := net.Listen("unix", *proxy)
		if err != nil {
			return err
		}
		go func() { failed <- egress.Serve(ctx, calls, config) }()
	}
	go func() { failed <- health.Serve(listener) }()
	go k.run(ctx)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("health endpoint or egress: %w", err)
	}
}

// kubelet plays all kubelets of the cluster.
type kubelet struct {
	client      kubernetes.Interface
	factory     informers.SharedInformerFactory
	read        reader
	queue       workqueue.TypedRateLimitingInterface[string]
	broadcaster record.EventBroadcaster
	now         func() time.Time
	podRange    netip.Prefix

	// mu guards what follows.
	mu sync.Mutex
	// known are the pods by their keys.
	known map[string]*pod
	// blocked are the keys of pods that wait for something in their namespace.
	blocked map[string]map[string]bool
	// attached are the nodes of claims, by the keys of the claims.
	attached map[string]attachment
	// addresses are the keys of the pods that have an address.
	addresses map[netip.Addr]string
	// lastIP is the address that a pod got last.
	lastIP netip.Addr
}

func newKubelet(client kubernetes.Interface, podRange netip.Prefix) (*kubelet, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	k := &kubelet{
		client: client, factory: factory, now: time.Now, podRange: podRange.Masked(), lastIP: podRange.Masked().Addr(),
		read: reader{
			pods: core.Pods().Lister(), nodes: core.Nodes().Lister(), secrets: core.Secrets().Lister(),
			configMaps: core.ConfigMaps().Lister(), claims: core.PersistentVolumeClaims().Lister(), accounts: core.ServiceAccounts().Lister(),
		},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second)),
		broadcaster: record.NewBroadcaster(),
		known:       map[string]*pod{}, blocked: map[string]map[string]bool{}, attached: map[string]attachment{},
		addresses: map[netip.Addr]string{},
	}
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			k.queue.Add(key)
		}
	}
	_, err := core.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return nil, err
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Secrets().Informer(), core.ConfigMaps().Informer(), core.PersistentVolumeClaims().Informer(), core.ServiceAccounts().Informer(),
	} {
		if err := informer.SetTransform(keysOnly); err != nil {
			return nil, err
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: k.wake, UpdateFunc: func(_, obj any) { k.wake(obj) },
		})
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// keysOnly drops the values of Secrets and ConfigMaps, of which only the keys are asked for.
func keysOnly(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Secret:
		o.ManagedFields = nil
		for key := range o.Data {
			o.Data[key] = nil
		}
	case *corev1.ConfigMap:
		o.ManagedFields = nil
		for key := range o.Data {
			o.Data[key] = ""
		}
		for key := range o.BinaryData {
			o.BinaryData[key] = nil
		}
	}
	return obj, nil
}

// wake queues the pods that wait for something in the namespace of an object.
func (k *kubelet) wake(obj any) {
	namespace, _, err := cache.SplitMetaNamespaceKey(keyOf(obj))
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wakeNamespace(namespace)
}

// wakeNamespace needs mu to be held.
func (k *kubelet) wakeNamespace(namespace string) {
	for key := range k.blocked[namespace] {
		k.queue.Add(key)
	}
}

func keyOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return ""
	}
	return key
}

// run plays until ctx ends.
func (k *kubelet) run(ctx context.Context) {
	k.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
	defer k.broadcaster.Shutdown()
	go func() {
		<-ctx.Done()
		k.queue.ShutDown()
	}()
	go k.keepNodes(ctx)
	k.factory.Start(ctx.Done())
	for kind, synced := range k.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			fmt.Fprintf(os.Stderr, "simulated-kubelet: %v were never listed\n", kind)
			return
		}
	}
	k.attachRunning()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for k.next(ctx) {
			}
		})
	}
	group.Wait()
	k.factory.Shutdown()
}

// next synchronises the next pod of the queue; it is false once there is none any more.
func (k *kubelet) next(ctx context.Context) bool {
	key, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(key)
	if err := k.sync(ctx, key); err != nil {
		fmt.Fprintf(os.Stderr, "simulated-kubelet: %s: %v\n", key, err)
		k.queue.AddRateLimited(key)
	} else {
		k.queue.Forget(key)
	}
	return true
}
