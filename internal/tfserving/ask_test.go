package tfserving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// pods is a controller.Live with pods.
type pods []unstructured.Unstructured

func (p pods) Get(context.Context, string, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	return nil, errors.New("nobody reads a pod by its name")
}

func (p pods) ListAs(context.Context, string, schema.GroupVersionKind, string, int) ([]unstructured.Unstructured, error) {
	return nil, errors.New("nobody lists as a user")
}

func (p pods) List(_ context.Context, gvk schema.GroupVersionKind, _, selector string, _ int64) ([]unstructured.Unstructured, error) {
	if gvk != gvkPod || selector != "tfsName=tfs" {
		return nil, fmt.Errorf("asked for %s %s", gvk, selector)
	}
	return p, nil
}

func pod(ip string, ready, host bool) unstructured.Unstructured {
	status := "False"
	if ready {
		status = "True"
	}
	return unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"hostNetwork": host, "nodeName": "node"},
		"status": map[string]any{"podIP": ip, "hostIP": "192.168.0.1", "conditions": []any{map[string]any{"type": "Ready", "status": status}}},
	}}
}

// fleet is a client for which the host tells the server.
func fleet(servers map[string]http.HandlerFunc) *http.Client {
	client := newClient(nil)
	client.Transport = tripper(func(r *http.Request) (*http.Response, error) {
		host, _, _ := net.SplitHostPort(r.URL.Host)
		serve := servers[host]
		if serve == nil {
			return nil, errors.New("refused")
		}
		w := httptest.NewRecorder()
		serve(w, r)
		return w.Result(), nil
	})
	return client
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// says answers with versions as "number state message".
func says(versions ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var list []any
		for _, v := range versions {
			f := strings.SplitN(v, " ", 3)
			code, message := "OK", ""
			if len(f) == 3 {
				code, message = "UNKNOWN", f[2]
			}
			list = append(list, map[string]any{"version": f[0], "state": f[1], "status": map[string]any{"error_code": code, "error_message": message}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"model_version_status": list})
	}
}

func answerOf(t *testing.T, client *http.Client, live controller.Live, models ...string) *Answer {
	t.Helper()
	g := &gathering{settings: Settings{HTTP: client}, hosts: &hosts{}, read: controllertest.New(testNow), cr: custom(t, inline)}
	var asked []wanted
	for _, m := range models {
		asked = append(asked, wanted{name: m})
	}
	return g.question("models", asked)(t.Context(), live).(*Answer)
}

func TestTheServerThatIsBehindCounts(t *testing.T) {
	got := answerOf(t, fleet(map[string]http.HandlerFunc{
		"10.0.0.1": says("1 END", "2 AVAILABLE"), "10.0.0.2": says("1 AVAILABLE", "2 LOADING"),
	}), pods{pod("10.0.0.1", true, false), pod("10.0.0.2", true, false)}, "m")
	want := &Answer{Servers: 2, Answered: 2, Available: 1, Asked: 1, At: testNow, Models: []v1alpha1.ModelStatus{
		{Name: "m", Version: "1", State: "END"}, {Name: "m", Version: "2", State: "LOADING"},
	}, Loaded: map[LoadedVersion]bool{}, longest: controller.RetryPassing}
	if !reflect.DeepEqual(got, want) || got.Retry() == 0 {
		t.Errorf("%+v", got)
	}
}

// TestWhatIsNotSettledIsAskedAgainSoon: an answer that lacks something stands for no longer than a failure does.
func TestWhatIsNotSettledIsAskedAgainSoon(t *testing.T) {
	unknown := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	three := pods{pod("10.0.0.1", true, false), pod("10.0.0.2", true, false), pod("10.0.0.3", true, false)}
	for name, c := range map[string]struct {
		third   http.HandlerFunc
		settled bool
	}{
		"available":                              {says("2 AVAILABLE"), true},
		"another version has ended":              {says("1 END", "2 AVAILABLE"), true},
		"another version has failed":             {says("2 AVAILABLE", "3 END not found"), true},
		"one server does not answer":             {nil, false},
		"one server does not know the model":     {unknown, false},
		"a version begins":                       {says("2 AVAILABLE", "3 START"), false},
		"a version is being loaded":              {says("2 AVAILABLE", "3 LOADING"), false},
		"a version is being unloaded":            {says("1 UNLOADING", "2 AVAILABLE"), false},
		"a version is of no state that is known": {says("1 DANCING", "2 AVAILABLE"), false},
		"the only version has ended":             {says("2 END out of memory"), false},
	} {
		t.Run(name, func(t *testing.T) {
			servers := map[string]http.HandlerFunc{"10.0.0.1": says("2 AVAILABLE"), "10.0.0.2": says("2 AVAILABLE"), "10.0.0.3": c.third}
			if got := answerOf(t, fleet(servers), three, "m"); got.Settled != c.settled || (got.Retry() == 0) != c.settled {
				t.Errorf("settled is %t: %+v", got.Settled, got)
			}
		})
	}
	if got := answerOf(t, fleet(nil), pods{}, "m"); got.Settled {
		t.Error("settled without a server")
	}
}

// listed counts how often pods are listed.
type listed struct {
	pods
	times int
}

func (l *listed) List(ctx context.Context, gvk schema.GroupVersionKind, namespace, selector string, limit int64) ([]unstructured.Unstructured, error) {
	l.times++
	return l.pods.List(ctx, gvk, namespace, selector, limit)
}

// TestTheSamePodsAreListedOnce: neither in the steady state nor while servers fail for long is anything read from the API server.
func TestTheSamePodsAreListedOnce(t *testing.T) {
	servers := map[string]http.HandlerFunc{"10.0.0.1": says("1 AVAILABLE")}
	s := &system{settings: Settings{HTTP: fleet(servers)}.complete()}
	c, cr, live := controllertest.New(testNow), custom(t, inline), &listed{pods: pods{pod("10.0.0.1", true, false)}}
	_, p := gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, true)
	ask := func() *Answer {
		t.Helper()
		c.Asked = nil
		if _, err := s.Gather(t.Context(), c, cr); err != nil {
			t.Fatal(err)
		}
		if len(c.Asked) != 1 {
			t.Fatalf("%d questions", len(c.Asked))
		}
		return c.Asked[0].Job(t.Context(), live).(*Answer)
	}
	lists := func(want int, when string) {
		t.Helper()
		if live.times != want {
			t.Errorf("%s the pods have been listed %d times, not %d", when, live.times, want)
		}
	}
	for range 3 {
		if got := ask(); !got.Settled {
			t.Fatalf("%+v", got)
		}
	}
	lists(1, "while the answers are settled")
	servers["10.0.0.1"] = says("2 LOADING")
	for range 3 {
		ask()
	}
	lists(1, "while a model is being loaded by the same pods")
	delete(servers, "10.0.0.1")
	for range 3 {
		ask()
	}
	lists(1, "while the same pods do not answer")
	servers["10.0.0.1"] = says("2 AVAILABLE")
	// The pods of a Deployment that was rolled out meanwhile are others, though all is as before in the end.
	rolledOut(t, c, cr, p, false)
	if _, err := s.Gather(t.Context(), c, cr); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, c, cr, p, true)
	ask()
	lists(2, "for other pods")
	s.Forget(types.NamespacedName{Namespace: cr.Namespace, Name: cr.Name})
	ask()
	lists(3, "for a custom resource that was made anew")
}

