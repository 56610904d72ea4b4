package seldon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/origin"
)

// reasonValuesInvalid says that values are none; stable across releases.
const reasonValuesInvalid = "ValuesInvalid"

// maxGiven bounds what the values of a user for one component take in the manager's memory together, in bytes.
const maxGiven = 8 << 20

// maxIndices bounds the indices of lists in one path and its text: each may make a list of 65,536 entries.
const maxIndices = 8

// userValues are the values of a user: those of objects in their order, and over them those of the spec. With an error they are those that
// could be read.
func userValues(ctx context.Context, read controller.Reader, cr *v1alpha1.SeldonOperator, r *request) (values, error) {
	out, failed := values{}, error(nil)
	for i, ref := range r.spec.ValuesFrom {
		field := fmt.Sprintf("%s.valuesFrom[%d]", r.field, i)
		more, err := addReferenced(ctx, read, cr.Namespace, ref, field, &r.from.Origin, out)
		if err == nil {
			err = checkMemory(more, field, ref.Name)
		}
		switch {
		case err == nil:
			out = more
		case failed == nil:
			failed = err
		}
	}
	if r.spec.Values != nil && len(r.spec.Values.Raw) > 0 {
		field := r.field + ".values"
		given, err := helm.ParseValues(r.spec.Values.Raw)
		if err != nil {
			return out, unread(err, plan.Problem{Field: field, Message: err.Error(), Remedy: "write them as a map"})
		}
		more := helm.Merge(out, given)
		if err := checkMemory(more, field, ""); err != nil {
			return out, err
		}
		out = more
	}
	return out, failed
}

// unread is the problem of values that cannot be decoded, as it is told of those that are no map.
func unread(err error, p plan.Problem) plan.Problem {
	if errors.As(err, new(*bounded.LargeError)) {
		p.Remedy = remedyLarge
	}
	p.Class, p.Reason = plan.Terminal, reasonValuesInvalid
	return p
}

const remedyLarge = "leave out what the chart does not need, and repeat no long text by an alias"

// checkMemory refuses values that are too large to be kept: those of a component are in the memory of the manager, whatever they come from.
func checkMemory(v values, field, name string) error {
	if bounded.InMemory(v) <= maxGiven {
		return nil
	}
	return plan.Problem{
		Class: plan.Terminal, Reason: reasonValuesInvalid, Field: field, Value: name,
		Message: fmt.Sprintf("with it, the values of the component take more than %d MiB of memory", maxGiven>>20), Remedy: remedyLarge,
	}
}

// addReferenced lays the values in an object over others. What it holds is never told, since it may be secret.
func addReferenced(
	ctx context.Context, read controller.Reader, namespace string, ref v1alpha1.ValuesReference, field string, from *origin.Origin,
	under values,
) (values, error) {
	gvk := gvkConfigMap
	if ref.Kind == gvkSecret.Kind {
		gvk = gvkSecret
	}
	object, err := from.Referenced(ctx, read, gvk, namespace, ref.Name, field+".name")
	if err != nil {
		var missing plan.Problem
		if ref.Optional && errors.As(err, &missing) && missing.Reason == gvk.Kind+"NotFound" {
			return under, nil
		}
		return nil, err
	}
	key := ref.ValuesKey
	if key == "" {
		key = "values.yaml"
	}
	raw, found := origin.Text(object, key)
	switch {
	case !found && ref.Optional:
		return under, nil
	case !found:
		return nil, plan.Problem{
			Class: plan.Waiting, Reason: origin.ReasonKeyMissing, Field: field + ".valuesKey", Value: key,
			Message: fmt.Sprintf("%s %s has no key of this name", ref.Kind, ref.Name), Remedy: "put the values there",
		}
	case ref.TargetPath != "":
		out, err := setPath(under, ref.TargetPath, raw, ref.Literal)
		if err != nil {
			return nil, plan.Problem{
				Class: plan.Terminal, Reason: reasonValuesInvalid, Field: field + ".targetPath", Value: ref.TargetPath,
				Message: fmt.Sprintf("the key %s of %s %s cannot be set there as helm --set would", key, ref.Kind, ref.Name),
				Remedy:  "correct the path or the text, or set literal to true for a text as it is",
			}
		}
		return out, nil
	}
	parsed, err := helm.ParseValues([]byte(raw))
	if err != nil {
		message := fmt.Sprintf("the key %s of %s %s is no map in YAML", key, ref.Kind, ref.Name)
		if large := (*bounded.LargeError)(nil); errors.As(err, &large) {
			message = fmt.Sprintf("the key %s of %s %s is too large: %s", key, ref.Kind, ref.Name, large)
		}
		return nil, unread(err, plan.Problem{Field: field, Value: ref.Name, Message: message, Remedy: "correct it"})
	}
	return helm.Merge(under, parsed), nil
}

// errIndices says that a path or a text names too many entries of lists.
var errIndices = errors.New("too many indices")

// setPath sets a text at a path as Flux does (fluxcd/pkg/chartutil): as helm --set, so that it may be a truth value or a number, as helm
// --set-string where it is in quotes, and as helm --set-literal where it is literal.
func setPath(under values, path, text string, literal bool) (values, error) {
	parse := strvals.ParseInto
	if literal {
		text, parse = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `{`, `\{`).Replace(text), strvals.ParseIntoString
	}
	for _, quote := range []string{`"`, `'`} {
		if inner, found := strings.CutPrefix(text, quote); found && strings.HasSuffix(inner, quote) && !literal {
			text, parse = strings.Trim(text, `"'`), strvals.ParseIntoString
			break
		}
	}
	indices := strings.Count(path, "[")
	if !literal {
		indices += strings.Count(text, "[")
	}
	if indices > maxIndices {
		return nil, errIndices
	}
	out := helm.Merge(under, nil)
	return out, parse(path+"="+text, out)
}
