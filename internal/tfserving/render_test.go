package tfserving

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

const production = `
metadata: {name: ranking}
spec:
  replicas: 3
  serviceType: ClusterIP
  models:
    - name: ranker
      basePath: /models/ranker
      versionPolicy: {specific: {versions: [41, 42]}}
      versionLabels: {stable: 41, canary: 42}
    - name: embedder
      basePath: s3://models/embedder
      versionPolicy: {latest: {numVersions: 2}}
  modelVolume: {claimName: models}
  s3:
    secretName: s3
    endpoint: minio.storage:9000
    insecure: true
    region: eu-central-1
    downloader: {image: "kserve/storage-initializer:v0.15.0"}
  image: tensorflow/serving:2.19.1
  imagePullPolicy: Always
  imagePullSecrets: [{name: registry}]
  resources:
    requests: {cpu: "2", memory: 4Gi}
    limits: {nvidia.com/gpu: "1"}
  scheduling:
    nodeSelector: {accelerator: a100}
    tolerations: [{key: gpu, operator: Exists}]
    topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {tfsName: ranking}}
  serviceAccountName: ranking
  startupTimeoutSeconds: 1200
  batching: {maxBatchSize: 128, batchTimeoutMicros: 1000, allowedBatchSizes: [8, 32, 128]}
  monitoring: {interval: 15s, labels: {release: prometheus}}
  podDisruptionBudget: {maxUnavailable: 1}
  autoscaling: {minReplicas: 2, maxReplicas: 10, targetCPUUtilizationPercentage: 70}
`