// TestAVersionThatNotEveryServerHasFoundIsNotAvailable: each looks for versions by itself, as at a bucket that one of them cannot list any more.
func TestAVersionThatNotEveryServerHasFoundIsNotAvailable(t *testing.T) {
	silent := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	for name, c := range map[string]struct {
		first, second http.HandlerFunc
		rolling       bool
		want          []string
		settled       bool
	}{
		"one has not looked yet":       {says("6 END", "7 AVAILABLE"), says("6 AVAILABLE"), false, []string{"6 END", "7 UNKNOWN"}, false},
		"both have it":                 {says("6 END", "7 AVAILABLE"), says("7 AVAILABLE"), false, []string{"6 END", "7 AVAILABLE"}, true},
		"one is loading it":            {says("7 AVAILABLE"), says("6 AVAILABLE", "7 LOADING"), false, []string{"6 UNKNOWN", "7 LOADING"}, false},
		"pods are replaced":            {says("7 AVAILABLE"), says("6 AVAILABLE"), true, []string{"6 AVAILABLE", "7 AVAILABLE"}, true},
		"one does not know the model":  {says("7 AVAILABLE"), silent, false, []string{" UNKNOWN", "7 AVAILABLE"}, false},
		"one does not answer":          {says("7 AVAILABLE"), nil, false, []string{"7 AVAILABLE"}, false},
		"one tells of a version ended": {says("5 END", "7 AVAILABLE"), says("7 AVAILABLE"), false, []string{"5 END", "7 AVAILABLE"}, true},
	} {
		s := &system{settings: Settings{HTTP: fleet(map[string]http.HandlerFunc{"10.0.0.1": c.first, "10.0.0.2": c.second})}.complete()}
		cluster, cr := controllertest.New(testNow), custom(t, inline+"  replicas: 2\n")
		_, p := gatherAndRender(t, cluster, cr)
		rolledOut(t, cluster, cr, p, !c.rolling)
		cluster.Asked = nil
		if _, err := s.Gather(t.Context(), cluster, cr); err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(cluster.Asked, func(a controllertest.Asked) bool { return strings.HasPrefix(a.Name, "models") })
		got := cluster.Asked[at].Job(t.Context(), pods{pod("10.0.0.1", true, false), pod("10.0.0.2", true, false)}).(*Answer)
		var told []string
		for _, m := range got.Models {
			told = append(told, m.Version+" "+m.State)
		}
		if !slices.Equal(told, c.want) || got.Settled != c.settled || (got.Retry() == 0) != c.settled {
			t.Errorf("%s: %q, settled %t", name, told, got.Settled)
		}
	}
}

