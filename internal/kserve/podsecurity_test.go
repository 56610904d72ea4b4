package kserve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// podPlaces and containerPlaces are where an InferenceService declares pods and containers.
var (
	podPlaces = map[string]string{
		"predictor": `{"predictor":%s}`, "transformer": `{"predictor":{},"transformer":%s}`, "explainer": `{"predictor":{},"explainer":%s}`,
		"worker": `{"predictor":{"model":{},"workerSpec":%s}}`,
	}
	containerPlaces = map[string]string{
		"model": `{"model":%s}`, "framework": `{"sklearn":%s}`, "container": `{"containers":[%s]}`, "init container": `{"initContainers":[%s]}`,
	}
)

// ordersOf plans an order to deploy a service with this spec into a namespace with these labels.
func ordersOf(t *testing.T, spec string, labels map[string]string, accounts ...*unstructured.Unstructured) (made, problem, message string) {
	t.Helper()
	payload := `{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","spec":` + spec + `}`
	if !json.Valid([]byte(payload)) {
		t.Fatalf("the test is wrong: %s", payload)
	}
	cluster := controllertest.New(noon.Add(time.Hour))
	ns := namespace("kserve-test", keeper.CompositionsAllowed)
	all := ns.GetLabels()
	for key, value := range labels {
		all[key] = value
	}
	ns.SetLabels(all)
	cluster.Put(ns)
	for _, account := range accounts {
		cluster.Put(account)
	}
	cr := resource(acm.Element{
		ID: elementID, InstanceID: instanceID, Present: true,
		Content: acm.Content{Properties: properties(list(declared("a", "kserve-test", payload)))},
		Order:   acm.Order{Type: acm.OrderDeploy, ID: "m1", Time: noon},
	}, nil)
	p := planned(t, cluster, cr)
	if cr.Status.Outcome != nil {
		message = cr.Status.Outcome.Failure
	}
	return names(p), controllertest.Reasons(p), message
}

// TestPodSecurity: an order creates no pod that the level baseline of the Pod Security Standards forbids, wherever the service declares
// it, unless the namespace enforces privileged.
func TestPodSecurity(t *testing.T) {
	privileged := map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
	refused := func(t *testing.T, spec, violation string) {
		t.Helper()
		for _, labels := range []map[string]string{nil, {"pod-security.kubernetes.io/enforce": "baseline"}} {
			made, problem, message := ordersOf(t, spec, labels)
			if made != "" || problem != "Terminal PodSecurityViolation" || !strings.Contains(message, violation) {
				t.Errorf("%s with %v: it makes %q, with problem %q, and tells %q", spec, labels, made, problem, message)
			}
		}
		if made, problem, _ := ordersOf(t, spec, privileged); made != "kserve-test/a" || problem != "" {
			t.Errorf("%s in a privileged namespace: it makes %q, with problem %q", spec, made, problem)
		}
	}
	for where, place := range podPlaces {
		for violation, fields := range map[string]string{
			"hostNetwork": `{"hostNetwork":true}`, "hostPID": `{"hostPID":true}`, "hostIPC": `{"hostIPC":true}`,
			"hostPath": `{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}`, "sysctl": `{"securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]}}`,
			"AppArmor": `{"annotations":{"container.apparmor.security.beta.kubernetes.io/model":"unconfined"}}`,
		} {
			t.Run(where+" "+violation, func(t *testing.T) { refused(t, fmt.Sprintf(place, fields), violation) })
		}
		for inside, container := range containerPlaces {
			for violation, fields := range map[string]string{
				"privileged": `{"securityContext":{"privileged":true}}`, "non-default capabilities": `{"securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}`,
				"hostPort": `{"ports":[{"containerPort":1,"hostPort":1}]}`, "probe": `{"livenessProbe":{"httpGet":{"port":1,"host":"10.0.0.1"}}}`,
			} {
				t.Run(where+" "+inside+" "+violation, func(t *testing.T) {
					refused(t, fmt.Sprintf(place, fmt.Sprintf(container, fields)), violation)
				})
			}
		}
	}
}

// TestPlacement: an order neither has pods of others preempted nor passes over the scheduler, unless an administrator allows it for the namespace.
// What models on GPUs need is accepted.
func TestPlacement(t *testing.T) {
	for where, place := range podPlaces {
		for field, fields := range map[string]string{"nodeName": `{"nodeName":"n"}`, "priorityClassName": `{"priorityClassName":"system-node-critical"}`} {
			spec := fmt.Sprintf(place, fields)
			for _, labels := range []map[string]string{nil, {"pod-security.kubernetes.io/enforce": "baseline"}} {
				made, problem, message := ordersOf(t, spec, labels)
				if made != "" || problem != "Terminal PodSecurityViolation" || !strings.Contains(message, field) || !strings.Contains(message, "remove the field") {
					t.Errorf("%s %s with %v: it makes %q, with problem %q, and tells %q", where, field, labels, made, problem, message)
				}
			}
			if made, problem, _ := ordersOf(t, spec, map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}); made == "" || problem != "" {
				t.Errorf("%s %s in a privileged namespace: it makes %q, with problem %q", where, field, made, problem)
			}
			made, problem, _ := ordersOf(t, spec, map[string]string{keeper.CompositionsPriorityLabel: keeper.CompositionsAllowed})
			if (made != "") != (field == "priorityClassName") {
				t.Errorf("%s %s where priorities are allowed: it makes %q, with problem %q", where, field, made, problem)
			}
		}
		gpu := `{"nodeSelector":{"gpu":"yes"},"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}],"runtimeClassName":"nvidia"}`
		if made, problem, _ := ordersOf(t, fmt.Sprintf(place, gpu), nil); made == "" || problem != "" {
			t.Errorf("%s for GPUs: it makes %q, with problem %q", where, made, problem)
		}
	}
}

