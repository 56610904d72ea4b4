package faults

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// prepared applies manifests before the custom resource.
func prepared(text string, more ...func(*World) error) func(*World) error {
	return func(w *World) error {
		for _, f := range more {
			if err := f(w); err != nil {
				return err
			}
		}
		return w.Apply(text)
	}
}

// otherSecrets are there for fields that name a Secret or a ConfigMap.
const otherSecrets = `
apiVersion: v1
kind: Secret
metadata: {name: other}
stringData: {key.json: "{}", username: u, password: p, token: t}
---
`

// tfservBases are those of config/samples, and one whose models are in the spec.
func tfservBases() []Base {
	values := map[string][]any{
		"secretName":                 {"other", "tfs-secret"},
		"s3.secretName":              {"other"},
		"server.tls.secretName":      {"other"},
		"server.tls.key":             {"token"},
		"configMap":                  {"", "other"},
		"imagePullSecrets.name":      {"other"},
		"scheduling.nodeSelector":    {map[string]any{"kubernetes.io/os": "linux"}},
		"autoscaling.maxReplicas":    {int64(5)},
		"batching.allowedBatchSizes": {[]any{int64(8), int64(4)}},
	}
	return []Base{
		{Name: "seed", Prepare: prepared(modelsConfig + gcsSecret + otherSecrets), Manifest: strings.TrimSuffix(seedTfserv, "---\n"), Values: values},
		{Name: "inline", Prepare: prepared(modelsConfig + gcsSecret + otherSecrets), Manifest: strings.TrimSuffix(inlineTfserv, "---\n"), Values: values},
	}
}

// trustyAIBases are the shape of the ADR with a ServiceMonitor of its user, upstream's, and one with a database.
func trustyAIBases() []Base {
	values := map[string][]any{
		"storage.databaseConfigurations": {"db", "other"},
		"tls.secretName":                 {"other"},
		"inferenceServices.selector":     {map[string]any{"matchLabels": map[string]any{"a": "b"}}},
		"image":                          {"quay.io/trustyai/trustyai-service:latest", "quay.io/trustyai/trustyai-explainability:v0.1.0"},
		"serviceMonitoring.ref": {
			map[string]any{"spec": map[string]any{"endpoints": []any{map[string]any{"interval": "30s"}}}},
			map[string]any{"spec": map[string]any{"selector": map[string]any{}}},
			map[string]any{"spec": map[string]any{"endpoints": alien}},
		},
	}
	monitored := strings.Replace(plainService, "  trustyaiMetrics:", "  serviceMonitoring: {ref: {spec: {endpoints: [{interval: 15s}]}}}\n  trustyaiMetrics:", 1)
	one := func(text string) string { return strings.TrimSuffix(text, "---\n") }
	// Without a pod, nothing is wired anew, and what was wired before stays.
	wired := func(spec map[string]any, d Diff) bool {
		return fmt.Sprint(spec["replicas"]) == "0" && wiredObject.MatchString(d.Object+" "+d.Path)
	}
	// Whether a node takes the pods is up to Kubernetes, and told as what the Deployment waits with.
	called := map[string][]string{"scheduling": {"waiting for Deployment"}, "resources": {"waiting for Deployment"}}
	out := []Base{
		{Name: "adr", Prepare: prepared(plainVolume + meshConfig + model + credentials + otherSecrets), Manifest: one(monitored)},
		{Name: "upstream", Prepare: prepared(securedVolume + meshConfig + model + credentials + otherSecrets), Manifest: one(securedService)},
		{Name: "database", Prepare: prepared(meshConfig + model + credentials + otherSecrets), Manifest: one(databaseService)},
	}
	for i := range out {
		out[i].Values, out[i].Called, out[i].Remembers = values, called, wired
	}
	return out
}

// wiredObject matches what a TrustyAIService writes into the objects of others, and what its status says of that.
var wiredObject = regexp.MustCompile(`^(configmaps/(model-serving-config|kserve-logger-ca-bundle)|inferenceservices\.serving\.kserve\.io/\S+|` +
	`deployments\.apps/modelmesh\S*) |^trustyaiservices\S+ status\.(inferenceServices|modelMesh|conditions)`)

