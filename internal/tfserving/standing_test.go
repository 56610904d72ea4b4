package tfserving

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// TestAnAnswerCountsTheModelsThatWereAskedFor: the config may have changed since.
func TestAnAnswerCountsTheModelsThatWereAskedFor(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	c.Answers[allReady] = &Answer{Servers: 3, Answered: 3, Asked: 2, Available: 2, Models: []v1alpha1.ModelStatus{
		{Name: "resnet", Version: "1", State: stateAvailable}, {Name: "other", Version: "1", State: stateAvailable},
	}}
	project(t, c, cr)
	condition(t, cr, ConditionModelsAvailable, "True", reasonModelsAvailable)
	if got := cr.Status.ModelsAvailable; got != "2/2" {
		t.Errorf("%s models are available", got)
	}
	// Of a config without a model nobody is asked, and what was said of the one before is over.
	c.Get(key("ConfigMap", cr.Spec.ConfigMap)).Object["data"] = map[string]any{"models.conf": ""}
	_, p = gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, true)
	project(t, c, cr)
	condition(t, cr, ConditionModelsAvailable, "True", reasonModelsAvailable)
	if got := cr.Status; got.ModelsAvailable != "0/0" || len(got.Models) > 0 || got.ModelsAskedAt != nil {
		t.Errorf("%+v", got)
	}
}

// TestADeadlineSaysWhetherAnythingServes: of a first rollout nothing does.
func TestADeadlineSaysWhetherAnythingServes(t *testing.T) {
	for ready, want := range map[int64]string{0: "and none serves", 2: "those that are ready serve on"} {
		c, cr := seed(t)
		_, p := gatherAndRender(t, c, cr)
		c.Written(p, ownerOf(cr))
		rolledOut(t, c, cr, p, false)
		u := c.Get(key("Deployment", cr.Name)).DeepCopy()
		status := u.Object["status"].(map[string]any)
		status["readyReplicas"], status["availableReplicas"] = ready, ready
		status["conditions"] = []any{map[string]any{"type": "Progressing", "status": "False", "reason": reasonDeadlineExceeded}}
		c.Own(u, ownerOf(cr))
		project(t, c, cr)
		condition(t, cr, ConditionProgressing, "False", reasonDeadlineExceeded)
		if got := meta.FindStatusCondition(cr.Status.Conditions, ConditionProgressing).Message; !strings.Contains(got, want) {
			t.Errorf("%d are ready: %q", ready, got)
		}
	}
}

// TestAPodThatWasEvictedIsNoFailure: it stays, and says of a later rollout what is over.
func TestAPodThatWasEvictedIsNoFailure(t *testing.T) {
	evicted := podThat(t, "a", "{phase: Failed, reason: Evicted, containerStatuses: "+
		"[{name: tfs-main, image: serving, ready: false, restartCount: 0, state: {terminated: {exitCode: 137, reason: Error}}}]}")
	if got, _ := failureOf([]unstructured.Unstructured{evicted}, testNow, toServe{}); got != nil {
		t.Errorf("%+v", got)
	}
}

// TestAnotherKeyOfTheCredentialsRestartsNone, where one key is read.
func TestAnotherKeyOfTheCredentialsRestartsNone(t *testing.T) {
	c, cr := seed(t)
	before, _ := gatherAndRender(t, c, cr)
	data := c.Get(key("Secret", "tfs-secret")).Object["data"].(map[string]any)
	data["other"] = "W10="
	if after, _ := gatherAndRender(t, c, cr); after.CredentialsDigest != before.CredentialsDigest || before.CredentialsDigest == "" {
		t.Error("another key restarts the pods")
	}
	// Without the name of a key the image of the owner may read any.
	cr.Spec.SecretFileName, cr.Spec.SecretName = "", "tfs-secret"
	all, _ := gatherAndRender(t, c, cr)
	data["other"] = "e30="
	if after, _ := gatherAndRender(t, c, cr); after.CredentialsDigest == all.CredentialsDigest {
		t.Error("a changed key does not restart the pods")
	}
}