// TestPodSecurityAllows: what the standards allow is created, as are fields that only look like a container's.
func TestPodSecurityAllows(t *testing.T) {
	for _, spec := range []string{
		`{"predictor":{"model":{"modelFormat":{"name":"sklearn"},"storageUri":"gs://a/b","resources":{"limits":{"cpu":"1"}}},"minReplicas":1}}`,
		`{"predictor":{"containers":[{"name":"kserve-container","image":"a","ports":[{"containerPort":8080}],"securityContext":{"runAsNonRoot":true}}]}}`,
		`{"predictor":{"model":{},"labels":{"ports":"many"},"nodeSelector":{"lifecycle":"spot"},"logger":{"mode":"all"},"canaryTrafficPercent":10}}`,
		`{"predictor":{"model":{},"serviceAccountName":"default"},"transformer":{"serviceAccount":"default"}}`,
	} {
		if made, problem, _ := ordersOf(t, spec, nil); made != "kserve-test/a" || problem != "" {
			t.Errorf("%s: it makes %q, with problem %q", spec, made, problem)
		}
	}
	if made, problem, _ := ordersOf(t, `{"predictor":{"model":{},"volumes":"none"}}`, nil); made != "" || problem != "Terminal InvalidProperties" {
		t.Errorf("what cannot be read makes %q, with problem %q", made, problem)
	}
}

// TestAnnotationsThatInject: webhooks make of annotations what the payload does not have, which the API server judges only where the namespace
// enforces a level.
func TestAnnotationsThatInject(t *testing.T) {
	order := func(where, key string, labels map[string]string) (made, problem, message string) {
		annotations := fmt.Sprintf(`{"annotations":{"a":"b","prometheus.io/scrape":"true",%q:"x"}}`, key)
		if place, inside := podPlaces[where]; inside {
			return ordersOf(t, fmt.Sprintf(place, annotations), labels)
		}
		return ordersOf(t, `{"predictor":{}},"metadata":`+annotations, labels)
	}
	for _, where := range []string{"metadata", "predictor", "transformer", "explainer", "worker"} {
		for key, may := range map[string]bool{
			"team": true, "serving.kserve.io/deploymentMode": true, "autoscaling.knative.dev/target": true, "prometheus.io/port": true,
			"sidecar.istio.io/inject": true, "cluster-autoscaler.kubernetes.io/safe-to-evict": true,
			"sidecar.istio.io/userVolume": false, "inject.istio.io/templates": false, "config.linkerd.io/proxy-image": false,
			"vault.hashicorp.com/agent-inject": false, "k8s.v1.cni.cncf.io/networks": false, "io.katacontainers.config.hypervisor.path": false,
			"notkserve.io/a": false, "kserve.io.example.com/a": false,
		} {
			made, problem, message := order(where, key, nil)
			if allowed := made == "kserve-test/a" && problem == ""; allowed != may {
				t.Errorf("%s of %s makes %q, with problem %q", key, where, made, problem)
			}
			if !may && (problem != "Terminal AnnotationNotAllowed" || !strings.Contains(message, key) || !strings.Contains(message, "annotations")) {
				t.Errorf("%s of %s has the problem %q, and tells %q", key, where, problem, message)
			}
			for _, level := range []string{"privileged", "baseline", "restricted"} {
				if made, problem, _ := order(where, key, map[string]string{"pod-security.kubernetes.io/enforce": level}); made != "kserve-test/a" || problem != "" {
					t.Errorf("%s of %s, where %s is enforced, makes %q, with problem %q", key, where, level, made, problem)
				}
			}
		}
	}
}

// TestServiceAccounts: the pods of an order run as the default ServiceAccount, or as one that an administrator has labelled.
func TestServiceAccounts(t *testing.T) {
	account := func(label string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"})
		u.SetNamespace("kserve-test")
		u.SetName("admin")
		u.SetLabels(map[string]string{keeper.CompositionsLabel: label})
		return u
	}
	for where, place := range podPlaces {
		for _, field := range []string{"serviceAccountName", "serviceAccount"} {
			spec := fmt.Sprintf(place, `{"`+field+`":"admin"}`)
			for name, accounts := range map[string][]*unstructured.Unstructured{"absent": nil, "without the label": {account("")}} {
				made, problem, message := ordersOf(t, spec, nil, accounts...)
				if made != "" || problem != "Terminal ServiceAccountNotAllowed" ||
					!strings.Contains(message, "kubectl label serviceaccount -n kserve-test admin keeper.mlkeeper.dev/compositions=allowed") {
					t.Errorf("%s %s: one that is %s makes %q, with problem %q, and tells %q", where, field, name, made, problem, message)
				}
			}
			if made, problem, _ := ordersOf(t, spec, nil, account(keeper.CompositionsAllowed)); made != "kserve-test/a" || problem != "" {
				t.Errorf("%s %s: a labelled one makes %q, with problem %q", where, field, made, problem)
			}
		}
	}
}