// TestAVersionThatNoServerKnowsIsTold: TensorFlow Serving only logs that a listed version is not there.
func TestAVersionThatNoServerKnowsIsTold(t *testing.T) {
	g := &gathering{
		settings: Settings{HTTP: fleet(map[string]http.HandlerFunc{"10.0.0.1": says("41 AVAILABLE", "42 AVAILABLE"), "10.0.0.2": says("41 AVAILABLE")})},
		hosts:    &hosts{}, read: controllertest.New(testNow), cr: custom(t, inline),
	}
	both := pods{pod("10.0.0.1", true, false), pod("10.0.0.2", true, false)}
	got := g.question("models", []wanted{{"m", []int64{41, 42}, []int64{41, 42}, nil}})(t.Context(), both).(*Answer)
	if len(got.Models) != 2 || got.Models[1].Version != "42" || got.Models[1].State != stateUnknown || got.Models[1].Error == "" || got.Settled || got.Available != 1 {
		t.Errorf("%+v", got)
	}
	if want := map[LoadedVersion]bool{{"m", 41}: true}; !reflect.DeepEqual(got.Loaded, want) {
		t.Errorf("loaded %v, not %v", got.Loaded, want)
	}
	g.hosts = &hosts{}
	lost := append(slices.Clone(both), pod("10.0.0.3", true, false))
	if got := g.question("models", []wanted{{name: "m", labelled: []int64{41}}})(t.Context(), lost).(*Answer); len(got.Loaded) > 0 {
		t.Errorf("a server does not answer, and %v is loaded everywhere", got.Loaded)
	}
}

func TestHowOftenServersAreAsked(t *testing.T) {
	c := controllertest.New(testNow)
	every := func(cr *v1alpha1.Tfserv) time.Duration {
		t.Helper()
		_, p := gatherAndRender(t, c, cr)
		rolledOut(t, c, cr, p, true)
		c.Asked = nil
		gatherAndRender(t, c, cr)
		if len(c.Asked) != 1 {
			t.Fatalf("asked %+v", c.Asked)
		}
		return c.Asked[0].Every
	}
	if got := every(custom(t, inline+"  modelStatusSeconds: 15\n")); got != 15*time.Second {
		t.Errorf("every %s", got)
	}
	failing := c.Asked[0].Job(t.Context(), pods{}).(*Answer)
	if got := failing.Retry(); got != 15*time.Second {
		t.Errorf("while a model is missing the pauses grow to %s", got)
	}
	// Servers find new versions by themselves wherever they read models from.
	read := strings.Replace(inline, "gs://", "s3://", 1) + "  s3: {imageReadsS3: true}\n  image: mine\n"
	for _, spec := range []string{inline, read} {
		if got := every(custom(t, spec)); got != DefaultModelsEvery {
			t.Errorf("every %s of %s", got, spec)
		}
	}
	often := &system{settings: Settings{ModelsEvery: 20 * time.Second}.complete()}
	c.Asked = nil
	if _, err := often.Gather(t.Context(), c, custom(t, inline)); err != nil {
		t.Fatal(err)
	}
	if got := c.Asked[0].Job(t.Context(), pods{}).(*Answer).Retry(); c.Asked[0].Every != 20*time.Second || got != 20*time.Second {
		t.Errorf("with --tfserving-models-every=20s every %s, and while a model is missing every %s", c.Asked[0].Every, got)
	}
	downloaded := strings.Replace(inline, "gs://", "s3://", 1) + "  s3: {downloader: {image: dl}}\n"
	if got := every(custom(t, downloaded)); got != controller.Once {
		t.Errorf("models that cannot change are asked for every %s", got)
	}
}

