package trustyai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// monitorOf renders the ServiceMonitor of a service with a partial one.
func monitorOf(t *testing.T, spec, ref string, change func(*v1.TrustyAIService)) (*unstructured.Unstructured, plan.Plan) {
	t.Helper()
	c, cr := newCluster(), custom(t, spec)
	c.Put(parse(t, pvYAML))
	if ref != "" {
		cr.Spec.ServiceMonitoring = &v1.ServiceMonitoringSpec{Ref: &runtime.RawExtension{Raw: []byte(ref)}}
	}
	if change != nil {
		change(cr)
	}
	_, p := gatherAndRender(t, c, cr)
	return find(p, "ServiceMonitor", namesOf(cr).serviceMonitor), p
}

func endpointOf(t *testing.T, monitor *unstructured.Unstructured) map[string]any {
	t.Helper()
	list, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	if len(list) != 1 {
		t.Fatalf("%d endpoints", len(list))
	}
	return list[0].(map[string]any)
}

// Test_ATenantsServiceMonitorCannotUseTheRightsOfOthers goes through what the owner of a TrustyAIService could gain by a
// partial ServiceMonitor: each is refused with a message that names the field, and the default stands in.
func Test_ATenantsServiceMonitorCannotUseTheRightsOfOthers(t *testing.T) {
	endpoint := func(field string) string { return `{"spec":{"endpoints":[{` + field + `}]}}` }
	for field, ref := range map[string]string{
		"spec.namespaceSelector":                              `{"spec":{"namespaceSelector":{"any":true}}}`,
		"spec.selector":                                       `{"spec":{"selector":{}}}`,
		"spec.selector ":                                      `{"spec":{"selector":null}}`,
		"spec.targetLabels":                                   `{"spec":{"targetLabels":["namespace"]}}`,
		"spec.attachMetadata":                                 `{"spec":{"attachMetadata":{"node":true}}}`,
		"spec.endpoints":                                      `{"spec":{"endpoints":[{},{}]}}`,
		"spec.endpoints[0].bearerTokenFile":                   endpoint(`"bearerTokenFile":"/var/run/secrets/kubernetes.io/serviceaccount/token"`),
		"spec.endpoints[0].bearerTokenSecret":                 endpoint(`"bearerTokenSecret":{"name":"db","key":"password"}`),
		"spec.endpoints[0].authorization":                     endpoint(`"authorization":{"credentials":{"name":"db","key":"password"}}`),
		"spec.endpoints[0].basicAuth":                         endpoint(`"basicAuth":{"password":{"name":"db","key":"password"}}`),
		"spec.endpoints[0].oauth2":                            endpoint(`"oauth2":{"tokenUrl":"http://mine"}`),
		"spec.endpoints[0].proxyUrl":                          endpoint(`"proxyUrl":"http://mine:8080"`),
		"spec.endpoints[0].tlsConfig":                         endpoint(`"tlsConfig":{"keyFile":"/etc/prometheus/tls.key"}`),
		"spec.endpoints[0].path":                              endpoint(`"path":"/admin"`),
		"spec.endpoints[0].port":                              endpoint(`"port":"other"`),
		"spec.endpoints[0].targetPort":                        endpoint(`"targetPort":9443`),
		"spec.endpoints[0].scheme":                            endpoint(`"scheme":"https"`),
		"spec.endpoints[0].scheme ":                           endpoint(`"scheme":null`),
		"spec.endpoints[0].params":                            endpoint(`"params":{"target":["x"]}`),
		"spec.endpoints[0].honorLabels":                       endpoint(`"honorLabels":true`),
		"spec.endpoints[0].relabelings":                       endpoint(`"relabelings":[{"targetLabel":"namespace","replacement":"prod"}]`),
		"spec.endpoints[0].metricRelabelings[0].action":       endpoint(`"metricRelabelings":[{"targetLabel":"namespace","replacement":"prod"}]`),
		"spec.endpoints[0].metricRelabelings[0].targetLabel":  endpoint(`"metricRelabelings":[{"action":"keep","targetLabel":"namespace"}]`),
		"spec.endpoints[0].metricRelabelings[0].regex":        endpoint(`"metricRelabelings":[{"action":"keep","regex":"("}]`),
		"spec.endpoints[0].metricRelabelings[0].sourceLabels": endpoint(`"metricRelabelings":[{"action":"keep","sourceLabels":[1]}]`),
		// What the definition of prometheus-operator refuses.
		"spec.endpoints[0].metricRelabelings[0].action ":       endpoint(`"metricRelabelings":[{"action":"KEEP"}]`),
		"spec.endpoints[0].metricRelabelings[0].sourceLabels ": endpoint(`"metricRelabelings":[{"action":"keep","sourceLabels":["a-b"]}]`),
		"spec.endpoints[0].interval":                           endpoint(`"interval":"1ms"`),
		"spec.endpoints[0].interval ":                          endpoint(`"interval":1`),
		"spec.endpoints[0].scrapeTimeout":                      endpoint(`"interval":"5s","scrapeTimeout":"6s"`),
		"metadata.labels":                                      `{"metadata":{"labels":{"keeper.mlkeeper.dev/controller":"tfserving"}}}`,
		"metadata.annotations":                                 `{"metadata":{"annotations":{"keeper.mlkeeper.dev/adopt":"true"}}}`,
		"status":                                               `{"status":{}}`,
	} {
		field = strings.TrimSpace(field)
		t.Run(field, func(t *testing.T) {
			monitor, p := monitorOf(t, upstreamSpec, ref, nil)
			if reasons(p) != "Terminal InvalidServiceMonitoring" || p.Problems[0].Field != refField+"."+field {
				t.Errorf("%+v", p.Problems)
			}
			if monitor != nil {
				t.Errorf("the ServiceMonitor would be written: %v", monitor.Object)
			}
		})
	}
}

