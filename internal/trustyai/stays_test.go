package trustyai

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

// held stands for an object that is left as it is.
const held = "held"

// entrances are the objects by which pods are reached, as text.
func entrances(p plan.Plan) map[string]string {
	out := map[string]string{}
	for _, key := range p.Keep {
		out[key.Kind+" "+key.Name] = held
	}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			switch kind := o.Desired.GetKind(); {
			case o.Hold != "":
				out[kind+" "+o.Desired.GetName()] = held
			case slices.Contains([]string{"Service", "NetworkPolicy", "Route", "Ingress", "HTTPRoute", "ServiceMonitor", "BackendTLSPolicy"}, kind):
				out[kind+" "+o.Desired.GetName()] = fmt.Sprint(o.Desired.GetAnnotations(), o.Desired.Object["spec"])
			case kind == "ConfigMap":
				out[kind+" "+o.Desired.GetName()] = fmt.Sprint(o.Desired.Object["data"])
			}
		}
	}
	return out
}

// Test_WhatLeadsToPodsThatStayStaysWithThem changes the exposure or the image of a service that runs, together with a mistake for which its
// Deployment stays as it is: nobody who reached the pods is sent elsewhere, or shut out.
func Test_WhatLeadsToPodsThatStayStaysWithThem(t *testing.T) {
	const entries = "  ingress: {host: a.example}\n  httpRoute: {parentRefs: [{name: gate}]}\n"
	plain, secured := upstreamSpec+entries+"  exposure: Plain\n", upstreamSpec+entries
	const certified = "  tls: {secretName: mine}\n"
	mine := secretOf2("ns", "mine", map[string]string{"tls.crt": "a", "tls.key": "b", "ca.crt": pemOf("c")})
	for name, tc := range map[string]struct {
		spec   string
		change func(c *cluster, cr *v1.TrustyAIService)
		mend   func(c *cluster, cr *v1.TrustyAIService)
		// refused is the reason of the problem; empty where the Deployment waits only.
		refused string
	}{
		"Secured, of an image without TLS": {
			plain, func(_ *cluster, cr *v1.TrustyAIService) {
				cr.Spec.Exposure, cr.Spec.ImageGeneration = v1.ExposureSecured, v1.GenerationJava
			}, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.ImageGeneration = v1.GenerationJavaTLS },
			"ExposureNotServed",
		},
		"Secured, without its Secret": {
			plain, func(_ *cluster, cr *v1.TrustyAIService) {
				cr.Spec.Exposure, cr.Spec.TLS = v1.ExposureSecured, &v1.TLSSpec{SecretName: "new"}
			}, func(c *cluster, _ *v1.TrustyAIService) {
				c.Put(secretOf2("ns", "new", map[string]string{"tls.crt": "a", "tls.key": "b"}))
			},
			"TLSSecretNotFound",
		},
		"Secured, before its certificates are stored": {
			plain, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Exposure = v1.ExposureSecured }, nil, "",
		},
		"Secured, with another mistake": {
			plain, func(_ *cluster, cr *v1.TrustyAIService) {
				cr.Spec.Exposure, cr.Spec.Storage.Folder = v1.ExposureSecured, "inputs"
			}, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Storage.Folder = "/inputs" }, "InvalidFolder",
		},
		"Plain, of an image that has TLS only": {
			secured, func(_ *cluster, cr *v1.TrustyAIService) {
				cr.Spec.Exposure, cr.Spec.ImageGeneration = v1.ExposurePlain, v1.GenerationPython
			}, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.ImageGeneration = v1.GenerationJavaTLS }, "ExposureNotServed",
		},
		"Plain, and its certificate is gone": {
			secured + certified, func(c *cluster, cr *v1.TrustyAIService) {
				cr.Spec.Exposure = v1.ExposurePlain
				delete(c.Objects, plan.KeyOf(mine))
			}, nil, "",
		},
		"Plain without a certificate, with another mistake": {
			secured + certified, func(_ *cluster, cr *v1.TrustyAIService) {
				cr.Spec.Exposure, cr.Spec.TLS, cr.Spec.Storage.Folder = v1.ExposurePlain, nil, "inputs"
			}, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Storage.Folder = "/inputs" }, "InvalidFolder",
		},
		"a Secret that does not exist": {
			secured + certified, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.TLS.SecretName = "yours" },
			func(c *cluster, _ *v1.TrustyAIService) {
				c.Put(secretOf2("ns", "yours", map[string]string{"tls.crt": "d", "tls.key": "e", "ca.crt": pemOf("f")}))
			}, "TLSSecretNotFound",
		},
		"an image with TLS, and a variable for that": {
			plain + "  imageGeneration: Java\n  env: [{name: QUARKUS_HTTP_SSL_CERTIFICATE_FILES, value: x}]\n",
			func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.ImageGeneration = v1.GenerationJavaTLS },
			func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Env = nil }, "EnvReserved",
		},
		"the administrator's image, with another mistake": {
			adrSpec + "  image: mine:1\n  imageGeneration: Java\n", func(_ *cluster, cr *v1.TrustyAIService) {
				cr.Spec.Image, cr.Spec.ImageGeneration, cr.Spec.Storage.Folder = "", "", "inputs"
			}, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Storage.Folder = "/inputs" }, "InvalidFolder",
		},
		"an image without TLS": {
			secured, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.ImageGeneration = v1.GenerationJava },
			func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.ImageGeneration = "" }, "ExposureNotServed",
		},
		"an image with another layout, with another mistake": {
			secured, func(_ *cluster, cr *v1.TrustyAIService) {
				cr.Spec.ImageGeneration, cr.Spec.Storage.Folder = v1.GenerationPython, "inputs"
			}, func(_ *cluster, cr *v1.TrustyAIService) { cr.Spec.Storage.Folder = "/inputs" }, "InvalidFolder",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, cr := newCluster(gvkHTTPRoute, gvkBackendTLSPolicy), custom(t, tc.spec)
			c.Put(mine.DeepCopy())
			c.Put(parse(t, pvYAML))
			var meshed []wiring.Entry
			pass := func() (plan.Plan, string) {
				facts, p := gatherAndRender(t, c, cr)
				c.Written(p, ownerID(cr))
				testSystem().Project(cr, facts, controller.ObservedState{Plan: p, Now: testNow})
				target := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "m", "namespace": "ns"}}}
				target.SetAnnotations(map[string]string{deploymentMode: "RawDeployment"})
				ready := cr.DeepCopy()
				ready.Status.Conditions = []metav1.Condition{{Type: ConditionAvailable, Status: metav1.ConditionTrue}}
				wire, mesh := kserveWire(DefaultClusterDomain), meshDeploymentWire(DefaultClusterDomain)
				deployment := &unstructured.Unstructured{Object: map[string]any{}}
				if len(meshed) > 0 {
					record, _ := json.Marshal(wiring.Record{Entries: meshed})
					deployment.SetAnnotations(map[string]string{keeper.WiringAnnotation: string(record)})
				}
				meshed = mesh.Wanted(deployment, []client.Object{ready})
				return p, fmt.Sprint(cr.Status.URL, wire.Wanted(target, []client.Object{ready}), meshed)
			}
			var before plan.Plan
			var sent string
			for range 4 {
				before, sent = pass()
			}
			tc.change(c, cr)
			cr.Generation++
			passes := 3
			if tc.refused == "" {
				passes = 1
			}
			for range passes {
				during, url := pass()
				if got := reasons(during); !strings.Contains(got, tc.refused) || tc.refused == "" && got != "" {
					t.Fatalf("the problems are %q", got)
				}
				have := entrances(during)
				for key, want := range entrances(before) {
					// While there is a problem, what the plan does not have stays.
					if now, rendered := have[key]; now != want && now != held && (rendered || tc.refused == "") {
						t.Errorf("%s was\n%s\nand is\n%s", key, want, have[key])
					}
				}
				if url != sent {
					t.Errorf("payloads were sent to %s, and are to %s", sent, url)
				}
			}
			if tc.mend != nil {
				tc.mend(c, cr)
				cr.Generation++
			}
			var after plan.Plan
			for range 4 {
				after, sent = pass()
			}
			fresh := custom(t, tc.spec)
			fresh.Spec = *cr.Spec.DeepCopy()
			fresh.Generation, cr = cr.Generation, fresh
			var want plan.Plan
			var wants string
			for range 4 {
				want, wants = pass()
			}
			if got, of := entrances(after), entrances(want); !maps.Equal(got, of) || sent != wants || reasons(after) != "" {
				t.Errorf("once mended (%s) the entrances are %q and not %q, payloads go to %s and not %s", reasons(after),
					slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(of)), sent, wants)
			}
		})
	}
}

