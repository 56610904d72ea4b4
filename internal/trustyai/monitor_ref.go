package trustyai

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/scrape"
)

// refField is the path of the partial ServiceMonitor.
const refField = "spec.serviceMonitoring.ref"

// reasonInvalidMonitoring is the reason of everything that is refused in spec.serviceMonitoring.
const reasonInvalidMonitoring = "InvalidServiceMonitoring"

// maxRelabelings bounds what Prometheus does for each sample.
const maxRelabelings = 64

// maxRef bounds what a partial ServiceMonitor takes in memory, in bytes. It is decoded in every pass. The API server takes a quarter of that
// in annotations (k8s.io/apimachinery, pkg/api/validation, TotalAnnotationSizeLimitB).
const maxRef = 1 << 20

// notTaken is what is wrong with a value of another form.
const notTaken = "is not what Prometheus takes there"

// monitorRef is what a partial ServiceMonitor (TrustyAI ADR 3) may change. The ServiceMonitor is written with the rights of
// the operator and read with those of Prometheus, which the owner of a TrustyAIService has neither of. So what is scraped,
// how it is reached and what is sent to it are not in here, and no field that this does not know passes.
type monitorRef struct {
	labels, annotations map[string]string
	// unused are fields of the metadata that are left out with a warning, since they change nothing that is scraped.
	unused []string
	// endpoint are the fields of the endpoint that replace the default; nil takes the default out.
	endpoint map[string]any
}

func refProblem(field, value, message string) *plan.Problem {
	return &plan.Problem{
		Class: plan.Terminal, Reason: reasonInvalidMonitoring, Field: field, Value: value, Message: message,
		Remedy: "write a partial ServiceMonitor of monitoring.coreos.com/v1 with labels and annotations, and of one endpoint interval, " +
			"scrapeTimeout, honorTimestamps and metricRelabelings, such as {spec: {endpoints: [{interval: 15s}]}}",
	}
}

// readRef decodes and checks a partial ServiceMonitor against the interval that holds without it.
func readRef(raw []byte, interval string) (*monitorRef, *plan.Problem) {
	if bounded.JSONInMemory(raw) > maxRef {
		return nil, refProblem(refField, "", fmt.Sprintf("is too large: it takes more than %d KiB of memory", maxRef>>10))
	}
	var partial map[string]any
	if err := utiljson.Unmarshal(raw, &partial); err != nil || partial == nil {
		return nil, refProblem(refField, "", "is not an object")
	}
	out := &monitorRef{}
	for _, key := range sortedKeys(partial) {
		var problem *plan.Problem
		switch given := partial[key]; key {
		case "apiVersion":
			problem = fixed(key, given, gvkServiceMonitor.GroupVersion().String())
		case "kind":
			problem = fixed(key, given, gvkServiceMonitor.Kind)
		case "metadata":
			problem = out.readMetadata(given)
		case "spec":
			problem = out.readSpec(given, interval)
		default:
			problem = notAllowed(refField, key)
		}
		if problem != nil {
			return nil, problem
		}
	}
	return out, nil
}

func fixed(key string, got any, want string) *plan.Problem {
	if got != want {
		return refProblem(refField+"."+key, quote(fmt.Sprint(got)), "is not "+want)
	}
	return nil
}

func notAllowed(at, key string) *plan.Problem {
	return refProblem(at+"."+quoteKey(key), "", "is not allowed: it decides what is scraped or what is sent there, with the rights of Prometheus")
}

// object decodes an object; absent and null are an empty one.
func object(given any, field string) (map[string]any, *plan.Problem) {
	m, ok := given.(map[string]any)
	if given != nil && !ok {
		return nil, refProblem(field, "", "is not an object")
	}
	return m, nil
}

// readMetadata takes labels and annotations. The name and the namespace are not the user's to choose.
func (m *monitorRef) readMetadata(given any) *plan.Problem {
	meta, problem := object(given, refField+".metadata")
	if problem != nil {
		return problem
	}
	for _, key := range sortedKeys(meta) {
		switch at := refField + ".metadata." + quoteKey(key); key {
		case "labels":
			m.labels, problem = words(meta[key], at, validation.IsValidLabelValue)
		case "annotations":
			m.annotations, problem = words(meta[key], at, nil)
		default:
			m.unused = append(m.unused, key)
		}
		if problem != nil {
			return problem
		}
	}
	return nil
}

func (m *monitorRef) readSpec(given any, interval string) *plan.Problem {
	const at = refField + ".spec"
	spec, problem := object(given, at)
	if problem != nil {
		return problem
	}
	for _, key := range sortedKeys(spec) {
		if key != "endpoints" {
			return notAllowed(at, key)
		}
	}
	list, ok := spec["endpoints"].([]any)
	switch {
	case spec["endpoints"] != nil && !ok:
		return refProblem(at+".endpoints", "", "is not a list")
	case len(list) > 1:
		return refProblem(at+".endpoints", "", fmt.Sprintf("has %d endpoints, and the service has one", len(list)))
	case len(list) == 0:
		return nil
	}
	endpoint, ok := list[0].(map[string]any)
	if !ok {
		return refProblem(at+".endpoints[0]", "", "is not an object")
	}
	return m.readEndpoint(endpoint, interval)
}

// removable are fields of the default endpoint that may be taken out: without them less is sent, or is believed.
var removable = []string{"scrapeTimeout", "metricRelabelings", "honorTimestamps", "bearerTokenFile", "honorLabels", "params"}

