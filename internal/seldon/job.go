package seldon

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// reasonChartFailed says that a chart cannot be rendered as it is; stable across releases.
const reasonChartFailed = "ChartFailed"

// The bounds of the schema: the API server refuses a status with more, whatever else it tells.
const maxChartName, maxChartVersion = 253, 128

// request is everything that rendering a component depends on.
type request struct {
	component
	settings        Settings
	namespace, user string
	field           string
	from            rendering.Source
	// given are the values of the user, values those with what MLKeeper sets below them. overlay is that for a version of the chart, where
	// only its archive tells it; else nil.
	given, values values
	overlay       func(version string) values
	keys          *keys
	cluster       helm.Cluster
	now           time.Time
	// adopts says that objects that exist may be adopted.
	adopts bool
	// recorded is what the status has recorded of the component.
	recorded v1alpha1.ComponentStatus
}

// job renders the component once for what is declared and each request to reconcile now, and anew when its templates would be told
// something else.
func (r request) job(cr *v1alpha1.SeldonOperator) rendering.Job[Content] {
	return rendering.Job[Content]{
		Subject: subject(cr, r.component),
		Inputs: rendering.Digest(string(cr.UID), []any{
			r.chart, r.from.Versions, r.values, r.spec.Patches, r.spec.CommonMetadata, r.spec.HealthCheckExprs,
			r.cluster.Version, r.user, string(r.keys.data[entrySeed]), r.rolledBack(), r.adopts,
		}),
		Trigger: cr.Annotations[keeper.ReconcileAtAnnotation], Every: r.every(), Sources: []rendering.Source{r.from},
		Changed: r.changed, Render: r.render,
	}
}

// rangeEvery is how often a repository is asked for a newer version in a range.
const rangeEvery = 10 * time.Minute

// every is how often the repository is asked for something newer.
func (r request) every() time.Duration {
	if source.IsRange(r.chart.Version) {
		return rangeEvery
	}
	return controller.Once
}

// render renders the chart, and converts what the cluster does not serve.
func (r request) render(ctx context.Context, run rendering.Run[Content]) *plan.Problem {
	chart, err := helm.Load(run.Trees[0])
	if err != nil {
		return r.failure(err)
	}
	if len(chart.Name) > maxChartName || len(chart.Version) > maxChartVersion {
		return &plan.Problem{
			Class: plan.Terminal, Reason: reasonChartFailed, Field: r.from.Field, Value: r.from.Name,
			Message: fmt.Sprintf("its Chart.yaml has a name of more than %d bytes, or a version of more than %d", maxChartName, maxChartVersion),
			Remedy:  "package the chart with others",
		}
	}
	if problem := r.misnamed(chart); problem != nil {
		return problem
	}
	if r.overlay != nil {
		r.values = helm.Merge(r.overlay(chart.Version), r.given)
	}
	adjustments := rendering.AdjustmentsOf(r.spec.Patches, r.spec.CommonMetadata)
	digest := r.digest(adjustments.Any())
	credentials := r.keys.of(r.name)
	in := helm.Input{
		Chart: chart, Release: r.release, Namespace: r.namespace, Values: r.values,
		Cluster: r.cluster, Generated: credentials, Lookup: r.lookup(run.Live), Workers: r.settings.Workers, Adjustments: adjustments,
		Secret: slices.ContainsFunc(r.spec.ValuesFrom, func(ref v1alpha1.ValuesReference) bool { return ref.Kind == gvkSecret.Kind }),
	}
	rendered, now, err := r.renderRevision(ctx, run, in, credentials, next(r.recorded, run.Result.Sources[0].Digest, digest), digest)
	if err != nil {
		return r.failure(err)
	}
	told := Told{APIs: rendered.Asked, Certificates: map[string]string{}, Wanted: credentials.certificates(rendered.Wanted)}
	if len(told.Wanted) == 0 {
		told.Names = credentials.found
	}
	for _, c := range credentials.certificates(rendered.Used) {
		told.Certificates[c.Name()] = r.keys.digest(c.Name(), c)
	}
	out := run.Result
	if len(rendered.Wanted) > 0 {
		*out = *run.Last.With(out.Failure)
		out.Bytes += told.size() - out.Content.size()
		out.Content.Told, out.Volatile = told, true
		return nil
	}
	out.Volatile = rendered.LooksUp
	out.Content = Content{
		Chart: chart.Name, Version: chart.Version, ValuesDigest: digest, Warnings: rendered.Warnings, Told: told,
		revision: now, DefinitionsVersion: definitionsVersion(r.recorded, chart.Name, chart.Version), Health: rendering.HealthOf(r.spec.Observation),
	}
	if out.Bytes, err = out.Content.take(run.Converter, rendered); err != nil {
		problem := r.failure(err)
		problem.Remedy = "correct the values that the object is made of, or take another version of the chart"
		return problem
	}
	out.Content.leaveOthers()
	return nil
}

// take takes in what was rendered, converted to what the cluster serves, and returns what the content takes in memory, in bytes, about.
func (c *Content) take(to convert.Converter, rendered helm.Rendered) (bytes int64, err error) {
	for _, list := range []struct {
		from []*unstructured.Unstructured
		to   *[]*unstructured.Unstructured
	}{
		{rendered.Definitions, &c.Definitions},
		{rendered.Before, &c.Before},
		{rendered.Objects, &c.Objects},
		{rendered.After, &c.After},
	} {
		objects, warnings, err := to.ConvertAll(list.from)
		if err != nil {
			return 0, err
		}
		*list.to = objects
		c.Warnings.Join(warnings)
		bytes += worker.InMemory(objects)
	}
	return bytes + bounded.InMemoryOfTexts(c.Warnings.Texts...) + c.size(), nil
}