func withProductionInputs(t testing.TB) *controllertest.Cluster {
	c := controllertest.New(testNow, gvkServiceMonitor)
	c.Put(controllertest.Parse(t, `
apiVersion: v1
kind: Secret
metadata: {name: s3, namespace: ns}
data: {AWS_ACCESS_KEY_ID: YQ==, AWS_SECRET_ACCESS_KEY: Yg==}
`))
	c.Put(controllertest.Parse(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models, namespace: ns}
`))
	return c
}

func TestGolden(t *testing.T) {
	t.Run("seed", func(t *testing.T) {
		c, cr := seed(t)
		_, p := gatherAndRender(t, c, cr)
		controllertest.Golden(t, "seed", p)
	})
	t.Run("production", func(t *testing.T) {
		_, p := gatherAndRender(t, withProductionInputs(t), custom(t, production))
		controllertest.Golden(t, "production", p)
	})
	t.Run("inline", func(t *testing.T) {
		_, p := gatherAndRender(t, controllertest.New(testNow), custom(t, inline))
		controllertest.Golden(t, "inline", p)
	})
}

func TestRenderIsPure(t *testing.T) {
	for _, text := range []string{inline, production} {
		c, cr := withProductionInputs(t), custom(t, text)
		facts, first := gatherAndRender(t, c, cr)
		if again := testSystem().Render(cr, facts); !bytes.Equal(controllertest.Print(t, first), controllertest.Print(t, again)) {
			t.Error("the same facts make another plan")
		}
	}
}

func TestAKeyThatNoPodReadsRestartsNone(t *testing.T) {
	digests := map[string]bool{}
	for _, data := range []string{
		"{AWS_ACCESS_KEY_ID: YQ==, AWS_SECRET_ACCESS_KEY: Yg==}",
		"{AWS_ACCESS_KEY_ID: YQ==, AWS_SECRET_ACCESS_KEY: Yg==, console: Yw==}",
		"{AWS_ACCESS_KEY_ID: YQ==, AWS_SECRET_ACCESS_KEY: Yg==, AWS_SESSION_TOKEN: Yw==}",
	} {
		c := withProductionInputs(t)
		c.Put(controllertest.Parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: s3, namespace: ns}, data: "+data+"}"))
		facts, _ := gatherAndRender(t, c, custom(t, production))
		digests[facts.CredentialsDigest] = true
	}
	if len(digests) != 2 {
		t.Errorf("there are %d digests", len(digests))
	}
}

func TestAnImageForGPUs(t *testing.T) {
	cr := custom(t, inline+"  resources: {limits: {nvidia.com/gpu: 1}}\n")
	_, p := gatherAndRender(t, controllertest.New(testNow), cr)
	if got := deployed(t, p, "tfs").Spec.Template.Spec.Containers[0].Image; got != DefaultGPUImage {
		t.Errorf("image %s", got)
	}
}

func TestOpenShiftChoosesTheUser(t *testing.T) {
	_, p := gatherAndRender(t, controllertest.New(testNow, gvkConstraints), custom(t, inline))
	got := deployed(t, p, "tfs").Spec.Template.Spec.SecurityContext
	if got.RunAsUser != nil || got.FSGroup != nil || got.RunAsNonRoot == nil || !*got.RunAsNonRoot {
		t.Errorf("%+v", got)
	}
}

func TestAConfigMapWithModelsBelowS3IsServedFromACopy(t *testing.T) {
	c, cr := seed(t)
	u := c.Get(key("ConfigMap", "tf-serving-models-config"))
	u.Object["data"] = map[string]any{"models.conf": `model_config_list { config { name: "../x" base_path: "s3://b/m" model_platform: "tensorflow" } }`}
	_, p := gatherAndRender(t, c, cr)
	if got := controllertest.Reasons(p); got != "Terminal S3NotReadable" || controllertest.Find(p, "Deployment", cr.Name) != nil {
		t.Fatalf("problems %q", got)
	}
	own := strings.Replace(inline, "gs://", "s3://", 1) + "  s3: {imageReadsS3: true}\n"
	if _, p := gatherAndRender(t, c, custom(t, own)); controllertest.Reasons(p) != "Terminal S3NotReadable" {
		t.Errorf("of an image that does not read s3:// problems are %q", controllertest.Reasons(p))
	}
	cr = custom(t, own+"  image: example.com/serving-s3:1\n")
	if _, p := gatherAndRender(t, c, cr); len(p.Problems) > 0 || len(deployed(t, p, "tfs").Spec.Template.Spec.InitContainers) > 0 {
		t.Error("an image that reads s3:// needs no download")
	}
	c, _ = seed(t)
	c.Put(u)
	withDownloader := custom(t, "metadata: {name: d}\nspec: {configMap: tf-serving-models-config, s3: {downloader: {image: dl}}}\n")
	_, p = gatherAndRender(t, c, withDownloader)
	pod := deployed(t, p, "d").Spec.Template.Spec
	if got := pod.InitContainers[0].Args; len(got) != 2 || got[0] != "s3://b/m" || got[1] != downloadsPath+"/0" {
		t.Errorf("arguments %v", got)
	}
	if pod.Volumes[0].ConfigMap.Name == "tf-serving-models-config" {
		t.Error("the config still leads to s3://")
	}
}

func TestABudgetThatForbidsEveryDrainIsWarnedOf(t *testing.T) {
	_, p := gatherAndRender(t, controllertest.New(testNow), custom(t, inline+"  podDisruptionBudget: {minAvailable: 1}\n"))
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "no pod be drained") {
		t.Errorf("warnings %v", p.Warnings)
	}
}

// The schema refuses it too; this is for what was stored before it did.
func TestAnIntervalUnderASecondIsAProblemThatChangesNothing(t *testing.T) {
	_, p := gatherAndRender(t, controllertest.New(testNow, gvkServiceMonitor), custom(t, inline+"  monitoring: {interval: 1ms}\n"))
	if got := controllertest.Reasons(p); got != "Terminal InvalidInterval" {
		t.Errorf("problems %q", got)
	}
	for _, kind := range []string{"ServiceMonitor", "Deployment"} {
		if u := controllertest.Find(p, kind, "tfs"); u != nil {
			t.Errorf("a %s is declared", kind)
		}
	}
}

func TestTwoVolumesAtOnePathAreAProblem(t *testing.T) {
	c := withProductionInputs(t)
	_, p := gatherAndRender(t, c, custom(t, inline+"  modelVolume: {claimName: models, mountPath: /var/config/}\n"))
	if got := controllertest.Reasons(p); got != "Terminal PathTaken" {
		t.Errorf("problems %q", got)
	}
}

func inventoryEntry(configMap string) keeper.InventoryEntry {
	return keeper.InventoryEntry{ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: configMap}}
}

func TestAnOlderConfigMapIsKeptUntilTheRolloutIsComplete(t *testing.T) {
	c, cr := controllertest.New(testNow), custom(t, inline)
	_, before := gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, before, true)
	old := deployed(t, before, "tfs").Annotations[configAnnotation]
	cr.Status.Inventory.Entries = []keeper.InventoryEntry{inventoryEntry(old), inventoryEntry("other")}
	if _, p := gatherAndRender(t, c, cr); len(p.Keep) > 0 {
		t.Fatalf("kept %v in the steady state", p.Keep)
	}
	cr.Spec.Models[0].BasePath = "gs://bucket/other"
	_, after := gatherAndRender(t, c, cr)
	if len(after.Keep) != 1 || after.Keep[0] != key("ConfigMap", old) {
		t.Fatalf("kept %v, not %s", after.Keep, old)
	}
	rolledOut(t, c, cr, after, false)
	if _, p := gatherAndRender(t, c, cr); len(p.Keep) != 1 {
		t.Fatalf("kept %v while pods of the old template run", p.Keep)
	}
	rolledOut(t, c, cr, after, true)
	if _, p := gatherAndRender(t, c, cr); len(p.Keep) > 0 {
		t.Fatalf("kept %v although the rollout is complete", p.Keep)
	}
}

func TestDeletionPolicyCountsForEveryChild(t *testing.T) {
	for policy, want := range map[keeper.DeletionPolicy]keeper.EntryPolicy{"": "", keeper.DeletionDelete: "", keeper.DeletionOrphan: keeper.Orphan} {
		cr := custom(t, production)
		cr.Spec.DeletionPolicy = policy
		_, p := gatherAndRender(t, withProductionInputs(t), cr)
		for _, o := range p.Stages[0].Objects {
			if o.Policy() != want {
				t.Errorf("deletionPolicy %q: %s has the policy %q", policy, o.Key(), o.Policy())
			}
		}
	}
}

func TestANodePortSurvivesAnotherPort(t *testing.T) {
	c, cr := controllertest.New(testNow), custom(t, inline)
	_, p := gatherAndRender(t, c, cr)
	u := controllertest.MustFind(t, p, "Service", "tfs-service").DeepCopy()
	ports := u.Object["spec"].(map[string]any)["ports"].([]any)
	ports[0].(map[string]any)["nodePort"], ports[1].(map[string]any)["nodePort"] = int64(31001), int64(31002)
	c.Own(u, ownerOf(cr))
	if _, p := gatherAndRender(t, c, cr); served(t, p, "tfs-service").Spec.Ports[0].NodePort != 0 {
		t.Error("what the API server allocated is declared in the steady state")
	}
	other := int32(8601)
	cr.Spec.RestPort = &other
	_, p = gatherAndRender(t, c, cr)
	got := served(t, p, "tfs-service").Spec.Ports
	if got[0].Port != 8601 || got[0].NodePort != 31001 || got[1].NodePort != 0 {
		t.Errorf("ports %+v", got)
	}
	cr.Spec.ServiceType = corev1.ServiceTypeClusterIP
	_, p = gatherAndRender(t, c, cr)
	if served(t, p, "tfs-service").Spec.Ports[0].NodePort != 0 {
		t.Error("a ClusterIP Service has no nodePorts")
	}
}
