package helm

import (
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/manifest/bounded"
)

// Merge lays values over others, tables within tables; neither is changed. A null takes a value away, as it does in Helm.
func Merge(under, over map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(under)
	if out == nil {
		out = map[string]any{}
	}
	mergeInto(out, over)
	return out
}

// mergeInto lays values over others in place: a copy of each table within a table would take the square of how deep they are nested.
func mergeInto(out, over map[string]any) {
	for key, value := range over {
		table, isTable := value.(map[string]any)
		below, overTable := out[key].(map[string]any)
		if isTable && overTable && below != nil {
			mergeInto(below, table)
			continue
		}
		out[key] = runtime.DeepCopyJSONValue(value)
	}
}

// largest is what values of a user may become once they are decoded. They are decoded in the manager.
var largest = bounded.Size{Values: 1 << 17, Bytes: 8 << 20}

// ParseValues reads values as YAML or JSON. The error wraps a *bounded.LargeError where they are too large.
func ParseValues(raw []byte) (map[string]any, error) {
	out := map[string]any{}
	err := bounded.YAML(raw, largest)
	if errors.As(err, new(*bounded.LargeError)) {
		return nil, fmt.Errorf("the values are too large: %w", err)
	}
	if err == nil {
		err = decode(raw, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("the values are no YAML: %w", err)
	}
	if out == nil {
		out = map[string]any{} // The text is null.
	}
	return out, nil
}

// decode reads YAML or JSON. Whole numbers are integers, as for the API server: among floats, those beyond 2^53 would become others, and a
// template would print 1e+06 for a million.
func decode(text []byte, into *map[string]any) error {
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// valuesOf puts together what a template sees: the chart's values, those given, the release and the cluster. Charts that the
// values switch off are taken out of the chart.
func valuesOf(c *chartv2.Chart, in Input, caps *capabilities) (common.Values, error) {
	given := runtime.DeepCopyJSON(in.Values)
	if given == nil {
		given = map[string]any{}
	}
	if err := chartutil.ProcessDependencies(c, given); err != nil {
		return nil, fmt.Errorf("the charts within the chart: %w", err)
	}
	options := common.ReleaseOptions{
		Name: in.Release, Namespace: in.Namespace, Revision: max(in.Revision, 1), IsInstall: !in.Upgrade, IsUpgrade: in.Upgrade,
	}
	// Helm's own validation would follow references of a schema to files and servers.
	top, err := util.ToRenderValuesWithSchemaValidation(c, given, options, common.DefaultCapabilities, true)
	if err != nil {
		return nil, fmt.Errorf("the values do not fit the chart: %w", err)
	}
	top["Capabilities"] = caps
	values, err := top.Table("Values")
	if err != nil {
		return nil, fmt.Errorf("the values do not fit the chart: %w", err)
	}
	if problems := validate(c, values); len(problems) > 0 {
		return nil, errors.New("the values do not fit the schema of the chart: " + strings.Join(problems, "; "))
	}
	return top, nil
}