func Test_AServiceMonitorTakesWhatIsTheTenantsToChoose(t *testing.T) {
	monitor, p := monitorOf(t, adrSpec, `{"apiVersion":"monitoring.coreos.com/v1","kind":"ServiceMonitor",
		"metadata":{"name":"mine","labels":{"release":"prometheus"},"annotations":{"note":"x"}},
		"spec":{"endpoints":[{"interval":"2s","honorTimestamps":false,"honorLabels":null,"bearerTokenFile":null,
		"metricRelabelings":[{"action":"Drop","sourceLabels":["__name__"],"regex":"trustyai_x|y","separator":";"}]}]}}`, nil)
	if len(p.Problems) > 0 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "metadata.name") {
		t.Error(p.Problems, p.Warnings)
	}
	if monitor.GetLabels()["release"] != "prometheus" || monitor.GetLabels()["modelmesh-service"] == "" || monitor.GetAnnotations()["note"] != "x" {
		t.Error(monitor.GetLabels(), monitor.GetAnnotations())
	}
	endpoint := endpointOf(t, monitor)
	for key, want := range map[string]any{
		"interval": "2s", "scrapeTimeout": "2s", "honorTimestamps": false, "honorLabels": nil, "bearerTokenFile": nil, "path": "/q/metrics",
	} {
		if endpoint[key] != want {
			t.Errorf("%s is %v, not %v", key, endpoint[key], want)
		}
	}
}

// Test_NoTokenIsSentToAnImageThatTheTenantChose: only the administrator's own image gets what the ADR shows.
func Test_NoTokenIsSentToAnImageThatTheTenantChose(t *testing.T) {
	own := func(cr *v1.TrustyAIService) { cr.Spec.Image = "quay.io/trustyai/trustyai-service:v0.19.0" }
	for _, tc := range []struct {
		name, spec string
		change     func(*v1.TrustyAIService)
		token      any
		honor      bool
	}{
		{"the ADR's, the administrator's image", adrSpec, nil, "/var/run/secrets/kubernetes.io/serviceaccount/token", true},
		{"the ADR's, the tenant's image", adrSpec, own, nil, false},
		{"upstream's, the administrator's image", upstreamSpec, nil, nil, false},
		{"upstream's, the tenant's image", upstreamSpec, own, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			monitor, _ := monitorOf(t, tc.spec, "", tc.change)
			endpoint := endpointOf(t, monitor)
			if endpoint["bearerTokenFile"] != tc.token || endpoint["honorLabels"] != tc.honor {
				t.Errorf("bearerTokenFile %v, honorLabels %v", endpoint["bearerTokenFile"], endpoint["honorLabels"])
			}
		})
	}
}

