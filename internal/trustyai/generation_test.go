package trustyai

import (
	"cmp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
)

func Test_TheNameOfAnImageTellsItsGenerationOrNothing(t *testing.T) {
	for image, want := range map[string]v1.ImageGeneration{
		"quay.io/trustyai/trustyai-service:v0.13.0":                         v1.GenerationJava,
		"quay.io/trustyai/trustyai-service:0.15.0":                          v1.GenerationJava,
		"quay.io/trustyai/trustyai-service:v0.16.0":                         v1.GenerationJavaTLS,
		"mirror.example.com:5000/a/trustyai-service:v0.28.0@sha256:" + "ab": v1.GenerationJavaTLS,
		DefaultImage: v1.GenerationJavaTLS,
		"quay.io/trustyai/trustyai-service:latest":                    v1.GenerationPython,
		"trustyai-service:upstream":                                   v1.GenerationPython,
		"quay.io/trustyai/trustyai-service-python-ci:0123abc":         v1.GenerationPython,
		"quay.io/trustyai/trustyai-service:latest@sha256:" + "ab":     "",
		"quay.io/trustyai/trustyai-service@sha256:" + "ab":            "",
		"quay.io/trustyai/trustyai-service:v0.29.0":                   "",
		"quay.io/trustyai/trustyai-service:v0.30.0-rhaiv.1":           "",
		"quay.io/trustyai/trustyai-service:v1.0.0":                    "",
		"quay.io/trustyai/trustyai-service":                           "",
		"quay.io/mine/my-trustyai-service:v0.28.0":                    "",
		"quay.io/trustyai-service/other:v0.28.0":                      "",
		"quay.io/trustyai/trustyai-service:v0.99999999999999999999.0": "",
		"": "", ":": "", "@": "", "a b": "",
	} {
		if got := imageGeneration(image); got != want {
			t.Errorf("%s is %q, not %q", image, got, want)
		}
	}
}

// Test_AnImageThatDoesNotServeTheExposureIsRefused: nothing of it is rendered that would lead nowhere, the status says what
// the image is, and no wire to it counts.
func Test_AnImageThatDoesNotServeTheExposureIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, spec, image, want string
		generation              v1.ImageGeneration
	}{
		{"Plain of Python", adrSpec, "trustyai-service:latest", "Terminal ExposureNotServed", v1.GenerationPython},
		{"Secured of Java", upstreamSpec, "trustyai-service:v0.13.0", "Terminal ExposureNotServed", v1.GenerationJava},
		{"unknown", adrSpec, "mine:1", "Terminal ImageGenerationUnknown", ""},
		{"Plain of Java", adrSpec, "trustyai-service:v0.13.0", "", v1.GenerationJava},
		{"Plain of JavaTLS", adrSpec, "trustyai-service:v0.28.0", "", v1.GenerationJavaTLS},
		{"Secured of JavaTLS", upstreamSpec, "trustyai-service:v0.28.0", "", v1.GenerationJavaTLS},
		{"Secured of Python", upstreamSpec, "trustyai-service:latest", "", v1.GenerationPython},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, cr := newCluster(), custom(t, tc.spec)
			c.Put(parse(t, pvYAML))
			cr.Spec.Image = tc.image
			facts, p := gatherAndRender(t, c, cr)
			if reasons(p) != tc.want {
				t.Fatal(p.Problems)
			}
			refused := tc.want != ""
			for kind, name := range map[string]string{"Deployment": ServiceName(cr), "ServiceMonitor": namesOf(cr).serviceMonitor} {
				if found := find(p, kind, name) != nil; found == refused {
					t.Errorf("%s rendered: %v", kind, found)
				}
			}
			testSystem().Project(cr, facts, controller.ObservedState{Plan: p, Now: testNow})
			if cr.Status.ImageGeneration != tc.generation || (cr.Status.URL == "") != refused {
				t.Errorf("status: generation %q, url %q", cr.Status.ImageGeneration, cr.Status.URL)
			}
		})
	}
}

func Test_WhatIsSaidOfAnImageWins(t *testing.T) {
	s := Settings{Image: "mine:1", ImageGeneration: v1.GenerationPython}
	cr := &v1.TrustyAIService{}
	if got := s.generation(cr); got != v1.GenerationPython {
		t.Errorf("the administrator's word for the default image: %q", got)
	}
	cr.Spec.Image = "yours:1"
	if got := s.generation(cr); got != "" {
		t.Errorf("the administrator's word for another image: %q", got)
	}
	cr.Spec.ImageGeneration = v1.GenerationJava
	if got := s.generation(cr); got != v1.GenerationJava {
		t.Errorf("the owner's word: %q", got)
	}
	if s.Check() != nil || (Settings{ImageGeneration: "Rust"}).Check() == nil {
		t.Error("a generation that is none is not noticed")
	}
}

