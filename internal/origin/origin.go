package origin

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/source"
)

// ReasonKeyMissing says that an object has not the entry that is to hold an archive; stable across releases.
const ReasonKeyMissing = "KeyMissing"

var (
	secrets    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

// The schemes of archives that are in an object of the custom resource's namespace, for clusters without a network.
const (
	inConfigMap = "configmap:"
	inSecret    = "secret:"
)

// The keys of a Secret with what the server of a repository asks for.
const (
	keyUsername   = "username"
	keyPassword   = "password"
	keyToken      = "token"
	keyCA         = "ca.crt"
	keyProxy      = "proxy"
	keySSH        = "identity"
	keyKnownHosts = "known_hosts"
)

// Origin is where one source comes from, with everything of the cluster that fetching it needs.
type Origin struct {
	// Field is the path of the field that names the source, such as spec.repos[0].
	Field string
	// User is whose rights the objects are read with that the custom resource names; empty for the operator's.
	User    string
	Request source.Request
	// Chart is what to fetch in place of the Request's URI; nil where it is no chart of a repository.
	Chart *source.ChartRequest
	// Inline is the archive itself, where an object of the cluster holds it.
	Inline []byte
	// Versions tell of the objects that were read, so that another content is another question.
	Versions []string
}

// Fetcher fetches archives. *source.Store is one.
type Fetcher interface {
	Fetch(ctx context.Context, r source.Request) (*source.Artifact, error)
	FetchChart(ctx context.Context, r source.ChartRequest) (*source.Artifact, error)
	Unpack(ctx context.Context, name string, data []byte) (*source.Artifact, error)
}

// Fetch brings the archive.
func (o *Origin) Fetch(ctx context.Context, from Fetcher) (*source.Artifact, error) {
	if o.Inline != nil {
		return from.Unpack(ctx, o.Request.URI, o.Inline)
	}
	if o.Chart != nil {
		chart := *o.Chart
		chart.Auth = o.Request.Auth
		return from.FetchChart(ctx, chart)
	}
	return from.Fetch(ctx, o.Request)
}

// ReadArchive reads an archive that is in a ConfigMap or a Secret.
func (o *Origin) ReadArchive(ctx context.Context, read controller.Reader, namespace, field, uri string) error {
	gvk, place, found := configMaps, "", false
	if place, found = strings.CutPrefix(uri, inConfigMap); !found {
		if place, found = strings.CutPrefix(uri, inSecret); !found {
			return nil
		}
		gvk = secrets
	}
	name, key, found := strings.Cut(place, "/")
	if !found || name == "" || key == "" {
		return plan.Problem{
			Class: plan.Terminal, Reason: source.ReasonURIInvalid, Field: field, Value: uri,
			Message: "it does not name an archive in an object", Remedy: "write " + inConfigMap + "NAME/KEY or " + inSecret + "NAME/KEY",
		}
	}
	object, err := o.Referenced(ctx, read, gvk, namespace, name, field)
	if err != nil {
		return err
	}
	raw, there := Entry(object, key)
	if !there {
		return plan.Problem{
			Class: plan.Waiting, Reason: ReasonKeyMissing, Field: field, Value: uri,
			Message: fmt.Sprintf("%s %s has no entry %s of bytes", gvk.Kind, name, key),
			Remedy:  "put the archive there: kubectl create " + strings.ToLower(gvk.Kind) + " with --from-file=" + key + "=ARCHIVE.tar.gz",
		}
	}
	o.Inline = raw
	return nil
}

// ReadSecret reads what the server of a repository asks for.
func (o *Origin) ReadSecret(ctx context.Context, read controller.Reader, namespace, field, name string) error {
	if name == "" {
		return nil
	}
	object, err := o.Referenced(ctx, read, secrets, namespace, name, field)
	if err != nil {
		return err
	}
	text := func(key string) string {
		raw, _ := Entry(object, key)
		return string(raw)
	}
	o.Request.Auth = source.Auth{
		Username: text(keyUsername), Password: text(keyPassword), Token: text(keyToken), Proxy: text(keyProxy),
		CA: []byte(text(keyCA)), SSHKey: []byte(text(keySSH)), KnownHosts: []byte(text(keyKnownHosts)),
	}
	return nil
}

// ReadKeys reads the public keys that a chart is verified with: the entries of a Secret or ConfigMap whose names end in one of the endings.
func (o *Origin) ReadKeys(
	ctx context.Context, read controller.Reader, gvk schema.GroupVersionKind, namespace, field, name string, endings ...string,
) ([][]byte, error) {
	object, err := o.Referenced(ctx, read, gvk, namespace, name, field)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, field := range []string{"data", "binaryData"} {
		entries, _, _ := unstructured.NestedMap(object.Object, field)
		for entry := range entries {
			if slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(entry, end) }) {
				names[entry] = true
			}
		}
	}
	var out [][]byte
	for _, entry := range slices.Sorted(maps.Keys(names)) {
		if text, found := Text(object, entry); found {
			out = append(out, []byte(text))
		} else if raw, found := Entry(object, entry); found {
			out = append(out, raw)
		}
	}
	if len(out) == 0 {
		return nil, plan.Problem{
			Class: plan.Waiting, Reason: ReasonKeyMissing, Field: field, Value: name,
			Message: fmt.Sprintf("%s %s has no entry whose name ends in %s", gvk.Kind, name, strings.Join(endings, " or ")),
			Remedy:  "put the public keys there, each under a name of its own",
		}
	}
	return out, nil
}

