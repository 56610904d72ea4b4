package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/world"
)

// child is one child of a service.
type child struct {
	object audit.Object
	// path is where the API server has it.
	path string
}

// children lists the children of a service that somebody may change: none that a finalizer holds, which are claims, and
// none that belongs to others, which is what a service is wired to.
func (s Stack) children(of world.Service) ([]child, error) {
	var out []child
	for _, r := range s.all() {
		r = s.For(r, of, s.uid)
		if !bytes.Contains(r.Body, []byte(controllerLabel)) {
			continue
		}
		var object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(r.Body, &object); err != nil {
			return nil, err
		}
		c := child{object: objectAt(r.Path()), path: r.Path() + "/" + object.Metadata.Name}
		c.object.Name = object.Metadata.Name
		if c.object.Resource != "persistentvolumeclaims" {
			out = append(out, c)
		}
	}
	return out, nil
}

// objectAt reads group, resource and namespace out of the path of a collection.
func objectAt(path string) audit.Object {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var o audit.Object
	if parts[0] == "apis" {
		o.Group, parts = parts[1], parts[3:]
	} else {
		parts = parts[2:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		o.NS, parts = parts[1], parts[2:]
	}
	o.Resource = parts[0]
	return o
}

// damage is how somebody spoils an object of a resource: one value that MLKeeper declares is replaced, in JSON.
type damage struct{ pointer, value string }

// partOf is a label that is on every child but claims; changing it does no harm.
const partOf = "/metadata/labels/app.kubernetes.io~1part-of"

// damages are chosen so that nothing stops being Ready: then the repair is all that follows.
var damages = map[string]damage{
	"services":            {"/spec/ports/0/targetPort", "1"},
	"routes":              {"/spec/to/name", `"elsewhere"`},
	"servicemonitors":     {"/spec/endpoints/0/interval", `"9s"`},
	"networkpolicies":     {"/spec/podSelector/matchLabels/app", `"nobody"`},
	"configmaps":          {partOf, `"nobody"`},
	"clusterrolebindings": {"/subjects/0/name", `"somebody"`},
	"deployments":         {partOf, `"nobody"`},
	"serviceaccounts":     {partOf, `"nobody"`},
	"secrets":             {partOf, `"nobody"`},
}

// deletable are the resources whose objects may be deleted without more following than that they are made again. A
// Secret with certificates would be made with other content, which restarts pods.
var deletable = map[string]bool{
	"services": true, "routes": true, "servicemonitors": true, "configmaps": true, "clusterrolebindings": true,
	"serviceaccounts": true, "deployments": true, "networkpolicies": true,
}

// spoil changes the child as somebody would with kubectl edit.
func (c child) spoil(ctx context.Context, wire *world.Wire) error {
	d, ok := damages[c.object.Resource]
	if !ok {
		return fmt.Errorf("the bench does not know how to change %s", c.object)
	}
	body := fmt.Sprintf(`[{"op":"replace","path":%q,"value":%s}]`, d.pointer, d.value)
	_, err := wire.Do(ctx, "PATCH", c.path+"?fieldManager=somebody", "application/json-patch+json", []byte(body))
	return err
}

// delete deletes the child.
func (c child) delete(ctx context.Context, wire *world.Wire) error {
	_, err := wire.Do(ctx, "DELETE", c.path, "application/json", []byte(`{"propagationPolicy":"Background"}`))
	return err
}

// spoiled says that the damage is still there, or that the child is not.
func (c child) spoiled(ctx context.Context, wire *world.Wire) (bool, error) {
	data, err := wire.Do(ctx, "GET", c.path, "", nil)
	if err != nil {
		return true, err
	}
	var object any
	if err := json.Unmarshal(data, &object); err != nil {
		return true, err
	}
	d := damages[c.object.Resource]
	raw, err := json.Marshal(valueAt(object, d.pointer))
	return string(raw) == d.value, err
}

// valueAt reads a value by a JSON pointer; nil where there is none.
func valueAt(from any, pointer string) any {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, step := range strings.Split(pointer, "/")[1:] {
		switch v := from.(type) {
		case map[string]any:
			from = v[unescape.Replace(step)]
		case []any:
			// The bench only ever means the first of a list.
			if step != "0" || len(v) == 0 {
				return nil
			}
			from = v[0]
		default:
			return nil
		}
	}
	return from
}
