package tenants

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

var (
	seedFlag       = flag.Int64("tenants.seed", 1, "seed of the tenants' writes; 0 takes the time")
	operationsFlag = flag.Int("tenants.operations", 400, "number of the tenants' writes")
)

// set is a set of rights in one namespace.
type set struct {
	name, role string
	rules      []rbacv1.PolicyRule
}

// rights are the sets of rights that tenants have, each in a namespace of its own. A tenant with a role has what the ClusterRole grants.
var rights = []set{
	{name: "everything", rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
	{name: "admin", role: "admin"},
	{name: "resources", rules: []rbacv1.PolicyRule{{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"*"}}}},
	{name: "statuses", rules: []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: []string{"*/status", "*/finalizers"}, Verbs: []string{"*"}},
		{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
	}},
	{name: "objects", rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"", "apps", "serving.kserve.io"}, Verbs: []string{"*"},
		Resources: []string{"configmaps", "secrets", "services", "serviceaccounts", "deployments", "inferenceservices"},
	}}},
}

// readsNoSecret are the sets with which nothing of a Secret may be learned, not even of the tenant's own namespace.
var readsNoSecret = []string{"resources", "statuses"}

// drawn is a set of rights by chance, as a role of somebody's own has them.
func drawn(h *hostile) set {
	some := func(of ...string) []string {
		h.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		return of[:1+h.Intn(len(of))]
	}
	verbs := func() []string { return append(some("create", "update", "patch", "delete"), "get", "list") }
	return set{name: "drawn", rules: []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: some("trustyaiservices", "tfservs", "kfdefs", "seldonoperators"), Verbs: verbs()},
		{APIGroups: groups, Resources: some("trustyaiservices/status", "tfservs/status", "kfdefs/status", "seldonoperators/status"), Verbs: verbs()},
		{
			APIGroups: []string{"", "apps", "serving.kserve.io"}, Verbs: verbs(),
			Resources: some("configmaps", "secrets", "services", "serviceaccounts", "deployments", "inferenceservices"),
		},
	}}
}

var groups = []string{"trustyai.opendatahub.io", "servapi.dev-state.com", "kfdef.apps.kubeflow.org", "operator.seldon.io"}

// tenant is somebody with rights in one namespace.
type tenant struct {
	namespace string
	client    client.Client
}

// logged is what the operator logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.text.WriteString(prefix + " " + args + "\n")
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// nothingTerminates says which namespace is still being deleted.
func nothingTerminates(ctx context.Context, c *cluster.Cluster) error {
	list := &corev1.NamespaceList{}
	if err := c.Client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			return fmt.Errorf("namespace %s is still being deleted", list.Items[i].Name)
		}
	}
	return nil
}

// TestTenantsChangeAndReadNothingOfOthers has tenants with several sets of rights write what they like: custom resources with references
// to what is not theirs, statuses, finalizers, MLKeeper's marks, owner references and archives. No object outside of their namespaces may
// change, and no secret of others may appear in one of theirs, or in the operator's log. The seed determines the writes.
func TestTenantsChangeAndReadNothingOfOthers(t *testing.T) {
	c := cluster.Shared(t)
	var log logged
	operator := start(t, c, funcr.New(log.add, funcr.Options{Verbosity: 2}))
	seed := *seedFlag
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	h := &hostile{Rand: rand.New(rand.NewSource(seed))}
	known := secrets{}
	victim := theVictim(t, c, h, known)
	var tenants []tenant
	var namespaces []string
	var blind []string
	own := secrets{}
	for _, of := range append(slices.Clone(rights), drawn(h)) {
		one := newTenant(t, c, of)
		tenants, namespaces = append(tenants, one), append(namespaces, one.namespace)
		if slices.Contains(readsNoSecret, of.name) {
			canary(t, c, own, one.namespace)
			blind = append(blind, one.namespace)
		}
	}
	for _, s := range samples {
		cluster.Eventually(t, patience, func() error { return ready(t, c, s.gvk, namespaces[0], s.name) })
	}
	// The namespaces of the tests before this one go in their own time.
	cluster.Eventually(t, patience, func() error { return nothingTerminates(t.Context(), c) })
	steady(t, operator)
	before := unchanging(t, c, namespaces)
	began := time.Now()
	var done tally
	for range *operationsFlag {
		name, err := operation(t.Context(), h, pick(h.Rand, tenants...))
		done.add(name, err)
	}
	steady(t, operator)
	after, err := outside(t.Context(), c, namespaces)
	if err != nil {
		t.Fatal(err)
	}
	effects := changes(before, after)
	effects = append(effects, leaks(t, c, known, func(u *unstructured.Unstructured) bool { return slices.Contains(namespaces, u.GetNamespace()) })...)
	effects = append(effects, leaks(t, c, own, func(u *unstructured.Unstructured) bool { return ofMLKeeper(u, blind) })...)
	for _, name := range append(known.in(log.String()), own.in(log.String())...) {
		effects = append(effects, "the log has the "+name)
	}
	t.Logf("seed %d: %d writes of %d tenants in %s, %d effects outside; accepted were%s",
		seed, *operationsFlag, len(tenants), time.Since(began).Round(time.Second), len(effects), done.summary())
	if len(effects) > 0 {
		t.Errorf("seed %d:\n%s\nafter\n%s", seed, strings.Join(effects, "\n"), strings.Join(done.last(100), "\n"))
	}
	if refused := done.never(); len(refused) > 0 {
		t.Errorf("nothing is shown by writes that are always refused: %v\n%s", refused, strings.Join(done.last(400), "\n"))
	}
	victim.AwaitReady(t, c)
}

