package standin

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// What cert-manager does is read from its version 1.21.2: pkg/controller/issuers, pkg/controller/certificates and
// pkg/controller/certificaterequests, with the rules of internal/controller/certificates/policies. Its issuers selfSigned and ca sign
// with keys in Secrets. The others would call a server outside of the cluster, so they stay as where that does not answer. Left out
// are its webhook, events, keystores, additional output formats, literal subjects, other names, name constraints and renewal windows.

const certManagerGroup = "cert-manager.io"

func certManagerResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: certManagerGroup, Version: "v1", Resource: plural}
}

var (
	certificates   = certManagerResource("certificates")
	requests       = certManagerResource("certificaterequests")
	issuers        = certManagerResource("issuers")
	clusterIssuers = certManagerResource("clusterissuers")
)

const (
	// clusterNamespace has the Secrets of ClusterIssuers (internal/apis/config/controller/v1alpha1/defaults.go).
	clusterNamespace = "kube-system"
	// bySecret and byIssuer are the indexes of what names a Secret, and of Certificates by their issuers.
	bySecret, byIssuer = "secret", "issuer"
)

// certItem is an object that cert-manager acts on.
type certItem struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// certManager issues certificates.
type certManager struct {
	client dynamic.Interface
	queue  workqueue.TypedRateLimitingInterface[certItem]
	// informers only wake up: what is decided is decided by what the API server has.
	informers map[schema.GroupVersionResource]cache.SharedIndexInformer
	now       func() time.Time
}

func newCertManager(client dynamic.Interface) (*certManager, error) {
	m := &certManager{
		client: client, now: time.Now, informers: map[schema.GroupVersionResource]cache.SharedIndexInformer{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[certItem](20*time.Millisecond, 5*time.Second)),
	}
	for resource, indexers := range map[schema.GroupVersionResource]cache.Indexers{
		certificates:   {bySecret: secretOf("spec", "secretName"), byIssuer: issuerIndex},
		requests:       {},
		issuers:        {bySecret: secretOf("spec", "ca", "secretName")},
		clusterIssuers: {bySecret: secretOf("spec", "ca", "secretName")},
		secrets:        {},
	} {
		informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(resource).Informer()
		if err := informer.AddIndexers(indexers); err != nil {
			return nil, err
		}
		wake := func(obj any) { m.wake(resource, obj) }
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: wake, UpdateFunc: func(_, obj any) { wake(obj) }, DeleteFunc: wake,
		})
		if err != nil {
			return nil, err
		}
		m.informers[resource] = informer
	}
	return m, nil
}

// secretOf is an index by the Secret that a field names. What is of the cluster has it in clusterNamespace.
func secretOf(path ...string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return nil, nil
		}
		name, _, _ := unstructured.NestedString(u.Object, path...)
		if name == "" {
			return nil, nil
		}
		namespace := u.GetNamespace()
		if namespace == "" {
			namespace = clusterNamespace
		}
		return []string{namespace + "/" + name}, nil
	}
}

func issuerIndex(obj any) ([]string, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	ref := issuerRef{}
	spec, _, _ := unstructured.NestedMap(u.Object, "spec", "issuerRef")
	if err := decode(spec, &ref); err != nil {
		return nil, err
	}
	return []string{ref.item(u.GetNamespace()).String()}, nil
}

func (i certItem) String() string { return i.resource.Resource + "/" + i.namespace + "/" + i.name }

// wake queues what an event may change.
func (m *certManager) wake(resource schema.GroupVersionResource, obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	own := certItem{resource, u.GetNamespace(), u.GetName()}
	switch resource {
	case certificates:
		m.queue.Add(own)
	case issuers, clusterIssuers:
		m.queue.Add(own)
		m.wakeIndexed(certificates, byIssuer, own.String())
	case secrets:
		for _, resource := range []schema.GroupVersionResource{certificates, issuers, clusterIssuers} {
			m.wakeIndexed(resource, bySecret, u.GetNamespace()+"/"+u.GetName())
		}
	}
	if owner := metav1.GetControllerOf(u); owner != nil && owner.Kind == "Certificate" {
		m.queue.Add(certItem{certificates, u.GetNamespace(), owner.Name})
	}
}

func (m *certManager) wakeIndexed(resource schema.GroupVersionResource, index, value string) {
	found, err := m.informers[resource].GetIndexer().ByIndex(index, value)
	if err != nil {
		return
	}
	for _, one := range found {
		if u, ok := one.(*unstructured.Unstructured); ok {
			m.queue.Add(certItem{resource, u.GetNamespace(), u.GetName()})
		}
	}
}

