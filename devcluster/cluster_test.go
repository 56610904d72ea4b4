package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mlkeeper.dev/devcluster/internal/cluster"
	"mlkeeper.dev/devcluster/internal/component"
)

// call runs the command line in a process of its own.
func call(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// must fails the test unless the call succeeds.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := call(t, stdin, args...)
	if err != nil {
		t.Fatalf("devcluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// up boots a detached cluster that the test removes at its end.
func up(t *testing.T, flags ...string) (dir string, st cluster.State) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "cluster")
	t.Cleanup(func() { _, _ = call(t, "", "down", "--dir", dir) })
	must(t, "", append([]string{"up", "--detach", "--dir", dir}, flags...)...)
	st, err := cluster.ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, st
}

// eventually polls, because everything here is another process's work.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("it did not happen: %s", what)
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.test/web:1"}]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: static}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  hostPath: {path: /nowhere}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: owner}
`

const dependent = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: dependent
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]
`

func TestClusterBoots(t *testing.T) {
	dir, st := up(t)
	kubectl := func(stdin string, args ...string) string {
		return must(t, stdin, append([]string{"--dir", dir, "kubectl"}, args...)...)
	}
	if out := kubectl("", "version"); !strings.Contains(out, "Server Version: "+st.KubernetesVersion) {
		t.Errorf("the server does not say its version:\n%s", out)
	}
	if len(st.Components) != len(st.Spec.Enabled()) || st.Phase != cluster.PhaseHealthy {
		t.Errorf("unexpected state: %+v", st)
	}
	must(t, "", "--dir", dir, "status")

	kubectl(workload, "apply", "-f", "-")
	kubectl("", "wait", "--for=condition=Available", "deployment/web", "--timeout=90s")
	kubectl("", "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/claim", "--timeout=90s")

	uid := kubectl("", "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
	kubectl(fmt.Sprintf(dependent, uid), "apply", "-f", "-")
	kubectl("", "delete", "configmap", "owner")
	kubectl("", "wait", "--for=delete", "configmap/dependent", "--timeout=90s")

	if out := kubectl("", "auth", "whoami", "--as=system:serviceaccount:default:default"); !strings.Contains(out, "system:serviceaccount:default:default") {
		t.Errorf("the admin cannot impersonate:\n%s", out)
	}
	var exit *exec.ExitError
	out, err := call(t, "", "--dir", dir, "kubectl", "diff", "-f", "/nonexistent")
	if !errors.As(err, &exit) || exit.ExitCode() < 1 {
		t.Errorf("kubectl's exit code is lost: %v\n%s", err, out)
	}
	out, err = call(t, "", "up", "--detach", "--dir", dir)
	if err == nil || !strings.Contains(out, "already runs") || !strings.Contains(out, "devcluster down") {
		t.Errorf("a second up is not refused with a remedy: %v\n%s", err, out)
	}
	must(t, "", "--dir", dir, "status")
	checkGone(t, dir)
}

// checkGone takes the cluster down and looks for what should not be left.
func checkGone(t *testing.T, dir string) {
	t.Helper()
	st, err := cluster.ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	must(t, "", "--dir", dir, "down")
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	for _, c := range st.Components {
		if c.PID != 0 && alive(c.PID) {
			t.Errorf("%s (%d) still runs", c.Name, c.PID)
		}
	}
	eventually(t, "the supervisor is gone", func() bool { return !alive(st.PID) })
}

func TestComponentsStopAndStart(t *testing.T) {
	dir, _ := up(t, "--no-stand-in")
	must(t, "", "--dir", dir, "stop", component.ControllerManager)
	if out, err := call(t, "", "--dir", dir, "status"); err == nil || !strings.Contains(out, cluster.StateStopped) {
		t.Errorf("status does not show the stopped component: %v\n%s", err, out)
	}
	must(t, workload, "--dir", dir, "kubectl", "apply", "-f", "-")
	if out := must(t, "", "--dir", dir, "kubectl", "get", "replicasets"); strings.Contains(out, "web") {
		t.Errorf("a stopped controller-manager made a ReplicaSet:\n%s", out)
	}
	must(t, "", "--dir", dir, "start", component.ControllerManager)
	must(t, "", "--dir", dir, "kubectl", "wait", "--for=condition=Available", "deployment/web", "--timeout=90s")

	for _, name := range []string{component.APIServer, component.Etcd, component.SimulatedKubelet, component.Scheduler} {
		must(t, "", "--dir", dir, "stop", "--kill", name)
		must(t, "", "--dir", dir, "start", name)
	}
	eventually(t, "everything is healthy again", func() bool {
		_, err := call(t, "", "--dir", dir, "status")
		return err == nil
	})
	must(t, "", "--dir", dir, "kubectl", "get", "deployment", "web")
	if out, err := call(t, "", "--dir", dir, "stop", "nothing"); err == nil || !strings.Contains(out, "choose one of") {
		t.Errorf("an unknown component is not refused: %v\n%s", err, out)
	}
}

func TestTwoClustersSideBySide(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	first, a := up(t)
	second, b := up(t)
	if a.Server == b.Server {
		t.Fatalf("both listen on %s", a.Server)
	}
	must(t, "", "--dir", first, "kubectl", "create", "configmap", "mine")
	if out, err := call(t, "", "--dir", second, "kubectl", "get", "configmap", "mine"); err == nil {
		t.Errorf("the second cluster sees the first one's object:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(home, ".kube")); err == nil {
		t.Error("what kubectl knows of a cluster is kept in the user's cache, which the next cluster on that port reads")
	}
	if _, err := os.Stat(cluster.CacheDir(second)); err != nil {
		t.Error(err)
	}
	checkGone(t, second)
	must(t, "", "--dir", first, "status")

	// A supervisor that is killed takes its components with it.
	if err := syscall.Kill(a.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, c := range a.Components {
		eventually(t, c.Name+" is gone", func() bool { return !alive(c.PID) })
	}
	must(t, "", "--dir", first, "down")
}

const pods = `
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  volumes: [{name: v, configMap: {name: missing}}]
  containers: [{name: a, image: i, env: [{name: E, valueFrom: {secretKeyRef: {name: missing, key: k}}}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: too-large}
spec: {containers: [{name: a, image: i, resources: {limits: {nvidia.com/gpu: 3}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  readinessGates: [{conditionType: example.test/gate}]
  containers: [{name: a, image: i}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: good}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: i}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: bad}
spec:
  backoffLimit: 1
  template:
    metadata: {annotations: {devcluster.mlkeeper.dev/fail: Error}}
    spec: {restartPolicy: Never, containers: [{name: a, image: i}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere}
spec:
  selector: {matchLabels: {app: e}}
  template:
    metadata: {labels: {app: e}}
    spec:
      volumes: [{name: v, persistentVolumeClaim: {claimName: claim}}]
      containers: [{name: a, image: i}]
`

func TestPodsBehaveAsAKubeletMakesThem(t *testing.T) {
	dir, _ := up(t)
	kubectl := func(stdin string, args ...string) string {
		return must(t, stdin, append([]string{"--dir", dir, "kubectl"}, args...)...)
	}
	event := func(reason, text string) {
		t.Helper()
		eventually(t, "the event "+reason+": "+text, func() bool {
			return strings.Contains(kubectl("", "get", "events", "--field-selector=reason="+reason, "-o", "jsonpath={.items[*].message}"), text)
		})
	}
	kubectl(workload, "apply", "-f", "-")
	kubectl("", "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/claim", "--timeout=90s")
	kubectl(pods, "apply", "-f", "-")
	event("FailedMount", `MountVolume.SetUp failed for volume "v" : configmap "missing" not found`)
	kubectl("", "create", "configmap", "missing")
	const waiting = "jsonpath={.status.containerStatuses[0].state.waiting.message}"
	kubectl("", "wait", "--for="+waiting+`=secret "missing" not found`, "pod/waits", "--timeout=60s")
	kubectl("", "create", "secret", "generic", "missing", "--from-literal=other=x")
	kubectl("", "wait", "--for="+waiting+"=couldn't find key k in Secret default/missing", "pod/waits", "--timeout=60s")
	kubectl("", "patch", "secret", "missing", "-p", `{"stringData":{"k":"x"}}`)
	kubectl("", "wait", "--for=condition=Ready", "pod/waits", "--timeout=60s")

	event("FailedScheduling", "Insufficient nvidia.com/gpu")
	kubectl("", "wait", "--for=condition=ContainersReady", "pod/gated", "--timeout=60s")
	if out := kubectl("", "get", "pod", "gated", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`); out != "ReadinessGatesNotReady" {
		t.Errorf("a pod with an open readiness gate is %s", out)
	}
	kubectl("", "wait", "--for=condition=Complete", "job/good", "--timeout=60s")
	kubectl("", "wait", "--for=condition=Failed", "job/bad", "--timeout=60s")

	// One of the three pods has the volume; another one gets it when that one is gone.
	event("FailedAttachVolume", `Multi-Attach error for volume "static" Volume is already used by pod(s) everywhere-`)
	kubectl("", "wait", "--for=jsonpath={.status.numberReady}=1", "daemonset/everywhere", "--timeout=60s")
	kubectl("", "delete", "daemonset", "everywhere", "--cascade=orphan")
	had := kubectl("", "get", "pods", "-l", "app=e", "--field-selector=status.phase=Running", "-o", "name")
	kubectl("", "delete", strings.TrimSpace(had))
	eventually(t, "another pod has the volume", func() bool {
		out := kubectl("", "get", "pods", "-l", "app=e", "--field-selector=status.phase=Running", "-o", "name")
		return out != "" && out != had
	})
}

const routed = `
apiVersion: route.openshift.io/v1
kind: Route
metadata: {name: r}
spec: {to: {kind: Service, name: s}}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: i}
spec: {predictor: {model: {modelFormat: {name: sklearn}}}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: c}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: c}
spec: {secretName: c, issuerRef: {name: c}, dnsNames: [c.example.test]}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: left-alone, annotations: {devcluster.mlkeeper.dev/stand-in: "off"}}
spec: {predictor: {model: {modelFormat: {name: sklearn}}}}
`

func TestThirdParties(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	dir, _ := up(t, "--crds", "route,kserve", "--audit-log", log)
	must(t, "", "--dir", dir, "crds", "all")
	must(t, routed, "--dir", dir, "kubectl", "apply", "-f", "-")
	for _, args := range [][]string{
		{"--for=jsonpath={.status.ingress[0].conditions[0].status}=True", "route/r"},
		{"--for=condition=Ready", "inferenceservice/i"},
		{"--for=condition=Ready", "certificate/c"},
	} {
		must(t, "", append([]string{"--dir", dir, "kubectl", "wait", "--timeout=60s"}, args...)...)
	}
	if out := must(t, "", "--dir", dir, "kubectl", "get", "isvc", "left-alone", "-o", "jsonpath={.status}"); out != "" {
		t.Errorf("the stand-in touched an object that opted out: %s", out)
	}
	data, err := os.ReadFile(log)
	if err != nil || !bytes.Contains(data, []byte(`"resource":"inferenceservices"`)) {
		t.Errorf("the audit log lacks the request: %v", err)
	}
}

func TestKeptDataIsContinuedAndFailuresAreExplained(t *testing.T) {
	dir, _ := up(t, "--no-stand-in")
	must(t, "", "--dir", dir, "kubectl", "create", "configmap", "kept")
	must(t, "", "--dir", dir, "down", "--keep")
	must(t, "", "--dir", dir, "up", "--detach")
	must(t, "", "--dir", dir, "kubectl", "get", "configmap", "kept")
	must(t, "", "--dir", dir, "down", "--keep")

	// etcd refuses a data directory that is a file.
	data := filepath.Join(dir, "data", "etcd")
	if err := errors.Join(os.RemoveAll(data), os.WriteFile(data, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := call(t, "", "--dir", dir, "up", "--detach")
	if err == nil || !strings.Contains(out, "etcd ended while it started") || !strings.Contains(out, "the end of") {
		t.Errorf("a component that dies at boot is not explained: %v\n%s", err, out)
	}
}

const called = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  replicas: 0
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec: {containers: [{name: server, image: devcluster.test/server}]}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 443, targetPort: 8443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: server}
webhooks:
- name: server.example.test
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: default, name: server, path: /mutate}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.aggregated.example.test}
spec: {group: aggregated.example.test, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {namespace: default, name: server}}
`

// TestAServiceAnswersTheAPIServerOnceItsPodIsReady: a webhook and an aggregated API behind a Service are refused before, and again
// when the pod is gone.
func TestAServiceAnswersTheAPIServerOnceItsPodIsReady(t *testing.T) {
	dir, _ := up(t)
	kubectl := func(args ...string) (string, error) {
		return call(t, called, append([]string{"--dir", dir, "kubectl"}, args...)...)
	}
	// The API server reads webhook configurations from a watch.
	refused := func(when string) {
		t.Helper()
		eventually(t, "the webhook is called "+when, func() bool {
			out, err := kubectl("create", "configmap", "refused", "--dry-run=server")
			return err != nil && strings.Contains(out, "failed calling webhook")
		})
	}
	must(t, called, "--dir", dir, "kubectl", "apply", "-f", "-")
	refused("before the pod is there")
	must(t, "", "--dir", dir, "kubectl", "scale", "deployment/server", "--replicas=1")
	must(t, "", "--dir", dir, "kubectl", "wait", "--for=condition=Available", "--timeout=60s", "deployment/server", "apiservice/v1.aggregated.example.test")
	must(t, "", "--dir", dir, "kubectl", "wait", "--for=jsonpath={.webhooks[0].clientConfig.caBundle}", "--timeout=60s", "mutatingwebhookconfiguration/server")
	eventually(t, "the webhook answers", func() bool {
		_, err := kubectl("create", "configmap", "taken")
		return err == nil
	})
	if out := must(t, "", "--dir", dir, "kubectl", "get", "configmap", "taken", "-o", "jsonpath={.metadata.annotations}"); !strings.Contains(out, "default/server") {
		t.Errorf("the webhook was not called: %s", out)
	}
	must(t, "", "--dir", dir, "kubectl", "scale", "deployment/server", "--replicas=0")
	must(t, "", "--dir", dir, "kubectl", "wait", "--for=delete", "--timeout=60s", "pod", "--selector=app=server")
	must(t, "", "--dir", dir, "kubectl", "wait", "--for=jsonpath={.status.conditions[0].status}=False", "--timeout=60s", "apiservice/v1.aggregated.example.test")
	refused("after the pod is gone")
}