func (m *monitorRef) readEndpoint(given map[string]any, interval string) *plan.Problem {
	const at = refField + ".spec.endpoints[0]"
	m.endpoint = maps.Clone(given)
	if text, ok := given["interval"].(string); ok {
		interval = text
	}
	for _, key := range sortedKeys(given) {
		field, value := at+"."+quoteKey(key), given[key]
		text, isText := value.(string)
		_, isBool := value.(bool)
		var err error
		switch {
		case value == nil && slices.Contains(removable, key), key == "honorTimestamps" && isBool:
		case key == "interval" && isText:
			err = scrape.Interval(text)
		case key == "scrapeTimeout" && isText:
			err = scrape.Timeout(text, interval)
		case key == "interval", key == "scrapeTimeout", key == "honorTimestamps":
			return refProblem(field, quote(fmt.Sprint(value)), "has the wrong type")
		case key == "metricRelabelings":
			if problem := checkRelabelings(value, field); problem != nil {
				return problem
			}
		default:
			return notAllowed(at, key)
		}
		if err != nil {
			return refProblem(field, quote(text), err.Error())
		}
	}
	return nil
}

// checkRelabelings lets through what leaves samples out. What changes a label could give a metric the name, or the
// namespace, of another.
func checkRelabelings(given any, field string) *plan.Problem {
	list, ok := given.([]any)
	if !ok || len(list) > maxRelabelings {
		return refProblem(field, "", fmt.Sprintf("is not a list of at most %d", maxRelabelings))
	}
	left := maxExpressions
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		rule, ok := item.(map[string]any)
		if !ok {
			return refProblem(at, "", "is not an object")
		}
		if action, _ := rule["action"].(string); !slices.Contains([]string{"keep", "Keep", "drop", "Drop"}, action) {
			return refProblem(at+".action", quote(fmt.Sprint(rule["action"])), "is neither keep nor drop")
		}
		for _, key := range sortedKeys(rule) {
			wrong := ""
			switch value := rule[key]; key {
			case "action":
			case "separator":
				if _, isText := value.(string); !isText {
					wrong = notTaken
				}
			case "regex":
				if !isExpression(value, &left) {
					wrong = notTaken + ", or takes too much of its memory"
				}
			case "sourceLabels":
				if !isLabelNames(value) {
					wrong = notTaken
				}
			default:
				wrong = "is not allowed: a relabeling may leave metrics out, and nothing else"
			}
			if wrong != "" {
				return refProblem(at+"."+quoteKey(key), "", wrong)
			}
		}
	}
	return nil
}

// maxExpressions bounds the regular expressions of all relabelings, and maxExpression each, in instructions: Prometheus compiles them.
const maxExpressions, maxExpression = 20_000, 10_000

// isExpression tells a regular expression as Prometheus reads it (prometheus, model/relabel/relabel.go, NewRegexp), and takes it from what is
// left for others.
func isExpression(given any, left *int) bool {
	const limit = 4096
	text, ok := given.(string)
	if !ok || len(text) > limit {
		return false
	}
	size, err := bounded.Expression("^(?s:"+text+")$", min(maxExpression, *left))
	*left -= size
	return err == nil
}

// labelName is what ServiceMonitors take as the name of a label (monitoring.coreos.com/v1, LabelName).
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func isLabelNames(given any) bool {
	list, ok := given.([]any)
	return ok && !slices.ContainsFunc(list, func(item any) bool {
		text, isText := item.(string)
		return !isText || !labelName.MatchString(text)
	})
}

// applyTo changes the ServiceMonitor and its endpoint: what is given replaces the default, null takes it out, and the rest
// stays (TrustyAI ADR 3).
func (m *monitorRef) applyTo(monitor *unstructured.Unstructured, endpoint map[string]any) {
	labels := monitor.GetLabels()
	maps.Copy(labels, m.labels)
	monitor.SetLabels(labels)
	if len(m.annotations) > 0 {
		monitor.SetAnnotations(m.annotations)
	}
	for key, value := range m.endpoint {
		if value == nil {
			delete(endpoint, key)
		} else {
			endpoint[key] = value
		}
	}
	if m.endpoint["scrapeTimeout"] == nil {
		fitTimeout(endpoint)
	}
}

// unusedFields names the first fields of the metadata that are left out; empty where none is.
func (m *monitorRef) unusedFields() string {
	const most = 3
	var names []string
	for _, key := range m.unused[:min(len(m.unused), most)] {
		names = append(names, refField+".metadata."+quoteKey(key))
	}
	if rest := len(m.unused) - most; rest > 0 {
		names = append(names, fmt.Sprintf("and %d more", rest))
	}
	return joinWords(names)
}

// quoteKey prints a key of user input, on one line and not too long.
func quoteKey(key string) string { return strings.Trim(quote(key), `"`) }

// words decodes a map of strings with legal keys, none of them MLKeeper's own.
func words(given any, field string, check func(string) []string) (map[string]string, *plan.Problem) {
	if given == nil {
		return nil, nil
	}
	m, ok := given.(map[string]any)
	if !ok {
		return nil, refProblem(field, "", "is not a map of strings")
	}
	out := make(map[string]string, len(m))
	for _, key := range sortedKeys(m) {
		text, ok := m[key].(string)
		switch {
		case !ok:
			return nil, refProblem(field+"."+quoteKey(key), "", "is not a string")
		case len(validation.IsQualifiedName(key)) > 0:
			return nil, refProblem(field, quote(key), "is not a legal key")
		case strings.HasPrefix(key, keeper.AnnotationPrefix):
			return nil, refProblem(field, quote(key), "is MLKeeper's own")
		case check != nil && len(check(text)) > 0:
			return nil, refProblem(field+"."+quoteKey(key), quote(text), "is not a legal value")
		}
		out[key] = text
	}
	return out, nil
}