// tally counts the tenants' writes by what they do, in all and those that were accepted.
type tally struct {
	writes, accepted map[string]int
	log              []string
}

func (d *tally) add(name string, err error) {
	if d.writes == nil {
		d.writes, d.accepted = map[string]int{}, map[string]int{}
	}
	d.log = append(d.log, fmt.Sprintf("%s: %v", name, err))
	what, _, _ := strings.Cut(name, ":")
	d.writes[what]++
	if err == nil {
		d.accepted[what]++
	}
}

func (d *tally) last(n int) []string { return d.log[max(0, len(d.log)-n):] }

func (d *tally) summary() string {
	var out strings.Builder
	for _, what := range slices.Sorted(maps.Keys(d.writes)) {
		_, _ = fmt.Fprintf(&out, "\n  %s: %d of %d", what, d.accepted[what], d.writes[what])
	}
	return out.String()
}

// never are the kinds of writes that were often tried and never accepted, but for those that no right of a tenant allows.
func (d *tally) never() []string {
	var out []string
	for what, n := range d.writes {
		if n >= 10 && d.accepted[what] == 0 && !strings.HasPrefix(what, "forge") {
			out = append(out, what)
		}
	}
	return out
}

// theVictim is what there is of others: a Secured service with its Inventory and binding, a Tfserv, a Secret, and a binding under the name
// that upstream's services of a tenant would have.
func theVictim(t *testing.T, c *cluster.Cluster, h *hostile, known secrets) *fixture.Service {
	t.Helper()
	victim := fixture.Create(t, c, fixture.Secured)
	h.victim = victim.Namespace
	canary(t, c, known, h.victim)
	c.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: "+h.victim+"}\ndata: {a: b}\n")
	c.Apply(t, samples[0].manifest, h.victim)
	victim.AwaitReady(t, c)
	cluster.Eventually(t, patience, func() error { return ready(t, c, samples[0].gvk, h.victim, samples[0].name) })
	for name, of := range map[string]types.NamespacedName{
		"key of the digests": {Namespace: cluster.OperatorNamespace, Name: "mlkeeper-digest-key"}, "key of a certificate": {Namespace: h.victim, Name: "tas-tls"},
	} {
		var secret corev1.Secret
		if err := c.Client.Get(t.Context(), of, &secret); err != nil {
			t.Fatal(err)
		}
		for key, value := range secret.Data {
			if key != corev1.TLSCertKey && key != "ca.crt" {
				known.add(name, string(value))
			}
		}
	}
	all, err := everything(t.Context(), c, func(resource string, u *unstructured.Unstructured) bool {
		return u.GetNamespace() == h.victim || u.GetLabels()[keeper.ControllerLabel] != "" || u.GetNamespace() == cluster.OperatorNamespace ||
			resource == "persistentvolumes" || u.GetName() == "extension-apiserver-authentication"
	})
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h.victims = append(h.victims, all[name])
	}
	return victim
}