// Test_NoTokenIsSentToAdoptedPods: whoever made the Deployment that is adopted has chosen their image.
func Test_NoTokenIsSentToAdoptedPods(t *testing.T) {
	c, cr := adopted(t, adrSpec)
	c.Put(parse(t, pvYAML))
	d := parse(t, upstreamDeployment)
	d.SetName(ServiceName(cr))
	d.SetOwnerReferences([]metav1.OwnerReference{{Kind: "TrustyAIService", Name: cr.Name, UID: cr.UID}})
	c.Put(d)
	// Those of ours are scraped as ours once they have replaced them.
	for _, want := range []struct{ adopted, sent bool }{{true, false}, {false, false}, {false, true}} {
		_, p := gatherAndRender(t, c, cr)
		if holds := deploymentIn(t, p).Partial; holds != want.adopted {
			t.Fatalf("the pods are those that were adopted: %v", holds)
		}
		endpoint := endpointOf(t, mustFind(t, p, "ServiceMonitor", namesOf(cr).serviceMonitor))
		if sent := endpoint["bearerTokenFile"] != nil; sent != want.sent || endpoint["honorLabels"] != want.sent {
			t.Errorf("a token is sent: %v, honorLabels %v", sent, endpoint["honorLabels"])
		}
		c.Own(deploymentIn(t, p).Desired.DeepCopy(), testOwner)
		delete(c.Objects, plan.KeyOf(d))
		cr.Generation, cr.Spec.TrustyAIMetrics.Schedule = 2, "9s"
	}
}

// Test_NoServiceIsTrustedWhereTheAdministratorSaysSo: whoever may create pods beside a service can give them its labels.
func Test_NoServiceIsTrustedWhereTheAdministratorSaysSo(t *testing.T) {
	for _, spec := range []string{adrSpec, adrSpec + "  exposure: Secured\n", upstreamSpec, databaseSpec} {
		c, cr := newCluster(gvkServiceCA), custom(t, spec)
		c.Put(parse(t, pvYAML))
		for untrusted, trusting := range map[bool]bool{true: false, false: ADRShape(cr)} {
			system := testSystem()
			system.settings.UntrustedMetrics = untrusted
			facts, err := system.Gather(t.Context(), c, cr)
			if err != nil {
				t.Fatal(err)
			}
			endpoint := endpointOf(t, mustFind(t, system.Render(cr, facts), "ServiceMonitor", namesOf(cr).serviceMonitor))
			if endpoint["honorLabels"] != trusting || !trusting && endpoint["bearerTokenFile"] != nil {
				t.Errorf("%s, untrusted %t: bearerTokenFile %v, honorLabels %v", spec, untrusted, endpoint["bearerTokenFile"], endpoint["honorLabels"])
			}
		}
	}
}

// Test_NoFileIsNamedOnOpenShift: its Prometheus for user workloads drops a ServiceMonitor that names one.
func Test_NoFileIsNamedOnOpenShift(t *testing.T) {
	c := newCluster(gvkServiceCA, gvkConstraints)
	c.Put(parse(t, pvYAML))
	_, p := gatherAndRender(t, c, custom(t, adrSpec))
	if token := endpointOf(t, mustFind(t, p, "ServiceMonitor", adrServiceMonitor))["bearerTokenFile"]; token != nil {
		t.Errorf("bearerTokenFile is %v", token)
	}
}

func Test_AnIntervalUnderASecondIsRefused(t *testing.T) {
	monitor, p := monitorOf(t, upstreamSpec, "", func(cr *v1.TrustyAIService) {
		cr.Spec.ServiceMonitoring = &v1.ServiceMonitoringSpec{Interval: "1ms"}
	})
	if reasons(p) != "Terminal InvalidServiceMonitoring" || monitor != nil {
		t.Error(p.Problems, monitor)
	}
}

// Test_ExpressionsAreBounded: a repetition makes 500 MiB of a regular expression of 3 KiB, here and in Prometheus.
func Test_ExpressionsAreBounded(t *testing.T) {
	rules := func(regex string, n int) string {
		rule := `{"action":"drop","regex":"` + regex + `"}`
		return `{"spec":{"endpoints":[{"metricRelabelings":[` + strings.TrimSuffix(strings.Repeat(rule+",", n), ",") + `]}]}}`
	}
	for name, tc := range map[string]struct {
		ref, field string
	}{
		"one":          {rules("(?:"+strings.Repeat("a", 3300)+"){1000}", 1), "[0].regex"},
		"the sum":      {rules("(?:abcdefgh){900}", 3), "[2].regex"},
		"their texts":  {rules(strings.Repeat(`\\PL|`, 600), 9), "[8].regex"},
		"a long one":   {rules(strings.Repeat("a|bc", 1000), 1), ""},
		"as many":      {rules("trustyai_(a|b)_.{1,16}[0-9]{2}", maxRelabelings), ""},
		"some of them": {rules("(?:abcdefgh){900}", 2), ""},
	} {
		t.Run(name, func(t *testing.T) {
			monitor, p := monitorOf(t, upstreamSpec, tc.ref, nil)
			switch {
			case tc.field == "" && (len(p.Problems) > 0 || monitor == nil):
				t.Errorf("%+v", p.Problems)
			case tc.field == "":
			case len(p.Problems) != 1 || p.Problems[0].Field != refField+".spec.endpoints[0].metricRelabelings"+tc.field || monitor != nil:
				t.Errorf("%+v", p.Problems)
			}
		})
	}
}