// kfDefBases have the archive of the other campaigns.
func kfDefBases() []Base {
	return []Base{{
		Name: "three", Prepare: prepared(otherSecrets, archive(base())), Manifest: kfDefOf("base", "web", "jobs"), Values: map[string][]any{
			"applications.name":                         {"web", "other"},
			"applications.kustomizeConfig.repoRef.path": {"web", "jobs", "base/base", "../web"},
			"applications.dependsOn":                    {[]any{"web"}, []any{"base"}},
			"repos.secretName":                          {"other"},
			"repos.uri":                                 {"configmap:other/manifests.tar.gz", "configmap:manifests/other.tar.gz", "secret:other/token"},
		},
		// The rendering that was detected once is kept.
		Remembers: func(_ map[string]any, d Diff) bool { return d.Path == "status.rendering" },
	}, {
		Name: "fetched", Server: true, Prepare: prepared(otherSecrets, published(base()).Do), Manifest: strings.Replace(
			kfDefOf("base", "web", "jobs"), "uri: 'configmap:manifests/manifests.tar.gz'", "uri: 'SERVER/manifests.tar.gz', secretName: server", 1),
	}}
}

// seldonBases have the charts of the other campaigns, with the sample's choices.
func seldonBases() []Base {
	prepare := prepared(otherSecrets, charts(coreTemplate, enterpriseTemplate))
	values := map[string][]any{
		"core.values":       {map[string]any{"runs": "other"}, map[string]any{"runs": map[string]any{"a": "b"}}},
		"enterprise.values": {map[string]any{"runs": "other"}, map[string]any{"service": map[string]any{"type": "LoadBalancer"}}},
		"core.chart":        {map[string]any{"repository": "configmap:charts/enterprise.tgz", "name": "enterprise", "version": "1.0.0"}},
		"core.valuesFrom": {
			[]any{map[string]any{"kind": "Secret", "name": "other", "valuesKey": "token"}},
			[]any{map[string]any{"kind": "Secret", "name": "other", "valuesKey": "token", "targetPath": "runs"}},
		},
	}
	// The passwords of trial instances stay with their volumes when those are switched off.
	passwords := func(_ map[string]any, d Diff) bool {
		return d.Path == "" && slices.Contains([]string{"secrets/metadata-postgres", "secrets/elastic-credentials"}, d.Object)
	}
	return []Base{
		{
			Name: "fetched", Server: true, Prepare: prepared(otherSecrets, charts(coreTemplate, enterpriseTemplate), chartServed().Do),
			Manifest: stackOf("{core: {chart: {repository: SERVER, name: core, version: 1.0.0, secretName: server}}}"),
		},
		{Name: "minimal", Prepare: prepare, Manifest: stackOf("{}"), Values: values, Remembers: passwords},
		{
			Name: "valued", Prepare: prepare, Manifest: stackOf("{core: {values: {runs: mine}}, enterprise: {values: {runs: theirs}}}"), Values: values,
			Remembers: passwords,
		},
	}
}

// elementBases is an element with two services.
func elementBases() []Base {
	payload := func(spec string) string {
		return `{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","spec":` + spec + `}`
	}
	entities := func(entities ...any) map[string]any { return map[string]any{"kserveInferenceEntities": entities} }
	entity := func(name, payload string) map[string]any {
		return map[string]any{"name": name, "namespace": "NS", "payload": payload}
	}
	good := payload(`{"predictor":{"minReplicas":1,"model":{"modelFormat":{"name":"sklearn"}}}}`)
	return []Base{{
		Name: "deployed", Manifest: deployedElement(), Stamp: ordered,
		// The runtime's users know the properties of an element, and no CompositionElement.
		Called: map[string][]string{"content": {"kserveInferenceEntities"}, "pendingContent": {"kserveInferenceEntities"}},
		Values: map[string][]any{"content.properties": {
			entities(entity("iris", good)), entities(entity("flowers", good), entity("iris", good)),
			entities(entity("iris", good), entity("iris", good)), entities(entity("iris", good), entity("roses", good)),
			entities(entity("iris", payload(`{"predictor":{"minReplicas":-1,"model":{"modelFormat":{"name":"sklearn"}}}}`))),
			entities(entity("iris", payload(`{"predictor":{"minReplicas":"x"}}`))), entities(entity("iris", "{")),
			entities(entity("Not_A_Name!", good)), entities(map[string]any{"name": "iris", "namespace": alien, "payload": good}), entities(),
		}},
	}}
}

// ordered writes a changed spec as the participant does: with an order of its own, and one of other content as an update, which goes
// back to what there was if it fails.
func ordered(spec map[string]any) {
	order, ok := spec["order"].(map[string]any)
	if !ok || order["id"] != "m1" {
		return
	}
	original := Base{Manifest: deployedElement()}
	was, err := original.spec()
	if err != nil {
		panic("the manifest of the element cannot be read")
	}
	if !reflect.DeepEqual(spec["content"], was["content"]) {
		order["type"], spec["previous"] = "Update", was["content"]
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		panic("a spec does not encode")
	}
	order["id"] = fmt.Sprintf("m-%x", sha256.Sum256(raw))[:32]
}

// deployedElement is the element whose spec is changed.
func deployedElement() string { return elementOf("Deploy", "m1", true, "1", "iris", "flowers") }
