package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"

	"mlkeeper.dev/internal/engine/listing"
	"mlkeeper.dev/internal/version"
)

// listPage is how many objects one LIST asks for.
const listPage = 500

// Connection tells which cluster is meant: the flags, else $KUBECONFIG, else ~/.kube/config, else the service account of the pod. The
// flags are kubectl's, but for --namespace, which the commands have that have a use for it.
type Connection struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	// token is that of a user, in place of the credentials of the kubeconfig.
	token string
	// fake replaces the cluster in tests.
	fake *cluster
}

// Bind adds the flags. Those that are seldom needed are listed by `mlkeeper options` alone, as with kubectl.
func (c *Connection) Bind(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace, names.CurrentContext = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	seldom := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&c.overrides, seldom, names)
	seldom.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	flags.AddFlagSet(seldom)
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file; default: $KUBECONFIG or ~/.kube/config")
	flags.StringVar(&c.overrides.CurrentContext, "context", "", "context of the kubeconfig; default: the current context")
}

// given says that a cluster was named on the command line.
func (c *Connection) given() bool {
	return c.kubeconfig != "" || c.overrides.CurrentContext != "" || c.overrides.Context.Cluster != "" ||
		c.overrides.ClusterInfo.Server != "" || c.fake != nil
}

// as is the connection to the same cluster with the token of a user, and no other credentials.
func (c *Connection) as(token string) *Connection {
	out := *c
	out.token = token
	return &out
}

func (c *Connection) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &c.overrides)
}

// Config returns the configuration of a client.
func (c *Connection) Config() (*rest.Config, error) {
	cfg, err := c.loader().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster is configured: %w; name one with --kubeconfig or $KUBECONFIG", err)
	}
	if c.token != "" {
		cfg = rest.AnonymousClientConfig(cfg)
		cfg.BearerToken = c.token
	}
	cfg.UserAgent = "mlkeeper/" + version.Version
	return cfg, nil
}

// namespace is the namespace of the context.
func (c *Connection) namespace() string {
	if c.fake != nil {
		return metav1.NamespaceDefault
	}
	namespace, _, err := c.loader().Namespace()
	if err != nil || namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

// names are those of the context and of the server, as far as they are known.
func (c *Connection) names() (context, server string) {
	if c.fake != nil {
		return "", ""
	}
	if raw, err := c.loader().RawConfig(); err == nil {
		context = raw.CurrentContext
	}
	if c.overrides.CurrentContext != "" {
		context = c.overrides.CurrentContext
	}
	if cfg, err := c.Config(); err == nil {
		server = cfg.Host
	}
	return context, server
}

// open connects and learns what the cluster serves.
func (c *Connection) open() (*cluster, error) {
	if c.fake != nil {
		return c.fake, nil
	}
	cfg, err := c.Config()
	if err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		// --request-timeout ends watches and long lists as well, so that it has no default.
		cfg.Wrap(limitAnswers)
	}
	out := &cluster{reach: &reach{}}
	cfg.Wrap(out.reach.wrap)
	listing.Bound(cfg)
	cfg.QPS = -1
	finder, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	out.discover = func() (*served, error) { return discover(finder) }
	if err := out.learn(); err != nil {
		return nil, fmt.Errorf("the cluster at %s does not answer: %w; check --kubeconfig and --context, and that the API "+
			"server runs", cfg.Host, err)
	}
	out.openapi, out.version = finder.OpenAPIV3(), finder.ServerVersionWithContext
	if out.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if out.metadata, err = metadata.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	core, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	out.logs = func(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
		return core.Pods(namespace).GetLogs(pod, options).Stream(ctx)
	}
	return out, nil
}

// servedMapper is a RESTMapper that does not take a group whose discovery failed for one that is not served (invariant 4).
type servedMapper struct {
	meta.RESTMapper
	// kinds are those that are served. The mapper of discovery takes the name of each in lower case, too, which no rule for Secrets knows.
	kinds  map[schema.GroupKind]bool
	failed map[schema.GroupVersion]error
}

