package seldon

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/source"
)

// reasonChartFailed says that a chart cannot be rendered as it is; stable across releases.
const reasonChartFailed = "ChartFailed"

// inquiry is everything that the answer for one component depends on.
type inquiry struct {
	component
	key       types.NamespacedName
	uid       types.UID
	namespace string
	user      string
	field     string
	from      origin.Origin
	values    values
	keys      *keys
	cluster   helm.Cluster
	serves    func(schema.GroupVersionKind) bool
	now       time.Time
	inputs    string
	again     string
	name      string
}

// question fetches the chart, renders it, and converts what the cluster does not serve.
func (s *system) question(q inquiry) controller.Question {
	return func(ctx context.Context, live controller.Live) any {
		answer := s.ask(ctx, live, q)
		s.last.Put(ctx, asker{q.key, q.component.name}, asked{q.uid, q.inputs, q.again, q.name}, answer)
		return answer
	}
}

func (s *system) ask(ctx context.Context, live controller.Live, q inquiry) *Answer {
	last, _ := s.lastOf(q.key, q.uid, q.component.name)
	artifact, err := q.from.Fetch(ctx, s.settings.Sources)
	if err != nil {
		return last.with(failureOf(q, err))
	}
	defer artifact.Close()
	var stale *plan.Problem
	if artifact.Stale != nil {
		stale = failureOf(q, artifact.Stale)
	}
	if q.same(last, artifact) {
		return last.with(stale)
	}
	chart, err := helm.Load(artifact.FS())
	if err != nil {
		return last.with(chartFailure(q, err))
	}
	in := helm.Input{
		Chart: chart, Release: q.release, Namespace: q.namespace, Values: q.values, Cluster: q.cluster, Kept: q.keys,
		Lookup: q.lookup(live),
	}
	rendered, err := helm.Render(ctx, in)
	if err == nil && s.settings.Printed && len(rendered.Wanted) > 0 {
		// Nothing is stored, so that nobody would ask again.
		if err = q.keys.makeAll(s.settings.Random, q.now, rendered.Wanted); err == nil {
			rendered, err = helm.Render(ctx, in)
		}
	}
	if err != nil {
		return last.with(chartFailure(q, err))
	}
	out := &Answer{
		APIs: rendered.Asked, Certificates: map[string]string{}, Wanted: rendered.Wanted, LooksUp: rendered.LooksUp,
		Depends: convert.Depends{}, Failure: stale,
	}
	for _, c := range rendered.Used {
		out.Certificates[c.Name()] = q.keys.digest(c.Name(), c)
	}
	if len(out.Wanted) > 0 {
		if last != nil {
			out.Content, out.Depends = last.Content, last.Depends
		}
		return out
	}
	out.Content = Content{
		Inputs: q.inputs, Chart: chart.Name, Version: chart.Version, Digest: artifact.Digest, ValuesDigest: q.keys.digestValues(q.values),
		Warnings: rendered.Warnings,
	}
	converter := convert.Converter{Served: out.Depends.Record(q.serves)}
	for _, list := range []struct {
		from []*unstructured.Unstructured
		to   *[]*unstructured.Unstructured
	}{
		{rendered.Definitions, &out.Definitions},
		{rendered.Before, &out.Before},
		{rendered.Objects, &out.Objects},
		{rendered.After, &out.After},
	} {
		objects, warnings := converter.ConvertAll(list.from)
		*list.to, out.Warnings = objects, append(out.Warnings, warnings...)
	}
	return out
}

// lastOf is the last answer for a component of a SeldonOperator, and what it was asked with; nil where there is none.
func (s *system) lastOf(key types.NamespacedName, uid types.UID, component string) (*Answer, asked) {
	last, note := s.last.Get(asker{key, component})
	if note.uid != uid {
		return nil, asked{}
	}
	return last, note
}

// Forget implements controller.Forgetful.
func (s *system) Forget(key types.NamespacedName) {
	s.last.Forget(func(of asker) bool { return of.key == key })
}