// TestRequestsAreLoggedByAnImageThatHasALogger: the stock program ends at its start (core/server_request_logger.cc).
func TestRequestsAreLoggedByAnImageThatHasALogger(t *testing.T) {
	c, cr := seed(t)
	c.Get(key("ConfigMap", cr.Spec.ConfigMap)).Object["data"] = map[string]any{
		"models.conf": `model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" logging_config {} } }`,
	}
	facts, p := gatherAndRender(t, c, cr)
	if got := controllertest.Reasons(p); got != "Terminal ConfigInvalid" || !strings.Contains(p.Problems[0].Error(), "logging_config") {
		t.Errorf("problems %q", p.Problems)
	}
	if facts.Config.Valid() {
		t.Error("a config that ends the servers counts")
	}
	cr.Spec.Image = "registry.example.com/serving"
	if _, p = gatherAndRender(t, c, cr); len(p.Problems) > 0 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "logging_config") {
		t.Errorf("problems %q, warnings %q", p.Problems, p.Warnings)
	}
}

// TestFieldsThatMeanNothingAreWarnedOf.
func TestFieldsThatMeanNothingAreWarnedOf(t *testing.T) {
	for spec, want := range map[string]string{
		"configPollSeconds: 5":                                              "spec.configPollSeconds has no effect without spec.configReload Poll",
		"configPollSeconds: 5\n  configReload: Poll":                        "",
		"secretFileLocation: /x":                                            "spec.secretFileName or spec.secretName",
		"service: {loadBalancerClass: x}":                                   "spec.service.loadBalancerClass has no effect",
		"service: {loadBalancerSourceRanges: [10.0.0.0/8]}":                 "spec.service.loadBalancerSourceRanges has no effect",
		"service: {externalTrafficPolicy: Local}":                           "",
		"serviceType: ClusterIP\n  service: {externalTrafficPolicy: Local}": "spec.service.externalTrafficPolicy has no effect",
		"server: {warmup: false, warmupIterations: 2}":                      "spec.server.warmupIterations has no effect",
		"server: {warmupIterations: 2}":                                     "",
		"s3: {downloader: {image: x}}":                                      "spec.s3.downloader has no effect without a model below s3://",
		"s3: {downloader: {image: x}, imageReadsS3: true}":                  "spec.s3.downloader has no effect without spec.s3.imageReadsS3 false",
		"s3: {insecure: true, imageReadsS3: true}":                          "spec.s3.insecure has no effect",
		"autoscaling: {maxReplicas: 2}":                                     "spec.resources.requests.cpu",
		"autoscaling: {maxReplicas: 2}\n  resources: {limits: {cpu: 1}}":    "",
		"autoscaling: {maxReplicas: 2}\n  resources: {requests: {cpu: 1}}":  "",
	} {
		_, p := gatherAndRender(t, controllertest.New(testNow), custom(t, inline+"  "+spec+"\n"))
		if got := strings.Join(p.Warnings, "; "); len(p.Warnings) > 1 || (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: warnings %q", spec, got)
		}
	}
}

// TestAGatewayIsToldOfTheTLSBehindIt.
func TestAGatewayIsToldOfTheTLSBehindIt(t *testing.T) {
	c := controllertest.New(testNow)
	putTLS(t, c, "Opaque", map[string]string{"ssl.conf": sslConfigOf(certificate(t, "one"))})
	_, p := gatherAndRender(t, c, custom(t, exposed+"  server: {tls: {secretName: tls}}\n"))
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "spec.grpcRoute leads to a port with TLS") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// TestWarningsHaveAnOrder: a status that changes its order with each reconcile is written each time.
func TestWarningsHaveAnOrder(t *testing.T) {
	text := inline + "  service:\n    annotations:\n"
	for _, domain := range []string{"a", "b", "c", "d", "e"} {
		text += "      " + domain + ".mlkeeper.dev/x: y\n"
	}
	_, first := gatherAndRender(t, controllertest.New(testNow), custom(t, text))
	for range 20 {
		if _, p := gatherAndRender(t, controllertest.New(testNow), custom(t, text)); !slices.Equal(p.Warnings, first.Warnings) || len(p.Warnings) != 5 {
			t.Fatalf("warnings %q, and before %q", p.Warnings, first.Warnings)
		}
	}
}

// TestASecondServiceIsNotScrapedToo: a ServiceMonitor scrapes each Service that has its labels and the port that it names.
func TestASecondServiceIsNotScrapedToo(t *testing.T) {
	_, p := gatherAndRender(t, controllertest.New(testNow, gvkServiceMonitor), custom(t, inline+"  monitoring: {}\n  service: {headless: true}\n"))
	scraped := 0
	for _, name := range []string{"tfs-service", "tfs-grpc"} {
		s := served(t, p, name)
		for _, port := range s.Spec.Ports {
			if s.Labels[selectorLabel] == "tfs" && port.Name == restPortName {
				scraped++
			}
		}
	}
	if scraped != 1 {
		t.Errorf("each pod is scraped %d times", scraped)
	}
}
