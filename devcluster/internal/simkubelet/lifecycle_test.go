package simkubelet

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/yaml"
)

// player takes the steps of one pod at times that the test chooses.
type player struct {
	t *testing.T
	s step
	// attach are the messages of volumes that are in use elsewhere.
	attach []string
}

func play(t *testing.T, spec string, objects ...any) *player {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(spec), p); err != nil {
		t.Fatal(err)
	}
	p.Namespace, p.Name, p.UID, p.Generation = "ns", "p", "uid", 1
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	out := &player{t: t, s: step{
		pod: &pod{uid: p.UID, due: map[string]time.Time{}, said: map[string]bool{}},
		of:  p, read: readerOf(t, objects...), now: time.Unix(1_700_000_000, 0),
		address: func() string { return "10.244.0.1" },
	}}
	out.s.attach = func() []string { return out.attach }
	return out
}

// after takes a step when so much time has passed.
func (p *player) after(d time.Duration) *player {
	p.s.now = p.s.now.Add(d)
	p.s.take()
	// Whatever is due is looked at by the step that follows; what is due and not looked at would cause the next step at once, for ever.
	for name, due := range p.s.due {
		if !due.After(p.s.now) && !p.s.deleted {
			p.t.Errorf("%q is still due after the step at its time", name)
		}
	}
	p.s.of = p.s.of.DeepCopy()
	// As the informer has it before the next step.
	p.s.of.Status = *p.s.status.DeepCopy()
	return p
}

// is compares the phase, the conditions and the states of the containers with a text.
func (p *player) is(want string) {
	p.t.Helper()
	if got := p.told(); got != want {
		p.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func (p *player) told() string {
	s := p.s.status
	out := []string{string(s.Phase)}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		if _, c := podutil.GetPodCondition(&s, kind); c.Status == corev1.ConditionTrue {
			out = append(out, string(kind))
		}
	}
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		state := c.Name + ":"
		switch {
		case c.State.Running != nil:
			state += "Running"
		case c.State.Terminated != nil:
			state += c.State.Terminated.Reason
		default:
			state += c.State.Waiting.Reason
		}
		if c.Ready {
			state += "+ready"
		}
		out = append(out, state)
	}
	return strings.Join(out, " ")
}

func (p *player) reason(kind corev1.PodConditionType) string {
	_, c := podutil.GetPodCondition(&p.s.status, kind)
	return c.Reason + ": " + c.Message
}

func (p *player) said(want string) {
	p.t.Helper()
	for _, e := range p.s.events {
		if e.reason+": "+e.message == want {
			return
		}
	}
	p.t.Errorf("no event %q in %+v", want, p.s.events)
}

const plain = "spec: {containers: [{name: a, image: i}]}"

func TestAPodWithoutProbesIsReadyOnceItRuns(t *testing.T) {
	p := play(t, plain)
	p.after(0).is("Pending Initialized a:ContainerCreating")
	if got := p.reason(corev1.PodReady); got != "ContainersNotReady: containers with unready status: [a]" {
		t.Error(got)
	}
	p.after(creating / 2).is("Pending Initialized a:ContainerCreating")
	p.after(creating / 2).is("Running Initialized ContainersReady Ready a:Running+ready")
}

func TestAProbeTakesItsTimeWithinLimits(t *testing.T) {
	p := play(t, "spec: {containers: [{name: a, image: i, startupProbe: {initialDelaySeconds: 3600}, readinessProbe: {initialDelaySeconds: 8}}]}")
	p.after(0)
	p.after(creating).is("Running Initialized a:Running")
	if isTrue(p.s.status.ContainerStatuses[0].Started) {
		t.Error("it has started before its startup probe succeeded")
	}
	p.after(maxProbing).is("Running Initialized a:Running")
	if !isTrue(p.s.status.ContainerStatuses[0].Started) {
		t.Error("the startup probe takes longer than the limit")
	}
	p.after(8*second - time.Millisecond).is("Running Initialized a:Running")
	p.after(time.Millisecond).is("Running Initialized ContainersReady Ready a:Running+ready")
}

func TestReadinessGatesAreLeftToOthers(t *testing.T) {
	p := play(t, "spec: {readinessGates: [{conditionType: example.test/gate}], containers: [{name: a, image: i}]}")
	p.after(0)
	p.after(creating).is("Running Initialized ContainersReady a:Running+ready")
	if got := p.reason(corev1.PodReady); got != `ReadinessGatesNotReady: corresponding condition of pod readiness gate "example.test/gate" does not exist.` {
		t.Error(got)
	}
	p.s.of.Status.Conditions = append(p.s.of.Status.Conditions, corev1.PodCondition{Type: "example.test/gate", Status: corev1.ConditionTrue})
	p.after(0).is("Running Initialized ContainersReady Ready a:Running+ready")
}

func TestInitContainersRunInTheirOrderAndSidecarsRunOn(t *testing.T) {
	p := play(t, `
spec:
  initContainers: [{name: x, image: i}, {name: side, image: i, restartPolicy: Always, readinessProbe: {}}, {name: w, image: i}]
  containers: [{name: a, image: i}]`)
	p.after(0).is("Pending x:PodInitializing side:PodInitializing w:PodInitializing a:PodInitializing")
	p.after(creating).is("Pending x:Running side:PodInitializing w:PodInitializing a:PodInitializing")
	p.after(working).is("Pending x:Completed+ready side:Running w:Running a:PodInitializing")
	p.after(working).is("Running Initialized ContainersReady Ready x:Completed+ready side:Running+ready w:Completed+ready a:Running+ready")
}

