//go:build realkserve

package kserve

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// The ConfigMap and its file that the installation has KServe's loggers verify their receivers with.
const loggerBundle, loggerBundleFile = "kserve-logger-ca-bundle", "service-ca.crt"

// agentPort is where the agent takes requests for the server.
const agentPort = 9081

// monitored is a namespace with a Secured TrustyAIService and an InferenceService named model.
type monitored struct {
	*fixture.Service
	t        *testing.T
	c        *cluster.Cluster
	operator *harness.Operator
}

// monitor makes them, and waits until the InferenceService is wired to the TrustyAIService.
func monitor(t *testing.T) *monitored {
	t.Helper()
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	prepare(t, c)
	m := &monitored{t: t, c: c, operator: harness.Start(t, c, harness.Options{Verbose: testing.Verbose()}, fixture.Controller())}
	m.Service = fixture.Create(t, c, fixture.Secured)
	m.AwaitReady(t, c)
	return m
}

// pods are those of the predictor once its Deployment has rolled them out.
func (m *monitored) pods() ([]corev1.Pod, error) {
	d := &appsv1.Deployment{}
	if err := m.c.Client.Get(m.t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: "model-predictor"}, d); err != nil {
		return nil, err
	}
	if now := d.Status; now.ObservedGeneration < d.Generation || now.Replicas != *d.Spec.Replicas || now.UpdatedReplicas != now.Replicas || now.ReadyReplicas != now.Replicas {
		return nil, fmt.Errorf("%w: its Deployment is %+v", errNotYet, now)
	}
	list := &corev1.PodList{}
	err := m.c.Client.List(m.t.Context(), list, client.InNamespace(m.Namespace), client.MatchingLabels{"serving.kserve.io/inferenceservice": "model"})
	running := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if err == nil && len(running) == 0 {
		err = fmt.Errorf("%w: there are no pods", errNotYet)
	}
	return running, err
}

// agent is the agent beside the predictor; nil where there is none.
func agent(pod corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == "agent" {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// logs says why the predictor does not send its payloads to an address, by the agent that KServe put beside it, which verifies it with
// the ConfigMap that MLKeeper keeps; none for the empty one.
func (m *monitored) logs(address string) error {
	pods, err := m.pods()
	if err != nil {
		return err
	}
	for _, pod := range pods {
		a := agent(pod)
		if (a == nil) != (address == "") {
			return fmt.Errorf("%w: the pod has the agent %+v", errNotYet, a)
		}
		if a == nil {
			continue
		}
		at := slices.Index(a.Args, "--log-url")
		if at < 0 || a.Args[at+1] != address {
			return fmt.Errorf("%w: the agent is told %v", errNotYet, a.Args)
		}
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == loggerBundle }) {
			return fmt.Errorf("the pod does not mount %s: %+v", loggerBundle, pod.Spec.Volumes)
		}
	}
	svc := &corev1.Service{}
	if err := m.c.Client.Get(m.t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: "model-predictor"}, svc); err != nil {
		return err
	}
	if to := svc.Spec.Ports[0].TargetPort.IntValue() == agentPort; to != (address != "") {
		return fmt.Errorf("%w: requests reach the port %s", errNotYet, svc.Spec.Ports[0].TargetPort.String())
	}
	return nil
}

// address is where payloads go: the TrustyAI service, over TLS.
func (m *monitored) address() string {
	return fmt.Sprintf("https://%s.%s.svc.cluster.local", m.Name, m.Namespace)
}

// TestRealKServeWiresATrustyAIService: KServe puts its agent beside the predictor that MLKeeper sets a logger on, again when somebody has
// taken the logger out, and takes it away when the TrustyAIService is deleted. KServe before 0.16 takes no field out of a Deployment, so the
// agent stays.
func TestRealKServeWiresATrustyAIService(t *testing.T) {
	m := monitor(t)
	m.c.Eventually(t, patience, func() error { return m.logs(m.address()) })

	m.c.Kubectl(t, "patch", "inferenceservice", "model", "-n", m.Namespace, "--type=json", "-p", `[{"op": "remove", "path": "/spec/predictor/logger"}]`)
	m.c.Eventually(t, patience, func() error { return errors.Join(m.Wired(t, m.c), m.logs(m.address())) })

	m.c.Kubectl(t, "delete", "trustyaiservice", m.Name, "-n", m.Namespace)
	stays := withoutKnative == "RawDeployment"
	m.c.Eventually(t, patience, func() error {
		err := m.AsBefore(t, m.c)
		if !stays {
			err = errors.Join(err, m.logs(""))
		}
		return err
	})
}