// leaveOthers takes out the hooks that are of an installation alone where this is an upgrade, and the other way round: those of an
// installation have run, those of an upgrade are not there yet.
func (c *Content) leaveOthers() {
	for _, hooks := range []*[]*unstructured.Unstructured{&c.Before, &c.After} {
		var run []*unstructured.Unstructured
		for _, u := range *hooks {
			switch {
			case helm.Runs(u, c.upgrade()):
				run = append(run, u)
			case c.upgrade():
				c.Left = append(c.Left, u)
			}
		}
		*hooks = run
	}
}

// changed is what the templates would be told now, where that is not what they were told.
func (r request) changed(last Content) string {
	apis, certificates := r.cluster.Answers(last.APIs), map[string]string{}
	for name := range last.Certificates {
		certificates[name] = r.keys.digestOf(name)
	}
	if maps.Equal(apis, last.APIs) && maps.Equal(certificates, last.Certificates) {
		return ""
	}
	return fmt.Sprint(apis, certificates)
}

// maxLookedUp bounds the objects of one list that a template looks up.
const maxLookedUp = 500

// lookup answers the templates' lookup with the rights that the chart is written with. Secrets are read in the namespace of
// the SeldonOperator alone.
func (r request) lookup(live controller.Live) func(context.Context, string, string, string, string) (map[string]any, error) {
	return func(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
		gv, err := schema.ParseGroupVersion(apiVersion)
		if err != nil || live == nil {
			return nil, err
		}
		if gv.Group == "" && kind == "Secret" && namespace != r.namespace {
			return nil, fmt.Errorf("lookup of Secret %s/%s: only those of namespace %s are read", namespace, name, r.namespace)
		}
		if name == "" {
			items, err := live.ListAs(ctx, r.user, gv.WithKind(kind), namespace, maxLookedUp)
			list := make([]any, 0, len(items))
			for i := range items {
				list = append(list, items[i].Object)
			}
			return map[string]any{"apiVersion": apiVersion, "kind": kind + "List", "items": list}, err
		}
		found, err := live.Get(ctx, r.user, gv.WithKind(kind), namespace, name)
		if err != nil || found == nil {
			return nil, err
		}
		return found.Object, nil
	}
}

// digest tells apart what a template was told of a certificate.
func (k *keys) digest(name string, c helm.Certificate) string {
	pair, _ := k.Certificate(c)
	return k.digestPair(name, pair)
}

func (k *keys) digestPair(name string, pair helm.Pair) string {
	mac := hmac.New(sha256.New, k.data[entrySeed])
	_, _ = fmt.Fprintf(mac, "%s %d %s%s", name, len(pair.Cert), pair.Cert, pair.Key)
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// digestValues is a digest of values that tells nobody what they are (invariant 16): its key is the seed, which only who may read the Secret
// knows. The UID of the SeldonOperator is known to everybody who reads the digest in its status.
func (k *keys) digestValues(v any) string { return rendering.Digest(string(k.data[entrySeed]), v) }

// digest tells the revisions of a chart apart: by its values, and its patches and metadata where it has some. Without them it is the one that
// builds without them have recorded.
func (r request) digest(adjusted bool) string {
	if !adjusted {
		return r.keys.digestValues(r.values)
	}
	return r.keys.digestValues([]any{r.values, r.spec.Patches, r.spec.CommonMetadata})
}

// noCertificate says that the chart asks for a certificate that cannot be made. Its names are not told, since they may be of a Secret.
func (r request) noCertificate() plan.Problem {
	return plan.Problem{
		Class: plan.Terminal, Reason: reasonChartFailed, Field: r.field + ".values", Value: r.from.Name,
		Message: "the chart asks for a certificate that cannot be made, such as for a name with characters beyond ASCII",
		Remedy:  "correct the names in the values: write a domain with such characters in its form that begins with xn--",
	}
}

// failure tells why a chart could not be read or rendered.
func (r request) failure(err error) *plan.Problem {
	if errors.Is(err, helm.ErrUnavailable) {
		out := &plan.Problem{
			Class: plan.Waiting, Reason: plan.ReasonFetching, Field: r.field + ".chart", Value: r.from.Name,
			Message: err.Error(), Remedy: "nothing to do",
		}
		if errors.As(err, new(*worker.KilledError)) {
			out.Remedy = worker.KilledRemedy
		}
		return out
	}
	if problem := (plan.Problem{}); errors.As(err, &problem) {
		return &problem
	}
	if wrong := (*kustomize.FieldError)(nil); errors.As(err, &wrong) {
		return &plan.Problem{
			Class: plan.Terminal, Reason: reasonChartFailed, Field: r.field + "." + wrong.Field, Value: cmp.Or(wrong.Value, r.from.Name),
			Message: wrong.Why, Remedy: "correct or remove it; kustomize build shows the same of what helm template prints",
		}
	}
	if unfit := (*helm.UnfitError)(nil); errors.As(err, &unfit) {
		return &plan.Problem{
			Class: plan.Terminal, Reason: reasonChartFailed, Field: r.field + ".chart", Value: r.from.Name, Message: unfit.Why, Remedy: unfit.Remedy,
		}
	}
	return &plan.Problem{
		Class: plan.Terminal, Reason: reasonChartFailed, Field: r.field + ".values", Value: r.from.Name, Message: err.Error(),
		Remedy: "correct the values; helm template shows the same",
	}
}
