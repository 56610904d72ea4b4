package servicemonitors

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// roles are the objects by which Prometheus finds endpoints: the operator's default, and what replaces it.
var roles = []monitoringv1.ServiceDiscoveryRole{monitoringv1.EndpointsRole, monitoringv1.EndpointSliceRole}

// droppedWhereFilesAreDenied is a known fact and no wish: TrustyAI ADR 3 has a ServiceMonitor with bearerTokenFile, MLKeeper
// renders it so, and the Prometheus operator drops it where arbitraryFSAccessThroughSMs.deny is set, as for user workloads on
// OpenShift. docs/trustyai.md says how to take the file out. Nothing else that MLKeeper renders may be dropped.
var droppedWhereFilesAreDenied = []string{"adr-java-tls", "adr-pvc", "adr-secured-service-ca", "adr-service-monitoring"}

// TestSelected holds that the operator takes every ServiceMonitor and makes one job of each endpoint, which Prometheus loads.
func TestSelected(t *testing.T) {
	ca := newTrust(t)
	var dropped []string
	for _, r := range renderings(t) {
		address := r.start(t, ca.secrets(r), ca.configMaps(r))
		for _, role := range roles {
			open := generate(t, r.monitors, setting{role: role}, address)
			if len(open.dropped) > 0 {
				t.Errorf("%s: dropped: %s", r.name, open.dropped)
			}
			oneJobForEach(t, r, open)

			denied := generate(t, r.monitors, setting{role: role, deny: true}, address)
			if len(denied.dropped) == 0 {
				oneJobForEach(t, r, denied)
				continue
			}
			if len(denied.jobs) != 0 || !strings.Contains(denied.dropped[0], "it accesses file system via bearer token file") {
				t.Errorf("%s: dropped for another reason: %s", r.name, denied.dropped)
			}
			if !slices.Contains(dropped, r.name) {
				dropped = append(dropped, r.name)
			}
			without := withoutToken(r)
			denied = generate(t, without.monitors, setting{role: role, deny: true}, address)
			if len(denied.dropped) > 0 {
				t.Errorf("%s: dropped although bearerTokenFile is taken out, as docs/trustyai.md advises: %s", r.name, denied.dropped)
			}
			oneJobForEach(t, without, denied)
		}
	}
	if !slices.Equal(dropped, droppedWhereFilesAreDenied) {
		t.Errorf("where files are denied the operator drops %v, and is known to drop %v", dropped, droppedWhereFilesAreDenied)
	}
}

func oneJobForEach(t *testing.T, r rendering, g generated) {
	t.Helper()
	want := 0
	for _, m := range r.monitors {
		for i := range m.Spec.Endpoints {
			want++
			if name := fmt.Sprintf("serviceMonitor/%s/%s/%d", m.Namespace, m.Name, i); g.jobs[name] == nil {
				t.Errorf("%s: there is no job %s", r.name, name)
			}
		}
	}
	if want == 0 || len(g.jobs) != want {
		t.Errorf("%s: %d jobs for %d endpoints", r.name, len(g.jobs), want)
	}
}

// withoutToken is a rendering after its user has taken bearerTokenFile out, by null in serviceMonitoring.ref.
func withoutToken(r rendering) rendering {
	monitors := r.monitors
	r.monitors = nil
	for _, m := range monitors {
		m = m.DeepCopy()
		for i := range m.Spec.Endpoints {
			m.Spec.Endpoints[i].BearerTokenFile = "" //nolint:staticcheck // The ADR names the deprecated field.
		}
		r.monitors = append(r.monitors, m)
	}
	return r
}

// TestScraped holds that Prometheus finds one target by each ServiceMonitor, verifies it where it serves TLS, and stores the
// metrics that are to be kept.
func TestScraped(t *testing.T) {
	ca := newTrust(t)
	for _, r := range renderings(t) {
		for _, role := range roles {
			t.Run(r.name+"/"+string(role), func(t *testing.T) {
				t.Parallel()
				var leaf *tls.Certificate
				if r.certificate() != "" {
					cert := ca.leaf(t, r)
					leaf = &cert
				}
				p := newPod(t, r, leaf)
				g := generate(t, r.monitors, setting{role: role}, r.start(t, ca.secrets(r), ca.configMaps(r)))
				got := g.run(t, r, p)
				if len(got.targets) != 1 {
					t.Fatalf("%d targets instead of one: %v", len(got.targets), got.targets)
				}
				if up := got.series["up"]; len(up) != 1 || up[0].value != 1 {
					t.Fatalf("it is not up: %v: %v", up, got.targets[0].LastError())
				}
				r.labelled(t, got)
				r.requested(t, p)
			})
		}
	}
}