func Test_MetricsOverTLSAreVerifiedByTheAuthorityThatIsKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		certs Certs
		want  string
	}{
		"own":            {Certs{Source: CertsOwn, CA: "PEM"}, `{"ca":{"secret":{"key":"ca.crt","name":"tas-internal"}},"serverName":"tas.ns.svc"}`},
		"service-ca":     {Certs{Source: CertsServiceCA}, `{"ca":{"configMap":{"key":"service-ca.crt","name":"openshift-service-ca.crt"}},"serverName":"tas.ns.svc"}`},
		"of a known one": {Certs{Source: CertsCertManager}, `{"serverName":"tas.ns.svc"}`},
	} {
		t.Run(name, func(t *testing.T) {
			cr := custom(t, upstreamSpec)
			cr.Spec.Image = "trustyai-service:latest"
			facts, _ := gatherAndRender(t, newCluster(), cr)
			facts.Certs = tc.certs
			endpoint := endpointOf(t, mustFind(t, testSystem().Render(cr, facts), "ServiceMonitor", "tas"))
			if got := compactJSON(t, endpoint["tlsConfig"]); got != tc.want {
				t.Error(got)
			}
		})
	}
}

func Test_ASchedulesOfEveryFormReachesThePythonService(t *testing.T) {
	for schedule, want := range map[string]string{"5s": "5s", "1m": "60s", "1h30m": "5400s", "1ms": "1s", "1500ms": "2s", "0s": "1s"} {
		if got := wholeSeconds(schedule); got != want {
			t.Errorf("%s is %s, not %s", schedule, got, want)
		}
	}
	wholeSeconds(strings.Repeat("9", 29) + "h")
}

func Test_AMigrationOfFilesThatTheImageDoesNotCopyIsRefused(t *testing.T) {
	c, cr := newCluster(), custom(t, databaseSpec)
	c.Put(credentials("p"))
	cr.Spec.Image, cr.Status.StorageFormat = "trustyai-service:latest", v1.StoragePVC
	facts, p := gatherAndRender(t, c, cr)
	if facts.Next.Phase != v1.MigrationPending || reasons(p) != "Terminal MigrationSourceUnknown" || !strings.Contains(p.Problems[0].Error(), "*.hdf5") {
		t.Error(facts.Next, p.Problems)
	}
}

// Test_NoWireCountsThatTheImageDoesNotServe is about an InferenceService that was wired before the image changed.
func Test_NoWireCountsThatTheImageDoesNotServe(t *testing.T) {
	cr := service("n", false, 0)
	s := simulate(t, wireNamed(WireKServe), "m")
	s.Put(isvc(t, "Standard", ""))
	s.settle(cr)
	in := Wired{Targets: map[string][]*unstructured.Unstructured{WireKServe: {s.target()}}}
	if got := WiringOf(cr, in); len(got) != 1 || got[0].Wired != "True" {
		t.Fatalf("%+v", got)
	}
	cr.Status.URL = ""
	s.settle(cr)
	if got := WiringOf(cr, in); len(got) != 1 || got[0].Wired != "False" || got[0].Reason != ReasonNotServed {
		t.Errorf("%+v", got)
	}
	if loggerOf(s.target()) == "" {
		t.Error("the logger is taken out, which starts the pods of the model anew")
	}
}

// Test_AServiceThatListensLateIsNotEndedBefore: a liveness probe that ends a service while it copies a volume has it copy the same rows
// again. The Deployment gives up first. The pods of the other generations stay as they are.
func Test_AServiceThatListensLateIsNotEndedBefore(t *testing.T) {
	for image, late := range map[string]bool{"trustyai-service:latest": true, "trustyai-service:v0.28.0": false} {
		for _, deadline := range []int32{0, 30, 3600} {
			c, cr, s := newCluster(), custom(t, upstreamSpec), testSystem()
			cr.Spec.Image, s.settings.ProgressDeadline = image, deadline
			facts, err := s.Gather(t.Context(), c, cr)
			if err != nil {
				t.Fatal(err)
			}
			deployment := &appsv1.Deployment{}
			u := mustFind(t, s.Render(cr, facts), "Deployment", "tas")
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, deployment); err != nil {
				t.Fatal(err)
			}
			main := deployment.Spec.Template.Spec.Containers[0]
			probe, wait := main.StartupProbe, cmp.Or(deadline, 600)
			switch {
			case (probe != nil) != late:
				t.Errorf("%s: startup probe %+v", image, probe)
			case late && (probe.HTTPGet.Path != main.LivenessProbe.HTTPGet.Path || probe.HTTPGet.Port != main.LivenessProbe.HTTPGet.Port):
				t.Errorf("it is asked for %+v", probe.HTTPGet)
			case late && probe.PeriodSeconds*probe.FailureThreshold <= wait:
				t.Errorf("it is ended before %d seconds, by %+v", wait, probe)
			}
		}
	}
}