// discover asks what the cluster serves.
func discover(finder discovery.ServerResourcesInterface) (*served, error) {
	groups, lists, err := finder.ServerGroupsAndResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return nil, err
	}
	versions := map[string][]metav1.APIResource{}
	for _, list := range lists {
		versions[list.GroupVersion] = list.APIResources
	}
	var all []*restmapper.APIGroupResources
	for _, group := range groups {
		one := &restmapper.APIGroupResources{Group: *group, VersionedResources: map[string][]metav1.APIResource{}}
		for _, version := range group.Versions {
			if resources, found := versions[version.GroupVersion]; found {
				one.VersionedResources[version.Version] = resources
			}
		}
		all = append(all, one)
	}
	out := servedMapper{RESTMapper: restmapper.NewDiscoveryRESTMapper(all), kinds: map[schema.GroupKind]bool{}}
	kinds := kindsOf(lists)
	for i := range kinds {
		out.kinds[kinds[i].GroupKind] = true
	}
	if partial != nil {
		out.failed = partial.Groups
	}
	return &served{out, kinds}, nil
}

// RESTMapping implements meta.RESTMapper.
func (m servedMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.RESTMapper.RESTMapping(gk, versions...)
	if err == nil && !m.kinds[gk] {
		mapping, err = nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	if meta.IsNoMatchError(err) {
		for gv, failure := range m.failed {
			if gv.Group == gk.Group {
				return nil, fmt.Errorf("it is not known whether the cluster serves %s: %w", gk, failure)
			}
		}
	}
	return mapping, err
}

// cluster is a cluster as the commands see it.
type cluster struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface
	served   atomic.Pointer[served]
	// discover asks what is served: definitions come and go while a command watches. It is nil where there is nothing to ask.
	discover func() (*served, error)
	// reach knows whether the API server answers; nil where there is none.
	reach *reach
	// openapi publishes the schemas of the kinds; nil where there are none.
	openapi openapi.Client
	// logs reads the logs of a container; nil where there are none.
	logs func(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error)
	// version asks the API server for its version; nil where there is none.
	version func(ctx context.Context) (*apiversion.Info, error)
}

// lookup returns the mapping of a kind, or nil while it is not served.
func (c *cluster) lookup(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.mapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return mapping, err
}

// resource returns the client for a kind in a namespace, which cluster-scoped kinds ignore.
func (c *cluster) resource(mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if namespace == "" || mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.dynamic.Resource(mapping.Resource)
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(namespace)
}

// list lists whole objects page by page.
func (c *cluster) list(
	ctx context.Context, mapping *meta.RESTMapping, namespace string, options metav1.ListOptions,
) ([]*unstructured.Unstructured, error) {
	api := c.resource(mapping, namespace)
	var out []*unstructured.Unstructured
	err := pages(ctx, options, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return api.List(ctx, o)
	}, func(obj runtime.Object) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			out = append(out, u)
		}
	})
	return out, err
}

// listMetadata lists the metadata of objects, so that the data of Secrets and ConfigMaps is never read.
func (c *cluster) listMetadata(
	ctx context.Context, mapping *meta.RESTMapping, namespace string, options metav1.ListOptions,
) ([]*unstructured.Unstructured, error) {
	var api metadata.ResourceInterface = c.metadata.Resource(mapping.Resource)
	if namespace != "" && mapping.Scope.Name() != meta.RESTScopeNameRoot {
		api = c.metadata.Resource(mapping.Resource).Namespace(namespace)
	}
	var out []*unstructured.Unstructured
	err := pages(ctx, options, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return api.List(ctx, o)
	}, func(obj runtime.Object) {
		partial, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(partial)
		if err != nil {
			return
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(mapping.GroupVersionKind)
		out = append(out, u)
	})
	return out, err
}

func pages(ctx context.Context, options metav1.ListOptions, list pager.ListPageFunc, each func(runtime.Object)) error {
	p := pager.New(list)
	p.PageSize = listPage
	return p.EachListItem(ctx, options, func(obj runtime.Object) error {
		each(obj)
		return nil
	})
}