// labelled checks the series by which metrics are told apart.
func (r rendering) labelled(t *testing.T, got scraped) {
	t.Helper()
	service, metric := r.deployment.Name, "trustyai_spd"
	names := []string{"trustyai_dir", "trustyai_spd"}
	if r.tensorflow() {
		service, metric = r.deployment.Name+"-service", "jvm_threads"
		names = []string{"jvm_threads", "tensorflow_serving_request_count", "trustyai_dir", "trustyai_spd"}
	}
	if !slices.Equal(got.names(), names) {
		t.Fatalf("it stores %v, not %v", got.names(), names)
	}
	stored := got.series[metric][0].labels
	// Labels that could name another namespace win for the administrator's images alone: see docs/trustyai.md.
	want := map[string]string{"job": service, "service": service, "pod": r.pod().Name, "namespace": "elsewhere"}
	if r.tensorflow() || r.python() {
		want["namespace"], want["exported_namespace"] = r.deployment.Namespace, "elsewhere"
	}
	for name, value := range want {
		if stored.Get(name) != value {
			t.Errorf("%s of %s is %q, not %q: %s", name, metric, stored.Get(name), value, stored)
		}
	}
}

// requested checks what the service is asked, and what it is shown.
func (r rendering) requested(t *testing.T, p *pod) {
	t.Helper()
	asked := p.asked()
	var params []string
	if !r.tensorflow() {
		params = []string{`{__name__= "trustyai_spd"}`, `{__name__= "trustyai_dir"}`}
	}
	if got := asked.URL.Query()["match[]"]; !slices.Equal(got, params) {
		t.Errorf("match[] is %q, not %q", got, params)
	}
	// The ADR has the token of Prometheus shown to whatever answers; nothing else of MLKeeper's has.
	authorization := ""
	if r.ofTheADR() && !r.python() {
		authorization = "Bearer " + token
	}
	if got := asked.Header.Get("Authorization"); got != authorization {
		t.Errorf("the service is shown %q, not %q", got, authorization)
	}
}

// TestUnverifiedIsNotScraped holds that the certificate counts: one of another authority, or for another name, is refused, and
// nothing is stored.
func TestUnverifiedIsNotScraped(t *testing.T) {
	ca, other := newTrust(t), newTrust(t)
	count := 0
	for _, r := range renderings(t) {
		if r.monitors[0].Spec.Endpoints[0].TLSConfig == nil {
			continue
		}
		count++
		wrongName := ca.user.leaf(t, []string{"elsewhere.ns.svc"})
		if _, byServiceCA := r.names(r.certificate()); byServiceCA {
			wrongName = ca.service.leaf(t, []string{"elsewhere.ns.svc"})
		}
		for what, leaf := range map[string]tls.Certificate{"another authority": other.leaf(t, r), "another name": wrongName} {
			t.Run(r.name+"/"+what, func(t *testing.T) {
				t.Parallel()
				p := newPod(t, r, &leaf)
				g := generate(t, r.monitors, setting{role: monitoringv1.EndpointsRole}, r.start(t, ca.secrets(r), ca.configMaps(r)))
				got := g.run(t, r, p)
				if up := got.series["up"]; len(up) != 1 || up[0].value != 0 || len(got.names()) > 0 || p.asked() != nil {
					t.Errorf("it is scraped: up is %v, stored are %v", up, got.names())
				}
			})
		}
	}
	if count == 0 {
		t.Error("no ServiceMonitor asks for TLS")
	}
}

// TestMissingAuthority holds that the operator drops a ServiceMonitor whose Secret is not there, so that its name and key matter.
func TestMissingAuthority(t *testing.T) {
	ca := newTrust(t)
	for _, r := range renderings(t) {
		if config := r.monitors[0].Spec.Endpoints[0].TLSConfig; config == nil || config.CA.Secret == nil {
			continue
		}
		g := generate(t, r.monitors, setting{role: monitoringv1.EndpointsRole}, r.start(t, nil, ca.configMaps(r)))
		if len(g.dropped) != 1 || len(g.jobs) != 0 {
			t.Errorf("%s: %v is dropped, and there are %d jobs", r.name, g.dropped, len(g.jobs))
		}
	}
}