// TestRealKServeWiresServerless: with Knative's definitions alone, what KServe makes of the logger is in the Knative Service, and gone
// from there with the TrustyAIService.
func TestRealKServeWiresServerless(t *testing.T) {
	m := monitor(t)
	m.c.Apply(t, `
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: serverless, annotations: {serving.kserve.io/deploymentMode: Serverless}}
spec:
  predictor: {model: {modelFormat: {name: sklearn}, storageUri: s3://bucket/model}}
`, m.Namespace)
	kind := schema.GroupVersionKind{Group: "serving.knative.dev", Version: "v1", Kind: "Service"}
	sink := func(want string) error {
		u := m.c.Get(t, kind, m.Namespace, "serverless-predictor")
		if u == nil {
			return fmt.Errorf("%w: there is no Knative Service", errNotYet)
		}
		annotations, _, _ := unstructured.NestedStringMap(u.Object, "spec", "template", "metadata", "annotations")
		if got := annotations["internal.serving.kserve.io/logger-sink-url"]; got != want {
			return fmt.Errorf("%w: payloads go to %q", errNotYet, got)
		}
		return nil
	}
	m.c.Eventually(t, patience, func() error { return sink(m.address()) })
	m.c.Kubectl(t, "delete", "trustyaiservice", m.Name, "-n", m.Namespace)
	m.c.Eventually(t, patience, func() error { return sink("") })
}

// TestRealKServeAgentPostsOverTLS runs KServe's own agent with the arguments of the pod and with the file that its volume has: what it
// posts arrives at a server with the certificate of the TrustyAI service, and without the file nothing does. It reads the file again for
// each post, and with the authority of another it refuses the server.
func TestRealKServeAgentPostsOverTLS(t *testing.T) {
	m := monitor(t)
	m.c.Eventually(t, patience, func() error { return m.logs(m.address()) })
	pods, err := m.pods()
	if err != nil {
		t.Fatal(err)
	}
	bundle := &corev1.ConfigMap{}
	if err := m.c.Client.Get(t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: loggerBundle}, bundle); err != nil {
		t.Fatal(err)
	}
	stranger, err := pki.NewAuthority(rand.Reader, time.Now(), "stranger")
	if err != nil {
		t.Fatal(err)
	}
	receiver := m.receiver()
	arrives := func() {
		t.Helper()
		cluster.Eventually(t, patience, func() error {
			got := receiver.received()
			slices.Sort(got)
			if want := []string{"org.kubeflow.serving.inference.request", "org.kubeflow.serving.inference.response"}; !slices.Equal(got, want) {
				return fmt.Errorf("%w: what arrives is %v", errNotYet, got)
			}
			return nil
		})
		receiver.forget()
	}
	asInThePod := agent(pods[0]).Args
	a := m.runAgent(asInThePod, receiver.port)
	a.infer()
	a.says("could not find CA cert file")
	a.says("certificate signed by unknown authority")
	a.trust(bundle.Data[loggerBundleFile])
	a.infer()
	arrives()
	a.stop()

	// KServe's webhook writes this flag and its value as two arguments, which the agent reads as true: it then accepts every certificate
	// once it has a file. What is tested from here on is that it need not.
	verifying := slices.Clone(asInThePod)
	if at := slices.Index(verifying, "--logger-tls-skip-verify"); verifying[at+1] == "false" {
		verifying = slices.Replace(verifying, at, at+2, "--logger-tls-skip-verify=false")
	}
	a = m.runAgent(verifying, receiver.port)
	a.trust(string(stranger.CertPEM))
	a.infer()
	a.says("certificate signed by unknown authority")
	if got := receiver.received(); len(got) > 0 {
		t.Errorf("without the authority arrives %v", got)
	}
	a.trust(bundle.Data[loggerBundleFile])
	a.infer()
	arrives()
}

// receiver takes events as the TrustyAI service does, with its certificate.
type receiver struct {
	port   string
	events chan string
}

func (m *monitored) receiver() *receiver {
	m.t.Helper()
	secret := &corev1.Secret{}
	if err := m.c.Client.Get(m.t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: m.Name + "-internal"}, secret); err != nil {
		m.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		m.t.Fatal(err)
	}
	out := &receiver{events: make(chan string, 100)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { out.events <- r.Header.Get("Ce-Type") }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	m.t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		m.t.Fatal(err)
	}
	out.port = at.Port()
	return out
}

// received are the types of all events so far.
func (r *receiver) received() []string {
	out := make([]string, 0, len(r.events))
	for range len(r.events) {
		event := <-r.events
		out = append(out, event)
		r.events <- event
	}
	return out
}

// forget drops what has arrived.
func (r *receiver) forget() {
	for range len(r.events) {
		<-r.events
	}
}

// runningAgent is KServe's agent as a process.
type runningAgent struct {
	t       *testing.T
	root    string
	log     string
	address string
	// stop ends it.
	stop func()
}