// canary makes a Secret that has a value under the keys that custom resources may name.
func canary(t *testing.T, c *cluster.Cluster, known secrets, ns string) {
	t.Helper()
	name, value := "canary of "+ns, "canary-"+utilrand.String(32)
	known.add(name, value)
	c.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: canary, namespace: %[1]s}\n"+
		"stringData: {value: %[2]s, key.json: %[2]s, databasePassword: %[2]s}\n", ns, value))
}

// newTenant makes a namespace with a valid custom resource of each kind, and somebody who has the rights in it.
func newTenant(t *testing.T, c *cluster.Cluster, of set) tenant {
	t.Helper()
	ns := "tenant-" + of.name + "-" + utilrand.String(6)
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: ns}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"}, Subjects: []rbacv1.Subject{user},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: of.role},
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}}
	if of.role == "" {
		binding.RoleRef.Kind, binding.RoleRef.Name = "Role", "tenant"
		objects = append(objects, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"}, Rules: of.rules})
	}
	for _, o := range append(objects, binding) {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = c.TryKubectl("delete", "namespace", ns, "--wait=false") })
	sources(t, c, ns, "", "")
	for _, s := range samples {
		c.Apply(t, s.manifest, ns)
	}
	c.Apply(t, service, ns)
	_, own := impersonating(t, c, ns)
	return tenant{ns, own}
}

// steady waits until the operator has written nothing for a while. What retries for ever has ever longer pauses.
func steady(t *testing.T, operator *harness.Operator) {
	t.Helper()
	last, since := operator.Requests.Snapshot(), time.Now()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && time.Since(since) < 3*time.Second; time.Sleep(200 * time.Millisecond) {
		if cluster.Sum(operator.Requests.Since(last), cluster.Request.Write, "leases") > 0 {
			last, since = operator.Requests.Snapshot(), time.Now()
		}
	}
}

// operation is one random write of a tenant.
func operation(ctx context.Context, h *hostile, by tenant) (string, error) {
	switch h.Intn(13) {
	case 0, 1, 2, 3:
		return put(ctx, by, h.resource())
	case 4, 5, 6:
		u := pick(h.Rand, bases()...)
		u.SetNamespace(by.namespace)
		patch, err := json.Marshal(map[string]any{"status": h.status()})
		if err != nil {
			return "encode", err
		}
		return "status of " + u.GetKind() + ": " + string(patch), by.client.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, patch))
	case 7, 8:
		return put(ctx, by, h.thing())
	case 9:
		u := h.forged(by.namespace)
		return "forge " + u.GetKind(), by.client.Create(ctx, u)
	case 10, 11:
		return publish(ctx, h, by)
	}
	return away(ctx, h, by)
}

// put creates an object of the tenant's, or changes the one that is there.
func put(ctx context.Context, by tenant, u *unstructured.Unstructured) (string, error) {
	u.SetNamespace(by.namespace)
	name := "put " + u.GetKind() + ": " + u.GetName()
	patch, err := u.MarshalJSON()
	if err != nil {
		return name, err
	}
	if err = by.client.Create(ctx, u.DeepCopy()); apierrors.IsAlreadyExists(err) {
		err = by.client.Patch(ctx, u, client.RawPatch(types.MergePatchType, patch))
	}
	return name, err
}

// publish changes the archives that custom resources of the tenant's refer to.
func publish(ctx context.Context, h *hostile, by tenant) (string, error) {
	archives := pick(h.Rand,
		packed(by.namespace, "manifests", map[string]fstest.MapFS{"manifests.tar.gz": webFiles(h.application(by.namespace))}),
		packed(by.namespace, "charts", map[string]fstest.MapFS{
			"core.tgz": settingsChart("core", h.template(by.namespace)), "enterprise.tgz": settingsChart("enterprise", ""),
		}))
	return put(ctx, by, archives)
}

// away deletes something of the tenant's, with what holds it.
func away(ctx context.Context, h *hostile, by tenant) (string, error) {
	u := pick(h.Rand, bases()...)
	if h.Intn(2) == 0 {
		u = h.thing()
	}
	u.SetNamespace(by.namespace)
	name := "delete " + u.GetKind() + ": " + u.GetName()
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := by.client.Delete(ctx, u); err != nil {
		return name, err
	}
	return name, client.IgnoreNotFound(by.client.Patch(ctx, u, free))
}
