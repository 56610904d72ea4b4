package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The ways in which a command goes wrong.
const (
	unknownKind = "unknown kind"
	missing     = "missing object"
	noRights    = "no rights"
	noCluster   = "no cluster"
	badFlag     = "bad flag"
	badColor    = "bad value of a flag"
	badSetting  = "bad setting of a controller"
)

// wrong is what somebody does wrong: further arguments, and how the cluster answers.
type wrong struct {
	args []string
	// want is part of what is said.
	want string
}

// aboutOne are the ways of commands about one custom resource.
func aboutOne(further ...string) map[string]wrong {
	with := func(name string) []string { return append([]string{name}, further...) }
	return map[string]wrong{
		unknownKind: {with("nothing/x"), `the cluster serves no kind "nothing"; MLKeeper manages TrustyAIService,`},
		missing:     {with("tas/absent"), `there is no TrustyAIService "absent" in namespace "default"; ` + "`mlkeeper status -A` lists all"},
		noRights:    {with("tas/absent"), "request the right to get it"},
		noCluster:   {with("tas/absent"), "does not answer"},
	}
}

// verbs are all commands, with what they say where somebody does something wrong. What makes no sense is left out.
var verbs = map[string]map[string]wrong{
	"tree": aboutOne(), "explain": aboutOne(), "events": aboutOne(), "logs": aboutOne(), "diff": aboutOne(),
	"suspend": aboutOne(), "resume": aboutOne(), "reconcile": aboutOne("--wait"), "wait": aboutOne("--timeout", "20s"),
	"status": {
		unknownKind: {[]string{"--kind", "nothing"}, "there is no such kind; there are"},
		noRights:    {nil, "request the right to list them, or name a namespace with -n"},
		noCluster:   {nil, "does not answer"},
	},
	"check":     {noCluster: {nil, "does not answer"}},
	"console":   {noCluster: {[]string{"--no-open"}, "does not answer"}},
	"unwire":    {noRights: {nil, "forbidden"}, noCluster: {nil, "does not answer"}},
	"hand-back": {noRights: {nil, "forbidden"}, noCluster: {nil, "does not answer"}},
	"render": {
		missing:   {[]string{"-f", "absent.yaml"}, "absent.yaml"},
		noCluster: {[]string{"-f", "../../config/samples/trustyai-service.yaml"}, "does not answer"},
	},
	"convert":     {missing: {[]string{"-f", "absent.yaml"}, "absent.yaml"}},
	"rbac":        {unknownKind: {[]string{"--controller", "nothing"}, "nothing"}},
	"install":     {unknownKind: {[]string{"--export", "--image", "a/b:c", "--controllers", "nothing"}, `--controllers "nothing"`}},
	"manager":     {},
	"participant": {},
	"monitoring":  {},
	"version":     {},
	"options":     {},
}

// statusOf is the exit status of a command that fails: one for all but diff, as with kubectl.
func statusOf(verb string) int {
	if verb == "diff" {
		return 2
	}
	return 1
}

func TestEveryVerbSaysWhatIsWrong(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	refusing := httptest.NewServer(http.HandlerFunc(refuse))
	defer refusing.Close()
	reached := map[string]string{noRights: refusing.URL, noCluster: "http://127.0.0.1:1"}
	for _, cmd := range newRootCommand().Commands() {
		name := cmd.Name()
		ways, known := verbs[name]
		if !known {
			t.Errorf("the table has no command %s", name)
			continue
		}
		all := map[string]wrong{badFlag: {[]string{"--nonsense"}, "unknown flag: --nonsense"}, badColor: {[]string{"--color", "sometimes"}, "use auto, always or never"}}
		if cmd.Flags().Lookup("source-deny-cidr") != nil && cmd.Name() != "manager" && cmd.Name() != "participant" {
			all[badSetting] = wrong{append(slices.Clone(ways[noCluster].args), "--source-deny-cidr", "everywhere"), "write a range such as"}
		}
		for way, one := range ways {
			all[way] = one
		}
		for way, one := range all {
			address := reached[way]
			if address == "" {
				address = server.URL
			}
			args := append([]string{name}, one.args...)
			if way != badFlag && way != badColor {
				args = append(args, "--kubeconfig", kubeconfigOf(t, address))
			}
			stdout, stderr, err := execute(t, args...)
			var said bytes.Buffer
			status := report(&said, err)
			if status != statusOf(name) || !strings.Contains(said.String(), one.want) {
				t.Errorf("%s, %s: exit status %d, want %d and %q:\n%s%s", name, way, status, statusOf(name), one.want, said.String(), stderr)
			}
			// unwire goes on where it can, and says what it did.
			if stdout != "" && name != "unwire" {
				t.Errorf("%s, %s: prints on standard output:\n%s", name, way, stdout)
			}
			if lines := strings.Count(said.String(), "\n"); lines > 8 {
				t.Errorf("%s, %s: says %d lines:\n%s", name, way, lines, said.String())
			}
		}
	}
}

func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "`+server+`"}}],
contexts: [{name: c, context: {cluster: c}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// served are the resources of an API server without objects.
var served = map[string][]metav1.APIResource{
	"v1": {
		{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", Namespaced: true},
		{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true},
		{Name: "events", SingularName: "event", Kind: "Event", Namespaced: true},
	},
	"apps/v1": {{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true}},
	"trustyai.opendatahub.io/v1": {
		{Name: "trustyaiservices", SingularName: "trustyaiservice", Kind: "TrustyAIService", Namespaced: true, ShortNames: []string{"tas"}},
	},
	"keeper.mlkeeper.dev/v1alpha1": {{Name: "inventories", SingularName: "inventory", Kind: "Inventory"}},
}

// discover answers what is served, and says whether that was asked for.
func discover(w http.ResponseWriter, r *http.Request) bool {
	var out any
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
	switch r.URL.Path {
	case "/version":
		out = map[string]string{"gitVersion": "v1.36.2", "major": "1", "minor": "36"}
	case "/api":
		out = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for gv := range served {
			if group, version, found := strings.Cut(gv, "/"); found {
				v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
				list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		out = list
	default:
		resources, found := served[path]
		if !found {
			return false
		}
		for i := range resources {
			resources[i].Verbs = metav1.Verbs{"get", "list", "watch", "delete"}
		}
		out = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: path, APIResources: slices.Clone(resources)}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
	return true
}

// answer is an API server that has no objects, refuse one that refuses to tell.
func answer(w http.ResponseWriter, r *http.Request) {
	if !discover(w, r) {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
	}
}

func refuse(w http.ResponseWriter, r *http.Request) {
	if !discover(w, r) {
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "it is forbidden: User \"ann\" cannot do it")
	}
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// TestTheTableOfExitStatusesHasEveryVerb keeps docs/cli.md complete.
func TestTheTableOfExitStatusesHasEveryVerb(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "\n## ")
	for _, cmd := range newRootCommand().Commands() {
		if !cmd.Hidden && !strings.Contains(table, "`"+cmd.Name()+"`") {
			t.Errorf("the table of exit statuses in docs/cli.md does not name `%s`", cmd.Name())
		}
	}
}