// TestAConfigOfManyModels is asked for within bounds.
func TestAConfigOfManyModels(t *testing.T) {
	c, text := controllertest.New(testNow), "model_config_list {"
	for i := range 10000 {
		text += fmt.Sprintf(` config { name: "m%d" base_path: "/m" model_platform: "tensorflow" }`, i)
	}
	u := controllertest.Parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: many, namespace: ns}}")
	u.Object["data"] = map[string]any{"models.conf": text + "}"}
	c.Put(u)
	cr := custom(t, "metadata: {name: tfs}\nspec: {configMap: many}\n")
	_, p := gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, true)
	c.Asked = nil
	_, p = gatherAndRender(t, c, cr)
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "the first 200 of 10000 models") {
		t.Errorf("warnings %q", p.Warnings)
	}
	s := &system{settings: Settings{HTTP: fleet(map[string]http.HandlerFunc{"10.0.0.1": says("1 AVAILABLE")})}.complete()}
	c.Asked = nil
	if _, err := s.Gather(t.Context(), c, cr); err != nil {
		t.Fatal(err)
	}
	got := c.Asked[0].Job(t.Context(), pods{pod("10.0.0.1", true, false), pod("10.0.0.2", true, false)}).(*Answer)
	if got.Asked != maxQuestions || got.Servers != 1 || got.Available != maxQuestions {
		t.Errorf("%d servers were asked for %d models", got.Servers, got.Asked)
	}
}

func TestAModelIsAvailableWhenEveryServerHasIt(t *testing.T) {
	got := answerOf(t, fleet(map[string]http.HandlerFunc{
		"10.0.0.1": says("1 AVAILABLE"), "10.0.0.2": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
	}), pods{pod("10.0.0.1", true, false), pod("10.0.0.2", true, false)}, "m")
	if got.Available != 0 || got.Answered != 2 || !slices.ContainsFunc(got.Models, func(m v1alpha1.ModelStatus) bool {
		return m.State == stateUnknown && strings.Contains(m.Error, "does not know")
	}) {
		t.Errorf("%+v", got)
	}
}

func TestOnlyReadyPodsWithANetworkOfTheirOwnAreAsked(t *testing.T) {
	got := answerOf(t, fleet(map[string]http.HandlerFunc{
		"10.0.0.1": says("1 AVAILABLE"), "10.0.0.2": says("1 AVAILABLE"), "10.0.0.3": says("1 AVAILABLE"),
	}), pods{pod("10.0.0.1", true, false), pod("10.0.0.2", false, false), pod("10.0.0.3", true, true), pod("", true, false)}, "m")
	if got.Servers != 1 || got.Available != 1 {
		t.Errorf("%+v", got)
	}
}

func TestNobodyAnswers(t *testing.T) {
	got := answerOf(t, fleet(nil), pods{pod("10.0.0.1", true, false)}, "m")
	want := &Answer{Servers: 1, Asked: 1, At: testNow, Loaded: map[LoadedVersion]bool{}, longest: controller.RetryPassing}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestAPanicOverAnAnswerEndsNothingElse: the server is a tenant's, and the manager is everybody's.
func TestAPanicOverAnAnswerEndsNothingElse(t *testing.T) {
	client := fleet(map[string]http.HandlerFunc{"10.0.0.1": says("1 AVAILABLE"), "10.0.0.2": says("1 AVAILABLE")})
	answers := client.Transport
	client.Transport = tripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "10.0.0.2:8501" && strings.HasSuffix(r.URL.Path, "/m") {
			panic("over an answer")
		}
		return answers.RoundTrip(r)
	})
	two := pods{pod("10.0.0.1", true, false), pod("10.0.0.2", true, false)}
	got := answerOf(t, client, two, "m")
	if got.Servers != 2 || got.Answered != 1 || got.Settled || len(got.Loaded) > 0 {
		t.Errorf("a question that panicked counts as answered: %+v", got)
	}
	got = answerOf(t, client, two, "m", "other")
	if got.Answered != 2 || got.Available != 1 || got.Models[0].State != stateUnknown || got.Models[0].Error != noAnswer {
		t.Errorf("of two questions one panicked: %+v", got)
	}
}