// runAgent runs the agent with the arguments of its container, and with the file system of a pod: its name server is a file, by which the TrustyAI service
// is on this machine, where it listens on another port.
func (m *monitored) runAgent(told []string, port string) *runningAgent {
	t := m.t
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"outputs": []}`)) }))
	t.Cleanup(model.Close)
	behind, err := url.Parse(model.URL)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	a := &runningAgent{t: t, root: t.TempDir(), address: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	a.log = filepath.Join(filepath.Dir(os.Getenv("KSERVE_LOG")), "agent.log")
	program, err := os.ReadFile(os.Getenv("KSERVE_AGENT"))
	if err != nil {
		t.Fatalf("no agent, make test-kserve builds it: %v", err)
	}
	a.write("agent", program, 0o700)
	a.write("etc/hosts", fmt.Appendf(nil, "127.0.0.1 %s.%s.svc.cluster.local\n", m.Name, m.Namespace), 0o600)
	args := slices.Clone(told)
	for flag, value := range map[string]string{"--log-url": m.address() + ":" + port, "--component-port": behind.Port()} {
		args[slices.Index(args, flag)+1] = value
	}
	cmd := exec.Command("/agent", append(args, "--port", strconv.Itoa(ports[0]))...)
	cmd.Dir = "/"
	cmd.Env = []string{"SERVING_READINESS_PROBE=" + fmt.Sprintf(`{"tcpSocket": {"port": %s, "host": "127.0.0.1"}, "successThreshold": 1}`, behind.Port())}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: a.root, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		// In a user namespace everybody may change the root.
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	file, err := os.Create(a.log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatalf("the agent does not start: %v", err)
	}
	a.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = file.Close()
	})
	t.Cleanup(a.stop)
	return a
}

func (a *runningAgent) write(name string, content []byte, mode os.FileMode) {
	a.t.Helper()
	path := filepath.Join(a.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, mode)); err != nil {
		a.t.Fatal(err)
	}
}

// trust has the agent verify by other authorities, as a kubelet brings what is new in a ConfigMap.
func (a *runningAgent) trust(authorities string) {
	a.t.Helper()
	a.write(filepath.Join("etc/tls/logger", loggerBundleFile), []byte(authorities), 0o600)
}

// infer sends a request through the agent, once that listens.
func (a *runningAgent) infer() {
	a.t.Helper()
	cluster.Eventually(a.t, patience, func() error {
		answer, err := http.Post(a.address+"/v2/models/model/infer", "application/json", strings.NewReader(`{"inputs": []}`))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("the agent answers %s", answer.Status)
		}
		return nil
	})
}

// says waits until the agent has said something.
func (a *runningAgent) says(what string) {
	a.t.Helper()
	cluster.Eventually(a.t, patience, func() error {
		text, err := os.ReadFile(a.log)
		if err == nil && !bytes.Contains(text, []byte(what)) {
			err = fmt.Errorf("%w: the agent says\n%s", errNotYet, text)
		}
		return err
	})
}

// TestRealKServeIsIdle: with a TrustyAIService that is wired and an element that is deployed, neither side writes anything for as long as
// KSERVE_IDLE says.
func TestRealKServeIsIdle(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("KSERVE_IDLE"))
	if err != nil {
		t.Fatalf("KSERVE_IDLE: %v", err)
	}
	s := onKafka(t, acmruntime.V910)
	s.start()
	s.deployed(s.primed(map[string]any{}), s.model("sklearn-iris", sklearn(1)))
	m := monitor(t)
	sides := map[string]*cluster.Counter{"the participant": s.operator.Requests, "MLKeeper": m.operator.Requests, "KServe": controller.requests}
	wrote := func(before map[string]map[cluster.Request]int) (out error) {
		for who, counter := range sides {
			if since := counter.Since(before[who]); cluster.Sum(since, cluster.Request.Write, "leases") > 0 {
				out = errors.Join(out, fmt.Errorf("%s has sent:\n%s", who, cluster.Describe(since)))
			}
		}
		return out
	}
	snapshot := func() map[string]map[cluster.Request]int {
		out := map[string]map[cluster.Request]int{}
		for who, counter := range sides {
			out[who] = counter.Snapshot()
		}
		return out
	}
	quiet := snapshot()
	began := time.Now()
	cluster.Eventually(t, 5*patience, func() error {
		if err := wrote(quiet); err != nil {
			quiet, began = snapshot(), time.Now()
			return err
		}
		if time.Since(began) < 15*time.Second {
			return fmt.Errorf("%w: not quiet for long enough", errNotYet)
		}
		return nil
	})
	start := snapshot()
	time.Sleep(length)
	if err := wrote(start); err != nil {
		t.Errorf("within %s: %v", length, err)
	}
	for who, counter := range sides {
		t.Logf("all requests of %s in %s of idling:\n%s", who, length, cluster.Describe(counter.Since(start[who])))
	}
}
