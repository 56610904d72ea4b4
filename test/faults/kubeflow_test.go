package faults

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// keptResults is the default of --result-memory.
const keptResults = 192 << 20

const kfDefResource = "kfdefs.kfdef.apps.kubeflow.org"

var kfDefGVK = kubeflowv1.GroupVersion.WithKind("KfDef")

// kfDef is KfDef with what its users do. The archives are in ConfigMaps, so that all faults are those of the cluster.
func kfDef() *Kind {
	return &Kind{
		Makes: slices.Concat(
			making(`configmaps/settings`, `configmaps/web-parameters`, `deployments\.apps/web`, `deployments\.apps/server`, `services/web`, `services/server`,
				`cronjobs\.batch/clean-up`, `persistentvolumeclaims/data`, `statefulsets\.apps/store`, `servicemonitors\.monitoring\.coreos\.com/store`,
				`clusterroles\.rbac\.authorization\.k8s\.io/kf-NS`,
				`validatingwebhookconfigurations\.admissionregistration\.k8s\.io/kf-NS`),
			lacking("it takes the place of settings when the archive changes, and is rendered as that is", `configmaps/other-settings`),
			[]Child{{Is: regexp.MustCompile(`^configmaps/one-of-many-\d+$`), Alike: true}},
		),
		Name: "kfdef", GVK: kfDefGVK, Resource: kfDefResource, Workloads: kfDefWorkloads(),
		Bases: kfDefBases(),
		Controller: harness.Trusted(harness.PerOperator(func() harness.Register {
			return harness.Controller(kubeflow.Definition(), kubeflow.New(kubeflow.Settings{Trusted: true, Sources: inline{}, Results: rendering.NewMemory(keptResults)}))
		})),
	}
}

// inline unpacks archives that are in the cluster, and fetches none but those of the servers of workloads.
type inline struct{}

func (inline) Fetch(ctx context.Context, req source.Request) (*source.Artifact, error) {
	store, err := unpacker()
	if err != nil || !local(req.URI) {
		return nil, errors.Join(err, errors.New("the faults have no network"))
	}
	return store.Fetch(ctx, req)
}

func (inline) FetchChart(ctx context.Context, req source.ChartRequest) (*source.Artifact, error) {
	store, err := unpacker()
	if err != nil || !local(req.Repository) {
		return nil, errors.Join(err, errors.New("the faults have no network"))
	}
	return store.FetchChart(ctx, req)
}

func (inline) Unpack(ctx context.Context, name string, data []byte) (*source.Artifact, error) {
	store, err := unpacker()
	if err != nil {
		return nil, err
	}
	return store.Unpack(ctx, name, data)
}