// playCertManager issues until the context ends.
func playCertManager(ctx context.Context, client dynamic.Interface) {
	m, err := newCertManager(client)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in: cert-manager:", err)
		return
	}
	go func() {
		<-ctx.Done()
		m.queue.ShutDown()
	}()
	for _, informer := range m.informers {
		go informer.RunWithContext(ctx)
	}
	var workers sync.WaitGroup
	for range actors {
		workers.Go(func() {
			for m.next(ctx) {
			}
		})
	}
	workers.Wait()
}

// next acts on the next object of the queue; it is false once there is none any more.
func (m *certManager) next(ctx context.Context) bool {
	item, shutdown := m.queue.Get()
	if shutdown {
		return false
	}
	defer m.queue.Done(item)
	again, err := m.act(ctx, item)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "stand-in: %s: %v\n", item, err)
		m.queue.AddRateLimited(item)
		return true
	case again > 0:
		m.queue.AddAfter(item, again)
	}
	m.queue.Forget(item)
	return true
}

// act takes the next step for one object, and says after which time there is another by itself.
func (m *certManager) act(ctx context.Context, item certItem) (time.Duration, error) {
	obj, err := m.client.Resource(item.resource).Namespace(item.namespace).Get(ctx, item.name, metav1.GetOptions{})
	if err != nil {
		return 0, ignoreGone(err)
	}
	if obj.GetDeletionTimestamp() != nil || obj.GetAnnotations()[optOut] == "off" {
		return 0, nil
	}
	if item.resource != certificates {
		return 0, ignoreGone(m.setUp(ctx, item, obj))
	}
	again, err := m.issue(ctx, obj)
	return again, ignoreGone(err)
}

// certCondition is a condition of cert-manager's kinds.
type certCondition struct {
	Type               string       `json:"type"`
	Status             string       `json:"status"`
	Reason             string       `json:"reason,omitempty"`
	Message            string       `json:"message,omitempty"`
	ObservedGeneration int64        `json:"observedGeneration,omitempty"`
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// certConditions are those of one object; what sets one keeps the time of a status that stays (pkg/api/util/conditions.go).
type certConditions []certCondition

func (c certConditions) get(kind string) *certCondition {
	at := slices.IndexFunc(c, func(one certCondition) bool { return one.Type == kind })
	if at < 0 {
		return nil
	}
	return &c[at]
}

func (c certConditions) is(kind, status string) bool {
	one := c.get(kind)
	return one != nil && one.Status == status
}

func (c *certConditions) set(kind, status, reason, message string, generation int64, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	one := certCondition{kind, status, reason, message, generation, &at}
	if had := c.get(kind); had != nil {
		if had.Status == status {
			one.LastTransitionTime = had.LastTransitionTime
		}
		*had = one
		return
	}
	*c = append(*c, one)
}

func (c *certConditions) remove(kind string) {
	*c = slices.DeleteFunc(*c, func(one certCondition) bool { return one.Type == kind })
}

// issuerRef is who issues a certificate.
type issuerRef struct {
	Name  string `json:"name"`
	Kind  string `json:"kind,omitempty"`
	Group string `json:"group,omitempty"`
}

// normal has the defaults of the kind and of the group (pkg/api/util/issuers.go).
func (r issuerRef) normal() issuerRef {
	if r.Kind == "" {
		r.Kind = "Issuer"
	}
	if r.Group == "" {
		r.Group = certManagerGroup
	}
	return r
}

func (r issuerRef) String() string {
	r = r.normal()
	return r.Kind + "." + r.Group + "/" + r.Name
}

// item is the object that is referred to from a namespace; without a resource where the issuer is not cert-manager's.
func (r issuerRef) item(namespace string) certItem {
	r = r.normal()
	switch {
	case r.Group != certManagerGroup:
		return certItem{name: r.Name}
	case r.Kind == "ClusterIssuer":
		return certItem{resource: clusterIssuers, name: r.Name}
	default:
		return certItem{resource: issuers, namespace: namespace, name: r.Name}
	}
}

// missing is what cert-manager's lister of Secrets says of one that is not there.
func missing(name string) error { return fmt.Errorf("secrets %q not found", name) }

// plural tells field names as cert-manager prints lists of them.
func plural(fields []string) string { return "[" + strings.Join(fields, " ") + "]" }
