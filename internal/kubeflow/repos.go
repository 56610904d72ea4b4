package kubeflow

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/room"
	"mlkeeper.dev/internal/source"
)

var (
	secrets    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

// The schemes of archives that are in an object of the KfDef's namespace, for clusters without a network.
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

// origin is where one repository comes from, with everything of the cluster that fetching it needs.
type origin struct {
	name, field string
	request     source.Request
	// inline is the archive itself, where an object of the cluster holds it.
	inline []byte
	// versions tell of the objects that were read, so that another content is another question.
	versions []string
}

// origins reads what the repositories of a KfDef refer to in its namespace.
func origins(ctx context.Context, read room.Reader, cr *kubeflowv1.KfDef) ([]origin, error) {
	out := make([]origin, 0, len(cr.Spec.Repos))
	for i, r := range cr.Spec.Repos {
		o := origin{name: r.Name, field: fmt.Sprintf("spec.repos[%d]", i), request: source.Request{URI: r.URI, Before: true}}
		if err := o.readArchive(ctx, read, cr.Namespace, r.URI); err != nil {
			return nil, err
		}
		if err := o.readSecret(ctx, read, cr.Namespace, r.SecretName); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// readArchive reads an archive that is in a ConfigMap or a Secret.
func (o *origin) readArchive(ctx context.Context, read room.Reader, namespace, uri string) error {
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
			Class: plan.Terminal, Reason: source.ReasonURIInvalid, Field: o.field + ".uri", Value: uri,
			Message: "it does not name an archive in an object", Remedy: "write " + inConfigMap + "NAME/KEY or " + inSecret + "NAME/KEY",
		}
	}
	object, err := o.referenced(ctx, read, gvk, namespace, name, o.field+".uri")
	if err != nil {
		return err
	}
	raw, there := entry(object, key)
	if !there {
		return plan.Problem{
			Class: plan.Waiting, Reason: reasonKeyMissing, Field: o.field + ".uri", Value: uri,
			Message: fmt.Sprintf("%s %s has no entry %s of bytes", gvk.Kind, name, key),
			Remedy:  "put the archive there: kubectl create " + strings.ToLower(gvk.Kind) + " with --from-file=" + key + "=ARCHIVE.tar.gz",
		}
	}
	o.inline = raw
	return nil
}

// readSecret reads what the server of a repository asks for.
func (o *origin) readSecret(ctx context.Context, read room.Reader, namespace, name string) error {
	if name == "" {
		return nil
	}
	object, err := o.referenced(ctx, read, secrets, namespace, name, o.field+".secretName")
	if err != nil {
		return err
	}
	text := func(key string) string {
		raw, _ := entry(object, key)
		return string(raw)
	}
	o.request.Auth = source.Auth{
		Username: text(keyUsername), Password: text(keyPassword), Token: text(keyToken), Proxy: text(keyProxy),
		CA: []byte(text(keyCA)), SSHKey: []byte(text(keySSH)), KnownHosts: []byte(text(keyKnownHosts)),
	}
	return nil
}

// referenced reads an object of the namespace, which is waited for where it is not there.
func (o *origin) referenced(
	ctx context.Context, read room.Reader, gvk schema.GroupVersionKind, namespace, name, field string,
) (*unstructured.Unstructured, error) {
	object, err := read.Referenced(ctx, gvk, namespace, name)
	if err != nil {
		return nil, err
	}
	if object == nil {
		return nil, plan.Problem{
			Class: plan.Waiting, Reason: gvk.Kind + "NotFound", Field: field, Value: name,
			Message: fmt.Sprintf("there is no %s of this name in namespace %s", gvk.Kind, namespace), Remedy: "create it",
		}
	}
	o.versions = append(o.versions, string(object.GetUID())+"/"+object.GetResourceVersion())
	return object, nil
}

// entry is the content under a key of a Secret or of a ConfigMap's binaryData.
func entry(object *unstructured.Unstructured, key string) ([]byte, bool) {
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