func TestAContainerThatEndsWithAnErrorIsRestartedWithGrowingPauses(t *testing.T) {
	p := play(t, "metadata: {annotations: {devcluster.mlkeeper.dev/fail: Error}}\n"+plain)
	p.after(0)
	p.after(creating).is("Running Initialized a:Running")
	p.after(working).is("Running Initialized a:Error")
	// The first time it is restarted at once.
	p.after(working).is("Running Initialized a:Running")
	p.after(working).is("Running Initialized a:Error")
	p.after(working).is("Running Initialized a:CrashLoopBackOff")
	c := p.s.status.ContainerStatuses[0]
	if c.RestartCount != 1 || c.LastTerminationState.Terminated.ExitCode != 1 ||
		c.State.Waiting.Message != "back-off 10s restarting failed container=a pod=p_ns(uid)" {
		t.Errorf("%+v", c)
	}
	p.said("BackOff: Back-off restarting failed container a in pod p_ns(uid)")
	p.after(10 * second).is("Running Initialized a:Running")
	p.after(working)
	p.after(working)
	if got := p.s.status.ContainerStatuses[0].State.Waiting.Message; got != "back-off 20s restarting failed container=a pod=p_ns(uid)" {
		t.Error(got)
	}
	delete(p.s.of.Annotations, failAnnotation)
	p.after(20 * second).is("Running Initialized ContainersReady Ready a:Running+ready")
}

func TestAnImageThatCannotBePulledIsWaitedFor(t *testing.T) {
	p := play(t, "metadata: {annotations: {devcluster.mlkeeper.dev/fail: ImagePullBackOff/b}}\nspec: {containers: [{name: a, image: i}, {name: b, image: i}]}")
	p.after(0)
	p.after(creating).is("Pending Initialized a:Running+ready b:ErrImagePull")
	p.after(working).is("Pending Initialized a:Running+ready b:ImagePullBackOff")
	if got := p.reason(corev1.ContainersReady); got != "ContainersNotReady: containers with unready status: [b]" {
		t.Error(got)
	}
	delete(p.s.of.Annotations, failAnnotation)
	p.after(0).is("Running Initialized ContainersReady Ready a:Running+ready b:Running+ready")
}

func TestAReadyPodBecomesUnreadyAndReadyAgain(t *testing.T) {
	p := play(t, plain)
	p.after(0)
	p.after(creating)
	p.s.of.Annotations = map[string]string{failAnnotation: "Unready"}
	p.after(0).is("Running Initialized a:Running")
	p.said("Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503")
	p.s.of.Annotations = nil
	p.after(0).is("Running Initialized ContainersReady Ready a:Running+ready")
}

func TestAnUnknownFailureIsSaid(t *testing.T) {
	p := play(t, "metadata: {annotations: {devcluster.mlkeeper.dev/fail: Tired}}\n"+plain)
	p.after(0)
	p.after(creating).said("Failed: the annotation devcluster.mlkeeper.dev/fail has an unknown value")
}

const ofJob = `metadata: {ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: j, controller: true}], annotations: {%s}}
spec:
  restartPolicy: %s
  initContainers: [{name: side, image: i, restartPolicy: Always}]
  containers: [{name: a, image: i}]`

func job(t *testing.T, annotation, policy string) *player {
	t.Helper()
	p := play(t, strings.NewReplacer("{%s}", "{"+annotation+"}", "%s", policy).Replace(ofJob))
	p.after(0)
	return p.after(creating)
}

func TestThePodOfAJobEnds(t *testing.T) {
	p := job(t, "", "Never")
	p.is("Running Initialized side:Running+ready a:Running")
	p.after(working).is("Succeeded Initialized side:Completed a:Completed")
	if got := p.reason(corev1.PodReady); got != "PodCompleted: " {
		t.Error(got)
	}
}

func TestThePodOfAJobFailsByItsRestartPolicy(t *testing.T) {
	const fail = "devcluster.mlkeeper.dev/fail: Error"
	job(t, fail, "Never").after(working).is("Failed Initialized side:Completed a:Error")
	p := job(t, fail, "OnFailure").after(working)
	p.is("Running Initialized side:Running+ready a:Error")
	p.after(working).is("Running Initialized side:Running+ready a:Running")
}

func TestAFailedInitContainerFailsAPodThatIsNotRestarted(t *testing.T) {
	p := play(t, `
metadata: {annotations: {devcluster.mlkeeper.dev/fail: Error/x}}
spec: {restartPolicy: Never, initContainers: [{name: x, image: i}], containers: [{name: a, image: i}]}`)
	p.after(0)
	p.after(creating)
	p.after(working).is("Failed x:Error a:PodInitializing")
}

func TestADeletedPodRunsForAMomentAndThenItsContainersEnd(t *testing.T) {
	p := play(t, plain)
	p.after(0)
	p.after(creating)
	p.s.of.DeletionTimestamp = &metav1.Time{Time: p.s.now}
	p.after(0).is("Running Initialized ContainersReady Ready a:Running+ready")
	p.after(ending).is("Succeeded Initialized a:Completed")
	if !p.s.deleted {
		t.Error("the API server is not told")
	}
	never := play(t, plain)
	never.s.of.DeletionTimestamp = &metav1.Time{Time: never.s.now}
	if never.after(0); !never.s.deleted {
		t.Error("a pod that never ran is waited for")
	}
}

func TestAVolumeInUseElsewhereIsWaitedFor(t *testing.T) {
	p := play(t, plain)
	p.attach = []string{`Multi-Attach error for volume "v" Volume is already used by pod(s) other`}
	p.after(0)
	p.after(creating).is("Pending Initialized a:ContainerCreating")
	p.said(`FailedAttachVolume: Multi-Attach error for volume "v" Volume is already used by pod(s) other`)
	if !p.s.waits {
		t.Error("it is not woken when the volume is free")
	}
	p.attach = nil
	p.after(0).is("Running Initialized ContainersReady Ready a:Running+ready")
}