func TestHostileAnswersAreBounded(t *testing.T) {
	long := strings.Repeat("x", 2*maxAnswer)
	for name, serve := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, long) },
		"no json": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"version": says("../../x AVAILABLE"),
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := answerOf(t, fleet(map[string]http.HandlerFunc{"10.0.0.1": serve}), pods{pod("10.0.0.1", true, false)}, "m")
			if got.Answered != 1 || got.Available != 0 || len(got.Models) != 1 || got.Models[0].State != stateUnknown || got.Models[0].Error == "" {
				t.Errorf("%+v", got)
			}
		})
	}
	got := answerOf(t, fleet(map[string]http.HandlerFunc{"10.0.0.1": says("1 DANCING " + strings.Repeat("e\x00", 4000))}), pods{pod("10.0.0.1", true, false)}, "m")
	if m := got.Models[0]; m.State != stateUnknown || len(m.Error) > maxError || strings.ContainsRune(m.Error, 0) {
		t.Errorf("%+v", m)
	}
	many := make([]string, 500)
	for i := range many {
		many[i] = strconv.Itoa(i) + " AVAILABLE"
	}
	got = answerOf(t, fleet(map[string]http.HandlerFunc{"10.0.0.1": says(many...)}), pods{pod("10.0.0.1", true, false)}, "m")
	if len(got.Models) != maxModelVersions {
		t.Errorf("%d versions", len(got.Models))
	}
}

// TestARealServer asks over a real connection, by the client that the operator has.
func TestARealServer(t *testing.T) {
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		says("7 AVAILABLE")(w, r)
	}))
	defer server.Close()
	host, port := listensAt(t, server)
	got := queryModel(t.Context(), newClient(nil), host, port, wanted{name: "a/b c:d"})
	if !got.answered || len(got.versions) != 1 || got.versions[0].state != stateAvailable || path != "/v1/models/a%2Fb%20c%3Ad" {
		t.Errorf("%+v by %s", got, path)
	}
}

// listensAt is the address of a server.
func listensAt(t *testing.T, server *httptest.Server) (host string, port int32) {
	t.Helper()
	at, err := netip.ParseAddrPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return at.Addr().String(), int32(at.Port())
}

func TestWhenTheServersAreAsked(t *testing.T) {
	c, cr := controllertest.New(testNow), custom(t, inline)
	asked := func() string {
		c.Asked = nil
		gatherAndRender(t, c, cr)
		var out []string
		for _, a := range c.Asked {
			out = append(out, a.Name+" "+a.Every.String())
		}
		return strings.Join(out, ",")
	}
	if got := asked(); got != "" {
		t.Errorf("nobody is there, and asked is %q", got)
	}
	_, p := gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, false)
	if got := asked(); got != "pods of generation 1 1m0s" {
		t.Errorf("nobody is ready, and asked is %q", got)
	}
	two := int32(2)
	cr.Spec.Replicas = &two
	_, p = gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, false)
	every := " " + DefaultModelsEvery.String()
	if got, want := asked(), "models of generation 1"+every+",pods of generation 1 1m0s"; got != want {
		t.Errorf("one of two is ready, and asked is %q, not %q", got, want)
	}
	rolledOut(t, c, cr, p, true)
	if got, want := asked(), "models of generation 1, rolled out to 2 pods"+every; got != want {
		t.Errorf("all are ready, and asked is %q, not %q", got, want)
	}
}

func FuzzDecodeStatus(f *testing.F) {
	f.Add([]byte(`{"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":""}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		versions, err := decodeStatus(body)
		if err != nil {
			return
		}
		if len(versions) > maxModelVersions {
			t.Fatalf("%d versions", len(versions))
		}
		for _, v := range versions {
			if rank(v.state) == 0 && v.state != stateUnknown || len(v.message) > maxError || len(v.number) > 32 {
				t.Fatalf("%+v", v)
			}
		}
	})
}