// same says that rendering the chart again would give the last answer again.
func (q inquiry) same(last *Answer, artifact *source.Artifact) bool {
	return last.rendered() && last.Inputs == q.inputs && last.Digest == artifact.Digest && len(last.Wanted) == 0 && !last.LooksUp &&
		!q.outdated(last)
}

// told is what a template would be told now of what it asked.
func (q inquiry) told(answer *Answer) (apis map[string]bool, certificates map[string]string) {
	apis, certificates = map[string]bool{}, map[string]string{}
	for apiVersion := range answer.APIs {
		apis[apiVersion] = q.cluster.Serves(apiVersion)
	}
	for name := range answer.Certificates {
		certificates[name] = q.keys.digestOf(name)
	}
	return apis, certificates
}

// outdated says that a template would be told something else than it was, or that the objects would be converted otherwise.
func (q inquiry) outdated(answer *Answer) bool {
	apis, certificates := q.told(answer)
	return !maps.Equal(apis, answer.APIs) || !maps.Equal(certificates, answer.Certificates) ||
		!maps.Equal(answer.Depends.Now(q.serves), answer.Depends)
}

// lookup answers the templates' lookup with the rights that the chart is written with. Secrets are read in the namespace of
// the SeldonOperator alone, and lists are empty: a template that goes through a cluster would be another at every rendering.
func (q inquiry) lookup(live controller.Live) func(context.Context, string, string, string, string) (map[string]any, error) {
	return func(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
		gv, err := schema.ParseGroupVersion(apiVersion)
		if err != nil || live == nil {
			return nil, err
		}
		if name == "" {
			return map[string]any{"apiVersion": apiVersion, "kind": kind + "List", "items": []any{}}, nil
		}
		if gv.Group == "" && kind == "Secret" && namespace != q.namespace {
			return nil, fmt.Errorf("lookup of Secret %s/%s: only those of namespace %s are read", namespace, name, q.namespace)
		}
		found, err := live.Get(ctx, q.user, gv.WithKind(kind), namespace, name)
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

// digestValues is a digest of values that tells nobody what they are (law 16): its key is the seed, which only who may read the Secret
// knows. The UID of the SeldonOperator is known to everybody who reads the digest in its status.
func (k *keys) digestValues(v values) string { return keyedDigest(types.UID(k.data[entrySeed]), v) }

// keyedDigest tells apart what is asked for; it leaves the memory of this process nowhere.
func keyedDigest(key types.UID, v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("bug: Helm values do not encode: %v", err))
	}
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write(raw)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// failureOf tells why a chart could not be fetched.
func failureOf(q inquiry, err error) *plan.Problem {
	f := &plan.Problem{
		Class: plan.Waiting, Reason: source.ReasonUnreachable, Field: q.field + ".chart", Value: q.chart.Name + " " + q.chart.Version, Message: err.Error(),
	}
	var fetch *source.Error
	if errors.As(err, &fetch) {
		if fetch.Class == source.Terminal {
			f.Class = plan.Terminal
		}
		f.Reason, f.Message, f.Remedy = fetch.Reason, fetch.Message, fetch.Remedy
	}
	return f
}

// chartFailure tells why a chart could not be read or rendered. The text of a template's error may quote values of Secrets, so
// that none of them is told where some are used.
func chartFailure(q inquiry, err error) *plan.Problem {
	if errors.Is(err, helm.ErrUnavailable) {
		return &plan.Problem{
			Class: plan.Waiting, Reason: reasonSourceFetching, Field: q.field + ".chart", Value: q.chart.Name + " " + q.chart.Version,
			Message: err.Error(), Remedy: "nothing to do",
		}
	}
	message := err.Error()
	for _, ref := range q.spec.ValuesFrom {
		if ref.Kind == "Secret" {
			message, _, _ = strings.Cut(message, ": ")
			message += ": it cannot be rendered with these values, some of which are secret"
			break
		}
	}
	return &plan.Problem{
		Class: plan.Terminal, Reason: reasonChartFailed, Field: q.field + ".values", Value: q.chart.Name + " " + q.chart.Version, Message: message,
		Remedy: "correct the values; helm template shows the same",
	}
}