// unpacker is the one store of all runs.
var unpacker = sync.OnceValues(func() (*source.Store, error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	return source.New(source.Options{
		Dir: filepath.Join(root, "bin", "faults", "sources"), Limits: limits,
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
})

// base, web and jobs are three applications of a KfDef; NS stands for the namespace.
func base() fstest.MapFS {
	return fstest.MapFS{
		"base/base/kustomization.yaml": {Data: []byte("resources: [role.yaml, settings.yaml]\n")},
		"base/base/role.yaml": {Data: []byte(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: kf-NS}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
`)},
		"base/base/settings.yaml": {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}\n")},
		"web/base/kustomization.yaml": {Data: []byte(`
commonLabels: {app: web}
resources: [deployment.yaml, service.yaml]
configMapGenerator: [{name: web-parameters, env: params.env}]
generatorOptions: {disableNameSuffixHash: true}
`)},
		"web/base/params.env": {Data: []byte("greeting=hello\n")},
		"web/base/deployment.yaml": {Data: []byte(`
{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1, template: {spec: {containers: [{name: web, image: web}]}}}}
`)},
		"web/base/service.yaml":        {Data: []byte("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}\n")},
		"jobs/base/kustomization.yaml": {Data: []byte("resources: [job.yaml]\n")},
		"jobs/base/job.yaml": {Data: []byte(`
{apiVersion: batch/v1beta1, kind: CronJob, metadata: {name: clean-up}, spec: {schedule: "@yearly", jobTemplate: {spec: {template: {spec: {
  restartPolicy: Never, containers: [{name: c, image: c}]}}}}}}
`)},
	}
}

// another is the archive of a later release: one object has changed, one has another name.
func another() fstest.MapFS {
	out := base()
	out["base/base/settings.yaml"] = &fstest.MapFile{Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: other-settings}, data: {a: b}}\n")}
	out["jobs/base/job.yaml"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(out["jobs/base/job.yaml"].Data), "@yearly", "@monthly"))}
	return out
}

// many is an archive with so much that its workloads are left to a pass of their own, but for the server of a webhook.
func many() fstest.MapFS {
	out := base()
	text := `
{apiVersion: v1, kind: Service, metadata: {name: server}, spec: {selector: {app: server}, ports: [{port: 443}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: server}, spec: {selector: {matchLabels: {app: server}}, template: {
  metadata: {labels: {app: server}}, spec: {containers: [{name: server, image: server}]}}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: kf-NS}, webhooks: [{
  name: kf.example.com, clientConfig: {service: {name: server, namespace: NS}}, sideEffects: None, admissionReviewVersions: [v1],
  rules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]}]}
`
	for i := range 32 {
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: one-of-many-%d}, data: {a: b}}\n", i)
	}
	out["many/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [many.yaml]\n")}
	out["many/base/many.yaml"] = &fstest.MapFile{Data: []byte(text)}
	return out
}

// sorts is an archive with children that the engine treats in ways of their own: a claim, which outlives the KfDef, a
// StatefulSet, and a custom resource.
func sorts() fstest.MapFS {
	out := many()
	out["sorts/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [sorts.yaml]\n")}
	out["sorts/base/sorts.yaml"] = &fstest.MapFile{Data: []byte(`
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {volumeName: pv-NS, storageClassName: "", accessModes: [ReadWriteOnce],
  resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: store}, spec: {serviceName: store, replicas: 1, selector: {matchLabels: {app: store}}, template: {
  metadata: {labels: {app: store}}, spec: {containers: [{name: store, image: store}]}}}}
---
{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: store}, spec: {selector: {matchLabels: {app: store}}, endpoints: [{port: http}]}}
`)}
	return out
}

// packed is the archive of files for the namespace of a run.
func packed(w *World, files fstest.MapFS) ([]byte, error) {
	named := fstest.MapFS{}
	for name, file := range files {
		named[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(file.Data), "NS", w.Namespace))}
	}
	return manifesttest.Pack(named)
}

// published is a step that has the server of the workload serve the archive, and the namespace trust the server.
func published(files fstest.MapFS) Step {
	return Step{Name: "publish", Until: func(*World) error { return nil }, Do: func(w *World) error {
		content, err := packed(w, files)
		if err != nil {
			return err
		}
		w.run.server.put("/manifests.tar.gz", content)
		return w.trustServer()
	}}
}

// archive puts files into the ConfigMap that the KfDef names.
func archive(files fstest.MapFS) func(*World) error {
	return func(w *World) error {
		content, err := packed(w, files)
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{Object: map[string]any{
			"binaryData": map[string]any{"manifests.tar.gz": base64.StdEncoding.EncodeToString(content)},
		}}
		u.SetGroupVersionKind(configMapGVK)
		u.SetName("manifests")
		return w.Put(u)
	}
}

// kfDefOf is a KfDef of applications.
func kfDefOf(applications ...string) string {
	text := "apiVersion: kfdef.apps.kubeflow.org/v1\nkind: KfDef\nmetadata: {name: kf}\nspec:\n" +
		"  repos: [{name: manifests, uri: 'configmap:manifests/manifests.tar.gz'}]\n  applications:\n"
	for _, a := range applications {
		text += fmt.Sprintf("  - {name: %[1]s, kustomizeConfig: {repoRef: {name: manifests, path: %[1]s}}}\n", a)
	}
	return text
}

// has says whether an object of the KfDef is there, and whether the KfDef is Ready. One that somebody else has put in its
// place is none of the KfDef's.
func has(resource, name string, want bool) func(*World) error {
	return func(w *World) error {
		u := w.Get(resource, name)
		if got := u != nil && u.GetLabels()[keeper.ControllerLabel] != ""; got != want {
			return fmt.Errorf("%s %s: %v", resource, name, got)
		}
		return w.Ready()
	}
}

// kfDefWorkloads are what users do with a KfDef.
func kfDefWorkloads() []Workload {
	all := kfDefOf("base", "web", "jobs")
	create := []Step{
		{Name: "archive", Do: archive(base()), Until: func(*World) error { return nil }},
		apply("create", all, nil),
	}
	parameter := `{"spec":{"applications":[{"name":"base","kustomizeConfig":{"repoRef":{"name":"manifests","path":"base"}}},
		{"name":"web","kustomizeConfig":{"repoRef":{"name":"manifests","path":"web"},"parameters":[{"name":"greeting","value":"bye"}]}},
		{"name":"jobs","kustomizeConfig":{"repoRef":{"name":"manifests","path":"jobs"}}}]}}`
	fetched := strings.Replace(all, "uri: 'configmap:manifests/manifests.tar.gz'", "uri: 'SERVER/manifests.tar.gz', secretName: server", 1)
	return []Workload{
		{Name: "create", Short: true, Steady: true, Steps: create},
		{Name: "fetch", Short: true, Server: "manifests", Steps: []Step{published(base()), apply("create", fetched, nil)}},
		{
			Name: "create-many", Steady: true, Stands: regexp.MustCompile(`/(server|store|data|one-of-many-\d+|kf-NS)$`), Steps: []Step{
				{Name: "archive", Do: archive(sorts()), Until: func(*World) error { return nil }},
				apply("create", fixture.VolumeFor("pv-NS", "NS", "data")+"---\n"+kfDefOf("web", "many", "sorts"), nil),
			},
		},
		{
			Name: "late-archive", Same: "create", Steps: []Step{
				apply("the custom resource alone", all, condition("kf", "Ready", "False", "ConfigMapNotFound")),
				{Name: "archive", Do: archive(base())},
			},
		},
		{
			Name: "change-archive", Short: true, Setup: create,
			Steps: []Step{{Name: "release", Do: archive(another()), Until: func(w *World) error {
				return errors.Join(has("configmaps", "other-settings", true)(w), has("configmaps", "settings", false)(w))
			}}},
		},
		{
			Name: "change-parameter", Setup: create, Steps: []Step{{
				Name: "parameter", Do: func(w *World) error { return w.Patch(kfDefGVK, "kf", parameter) },
				Until: func(w *World) error {
					if u := w.Get("configmaps", "web-parameters"); u == nil || !strings.Contains(fmt.Sprint(u.Object["data"]), "bye") {
						return errors.New("the parameter is the old one")
					}
					return w.Ready()
				},
			}},
		},
		{
			Name: "drop-application", Setup: create,
			Steps: []Step{apply("without jobs", kfDefOf("base", "web"), has("cronjobs.batch", "clean-up", false))},
		},
		{
			Name: "mend", Same: "create", Setup: create, Steps: []Step{
				apply("a path that is not there", kfDefOf("base", "nowhere", "jobs"), condition("kf", "Stalled", "True", "ApplicationFailed")),
				apply("the path that it was", all, nil),
			},
		},
		{
			Name: "delete", Short: true, Setup: create,
			Steps: []Step{{Name: "delete", Do: func(w *World) error { return w.Delete(kfDefGVK, "kf") }, Until: (*World).Gone}},
		},
	}
}