// ReasonTokenRefused says that a Secret is the token of a ServiceAccount; stable across releases.
const ReasonTokenRefused = "ServiceAccountTokenRefused"

// Referenced reads an object of the namespace. While the object is absent, the custom resource waits for it. Tokens of ServiceAccounts are refused: they are
// no credentials of a repository, and whoever names them chooses the server that gets them.
func (o *Origin) Referenced(
	ctx context.Context, read controller.Reader, gvk schema.GroupVersionKind, namespace, name, field string,
) (*unstructured.Unstructured, error) {
	object, err := read.ReferencedAs(ctx, o.User, gvk, namespace, name)
	if err != nil {
		return nil, err
	}
	if object == nil {
		return nil, plan.Problem{
			Class: plan.Waiting, Reason: gvk.Kind + "NotFound", Field: field, Value: name,
			Message: fmt.Sprintf("there is no %s of this name in namespace %s", gvk.Kind, namespace), Remedy: "create it",
		}
	}
	if kind, _, _ := unstructured.NestedString(object.Object, "type"); gvk == secrets && kind == string(corev1.SecretTypeServiceAccountToken) {
		return nil, plan.Problem{
			Class: plan.Terminal, Reason: ReasonTokenRefused, Field: field, Value: name,
			Message: "the Secret is the token of a ServiceAccount", Remedy: "name a Secret that holds what the repository or the chart needs",
		}
	}
	o.Versions = append(o.Versions, string(object.GetUID())+"/"+object.GetResourceVersion())
	return object, nil
}

// Entry is the content under a key of a Secret or of a ConfigMap's binaryData.
func Entry(object *unstructured.Unstructured, key string) ([]byte, bool) {
	field := "data"
	if object.GetKind() == configMaps.Kind {
		field = "binaryData"
	}
	encoded, found, _ := unstructured.NestedString(object.Object, field, key)
	if !found {
		return nil, false
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return raw, err == nil
}

// Text is the text under a key of a Secret or of a ConfigMap's data.
func Text(object *unstructured.Unstructured, key string) (string, bool) {
	if object.GetKind() == configMaps.Kind {
		text, found, _ := unstructured.NestedString(object.Object, "data", key)
		return text, found
	}
	raw, found := Entry(object, key)
	return string(raw), found
}