// Test_ARecordThatNobodyWroteCountsAsNone: whoever may edit the Deployment can write it, and what the status holds has an enumeration.
func Test_ARecordThatNobodyWroteCountsAsNone(t *testing.T) {
	for text, good := range map[string]bool{
		`{"exposure":"Plain","generation":"Java","trusted":true}`:         true,
		`{"exposure":"Secured","generation":"Python","secret":"tas-tls"}`: true,
		"":     false,
		"{}":   false,
		"null": false,
		"[":    false,
		`{"exposure":"Open","generation":"Java"}`:                  false,
		`{"exposure":"Plain","generation":"Rust"}`:                 false,
		`{"exposure":"Secured","generation":"JavaTLS"}`:            false,
		`{"exposure":"Plain","generation":"Java","secret":"mine"}`: false,
	} {
		if out := decodeServed(text); (out != nil) != good {
			t.Errorf("%s is %v", text, out)
		}
	}
}

// Test_WithoutARecordTheStatusTells: a Deployment that a problem kept from getting its record.
func Test_WithoutARecordTheStatusTells(t *testing.T) {
	cr := custom(t, upstreamSpec+"  exposure: Plain\n")
	facts := Facts{Deployment: &Deployment{}, Generation: v1.GenerationJava}
	if got := facts.served(cr); got != (Served{Exposure: v1.ExposurePlain, Generation: v1.GenerationJava}) {
		t.Errorf("where nothing tells, the pods serve %+v", got)
	}
	cr.Status.Exposure, cr.Status.ImageGeneration, cr.Status.TLSSecretName = v1.ExposureSecured, v1.GenerationJavaTLS, "mine"
	if got := facts.served(cr); got != (Served{Exposure: v1.ExposureSecured, Generation: v1.GenerationJavaTLS, Secret: "mine"}) {
		t.Errorf("by the status the pods serve %+v", got)
	}
	facts.Deployment = nil
	if got := facts.served(cr); got.Exposure != v1.ExposurePlain {
		t.Errorf("where there are no pods, they serve %+v", got)
	}
}