// Test_AMonitorThatIsTooLargeIsRefused: whoever may edit a TrustyAIService can fill what etcd stores of it, and the manager decodes it in
// every pass. What is decoded takes many times what its text does.
func Test_AMonitorThatIsTooLargeIsRefused(t *testing.T) {
	const stored = 3 << 19
	var labels strings.Builder
	for i := range stored / 16 {
		fmt.Fprintf(&labels, `"x%09d":"",`, i)
	}
	for name, ref := range map[string]string{
		"lists":         `{"metadata":{"x":[` + strings.Repeat("[],", stored/3) + `[]]}}`,
		"objects":       `{"metadata":{"x":[` + strings.Repeat("{},", stored/3) + `{}]}}`,
		"metadata":      `{"metadata":{` + labels.String() + `"y":""}}`,
		"labels":        `{"metadata":{"labels":{` + labels.String() + `"y":""}}}`,
		"a long text":   `{"metadata":{"name":"` + strings.Repeat("[", stored) + `"}}`,
		"nothing known": `{` + labels.String() + `"y":""}`,
	} {
		monitor, p := monitorOf(t, upstreamSpec, ref, nil)
		if reasons(p) != "Terminal InvalidServiceMonitoring" || !strings.Contains(p.Problems[0].Message, "too large") || monitor != nil {
			t.Errorf("%s: %v, %d warnings", name, reasons(p), len(p.Warnings))
		}
	}
	// What fills the annotations of a ServiceMonitor is not.
	annotations := `{"metadata":{"annotations":{"note":"` + strings.Repeat("x", 200<<10) + `"}}}`
	if _, p := monitorOf(t, upstreamSpec, annotations, nil); len(p.Problems) > 0 {
		t.Error(p.Problems)
	}
}

// Test_OneWarningTellsOfUnusedMetadata: a warning for each key would be compared with each before it.
func Test_OneWarningTellsOfUnusedMetadata(t *testing.T) {
	var keys []string
	for i := range 5000 {
		keys = append(keys, fmt.Sprintf(`"x%04d":""`, i))
	}
	_, p := monitorOf(t, upstreamSpec, `{"metadata":{`+strings.Join(keys, ",")+`}}`, nil)
	if len(p.Problems) > 0 || len(p.Warnings) != 1 {
		t.Fatalf("%v, %d warnings", p.Problems, len(p.Warnings))
	}
	for _, want := range []string{"metadata.x0000, ", "x0002", "4997 more"} {
		if !strings.Contains(p.Warnings[0], want) {
			t.Errorf("the warning has no %q: %s", want, p.Warnings[0])
		}
	}
}

// Test_ExpressionsThatTakeLongAreRefused: they are parsed in every pass. A repetition is a few characters of an expression, and becomes
// thousands of instructions, for Prometheus too.
func Test_ExpressionsThatTakeLongAreRefused(t *testing.T) {
	rules := func(expressions ...string) string {
		var out []string
		for _, one := range expressions {
			text, err := json.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, `{"action":"keep","regex":`+string(text)+`}`)
		}
		return `{"spec":{"endpoints":[{"metricRelabelings":[` + strings.Join(out, ",") + `]}]}}`
	}
	for name, ref := range map[string]string{
		"a repetition":              rules(strings.Repeat(".{1000}", 100)),
		"a repetition in another":   rules(strings.Repeat("((ab){30}c){30}", 9)),
		"repetitions, each small":   rules(slices.Repeat([]string{".{900}"}, 60)...),
		"texts, together long":      rules(slices.Repeat([]string{strings.Repeat("a", 1000)}, 25)...),
		"the case of all of them":   rules(`(?i)[a-\x{ffff}]`),
		"with another flag":         rules(`x(?si:[a-\x{1e900}])`),
		"the case of the character": rules("(?i)[a-\U0001e900]"),
	} {
		if monitor, p := monitorOf(t, upstreamSpec, ref, nil); reasons(p) != "Terminal InvalidServiceMonitoring" || monitor != nil {
			t.Errorf("%s: %v", name, p.Problems)
		}
	}
	for _, ref := range []string{
		rules(strings.Repeat("trustyai_metric|", 200)), rules("trustyai_.*", "(?i)TrustyAI_[a-z]{1,32}", "(?:é|ü)+", `[\x{100}-\x{200}]{0,9}`),
	} {
		if _, p := monitorOf(t, upstreamSpec, ref, nil); len(p.Problems) > 0 {
			t.Error(p.Problems)
		}
	}
}
