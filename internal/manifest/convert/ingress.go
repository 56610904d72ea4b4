package convert

import (
	"strconv"
)

// ingress puts backends into the shape of v1 and names the path type that v1beta1 took when it was not told. The
// annotation kubernetes.io/ingress.class stays: controllers still read it, and the class of that name may not exist.
func ingress(o *object, _ string) error {
	spec := mapAt(o.content, "spec")
	if spec == nil {
		return nil
	}
	move(spec, "backend", spec, "defaultBackend")
	backend(mapAt(spec, "defaultBackend"))
	for _, r := range mapsAt(spec, "rules") {
		for _, p := range mapsAt(mapAt(r, "http"), "paths") {
			fill(p, "pathType", "ImplementationSpecific")
			backend(mapAt(p, "backend"))
		}
	}
	return nil
}

// backend moves the name and the port of a service into their own objects.
func backend(b map[string]any) {
	name, named := b["serviceName"]
	port, numbered := b["servicePort"]
	if !named && !numbered {
		return
	}
	delete(b, "serviceName")
	delete(b, "servicePort")
	service := map[string]any{"name": name}
	switch p := port.(type) {
	case string:
		// A number in quotes was taken for the name of a port, which no service can have.
		if number, err := strconv.ParseInt(p, 10, 32); err == nil {
			service["port"] = map[string]any{"number": number}
		} else {
			service["port"] = map[string]any{"name": p}
		}
	case nil:
	default:
		service["port"] = map[string]any{"number": p}
	}
	b["service"] = service
}