// Test_ADryRunShowsWhatFollows: no later reconcile shows what the pods of the spec are reached by.
func Test_ADryRunShowsWhatFollows(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec+"  exposure: Plain\n")
	for range 2 {
		_, p := gatherAndRender(t, c, cr)
		c.Written(p, ownerID(cr))
	}
	cr.Spec.Exposure = v1.ExposureSecured
	s := testSystem()
	s.settings.DryRun = true
	facts, err := s.Gather(t.Context(), c, cr)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Render(cr, facts)
	if find(p, "NetworkPolicy", "tas-secured") == nil {
		t.Error("it does not show the NetworkPolicy")
	}
	if ports := fmt.Sprint(mustFind(t, p, "Service", "tas").Object["spec"]); !strings.Contains(ports, "443") {
		t.Errorf("the Service is shown with %s", ports)
	}
}

// Test_LoggersVerifyThePodsThatStay: another certificate is declared together with a mistake. What the loggers trust verifies the pods that run, and
// those to come where one ConfigMap can hold both authorities.
func Test_LoggersVerifyThePodsThatStay(t *testing.T) {
	mine := secretOf2("ns", "mine", map[string]string{"tls.crt": "a", "tls.key": "b", "ca.crt": pemOf("c")})
	secret := func(name string) *v1.TLSSpec { return &v1.TLSSpec{SecretName: name} }
	for name, tc := range map[string]struct {
		serviceCA     bool
		before, after *v1.TLSSpec
		held          bool
		want          []string
	}{
		"another Secret":               {false, secret("mine"), secret("yours"), false, []string{pemOf("c"), pemOf("f")}},
		"from service-ca to a Secret":  {true, nil, secret("mine"), true, nil},
		"from a Secret to service-ca":  {true, secret("mine"), nil, true, nil},
		"as before, with that mistake": {true, nil, nil, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, all := logged(t, "tas")
			cr := all[0]
			c.APIs[gvkServiceCA] = tc.serviceCA
			c.Put(mine.DeepCopy())
			c.Put(secretOf2("ns", "yours", map[string]string{"tls.crt": "d", "tls.key": "e", "ca.crt": pemOf("f")}))
			for _, name := range []string{"tas-tls", "tas-internal"} {
				c.Put(servingCertificate(name, map[string]string{"tls.crt": "x", "tls.key": "y"}))
			}
			cr.Spec.TLS = tc.before
			for range 3 {
				_, p := gatherAndRender(t, c, cr)
				c.Written(p, ownerID(cr))
			}
			cr.Spec.TLS, cr.Spec.Storage.Folder = tc.after, "inputs"
			_, p := gatherAndRender(t, c, cr)
			for _, o := range p.Stages[0].Objects {
				if o.Desired.GetName() != loggerCA {
					continue
				}
				if (o.Hold != "") != tc.held {
					t.Errorf("it waits for %q", o.Hold)
				}
				for _, ca := range tc.want {
					if got := fmt.Sprint(o.Desired.Object["data"]); !strings.Contains(got, ca) {
						t.Errorf("it holds %s", got)
					}
				}
				return
			}
			t.Error("it is not in the plan")
		})
	}
}

// Test_ModelMeshMountsWhatThePodsHave, also where the spec names a Secret as MLKeeper names its own.
func Test_ModelMeshMountsWhatThePodsHave(t *testing.T) {
	for name, tc := range map[string]struct{ declared, now, want string }{
		"of an earlier build":               {"", "", "tas-internal"},
		"its own":                           {"", "tas-tls", "tas-internal"},
		"a user's":                          {"mine", "mine", "mine"},
		"a user's with the name of its own": {"tas-tls", "tas-tls", "tas-tls"},
		"its own, and a user's to come":     {"mine", "tas-tls", "tas-internal"},
		"a user's, and its own to come":     {"", "mine", "mine"},
	} {
		cr := custom(t, upstreamSpec)
		if tc.declared != "" {
			cr.Spec.TLS = &v1.TLSSpec{SecretName: tc.declared}
		}
		cr.Status.TLSSecretName = tc.now
		if got := internalSecretNow(cr); got != tc.want {
			t.Errorf("%s: %s and not %s", name, got, tc.want)
		}
	}
}
