//go:build realbrowser

package console

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// drawing draws the TrustyAIService with a pod and the claim that its Deployment waits for, moves it, and opens an object of it.
func (b *browser) drawing() {
	b.see("Pod/trustyai-service-", "1/1 containers ready")
	b.press("Drawing")
	var nodes, waits int
	b.do(chromedp.WaitVisible(".drawing svg"), chromedp.Evaluate(`document.querySelectorAll(".node").length`, &nodes), chromedp.Evaluate(`document.querySelectorAll(".waits").length`, &waits))
	if nodes < 8 || waits == 0 {
		b.t.Errorf("%d nodes are drawn, and %d lines of what waits:\n%s", nodes, waits, b.text())
	}
	b.picture("console-drawing")
	var before, after string
	b.do(chromedp.Evaluate(`document.querySelector(".drawing svg").getAttribute("viewBox")`, &before), chromedp.Focus(".drawing svg"),
		chromedp.KeyEvent("+"), chromedp.KeyEvent(kb.ArrowRight), chromedp.Evaluate(`document.querySelector(".drawing svg").getAttribute("viewBox")`, &after))
	if before == after {
		b.t.Errorf("the drawing does not move: %s", before)
	}
	b.do(chromedp.Evaluate(`[...document.querySelectorAll(".node")].find((n) => n.textContent.includes("Deployment/")).dispatchEvent(new MouseEvent("click", { bubbles: true }))`, nil))
	b.see("Written by", "apiVersion: apps/v1")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.press("Drawing")
	b.see("of 5 objects")
}

// cut has more objects and pods than are drawn, and reads what the drawing says of the others.
func (b *browser) cut() {
	const items = `const stage = { key: "stage/0", parent: "stack", stage: true };
		const objects = (n, health) => [...Array(n).keys()].map((i) => ({ key: "object/" + i, parent: stage.key, kind: "Deployment", health }));
		const pods = (n, bad) => [...Array(n).keys()].map((i) => ({ key: "pod/" + i, parent: "object/" + i, kind: "Pod", health: i < bad ? "Failed" : "Current" }));`
	for text, want := range map[string]string{
		`[stage, ...objects(100, "Current")]`:                    "101: ",
		`[stage, ...objects(500, "Current")]`:                    "1: 500 healthy objects and pods are not drawn; the list has all.",
		`[stage, ...objects(1000, "Failed")]`:                    "800: 201 objects and pods are not drawn, of which 201 are not healthy; the list has all.",
		`[...pods(500, 3), ...objects(500, "Current"), stage]`:   "7: 994 healthy objects and pods are not drawn; the list has all.",
		`[...pods(900, 900), ...objects(900, "Current"), stage]`: "800: 1001 objects and pods are not drawn, of which 900 are not healthy; the list has all.",
	} {
		var got string
		await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
		b.do(chromedp.Evaluate(`import("/drawing.js").then((d) => { `+items+` const all = `+text+`; const drawn = d.selected(all); return drawn.length + ": " + d.leftOut(all, drawn); })`, &got, await))
		if got != want {
			b.t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
}

// reading shows one namespace alone, which the address keeps, and then all again.
func (b *browser) reading() {
	enter := func(name string) {
		b.do(chromedp.Evaluate(fmt.Sprintf(`(() => { const field = document.getElementById("read"); field.value = %q; field.dispatchEvent(new Event("change")); })()`, name), nil))
	}
	b.do(chromedp.Evaluate(`location.hash = "#/"`, nil))
	b.see("5 custom resources")
	enter("empty")
	// A CompositionElement is in no namespace.
	b.see("1 custom resources", "CompositionElement")
	var address string
	if b.do(chromedp.Evaluate(`location.hash`, &address)); address != "#/namespace/empty" {
		b.t.Errorf("the address is %s", address)
	}
	enter("")
	b.see("5 custom resources")
}

// changes compares without and with dry runs; a field that somebody else changed while MLKeeper is suspended would be changed back.
func (b *browser) changes() {
	b.press("Suspend")
	b.offer("Resume")
	b.kubectl("-n", namespace, "label", "service", "trustyai-service", "app.kubernetes.io/part-of=somebody-else", "--overwrite")
	b.press("What would change")
	b.see("What MLKeeper would change", "1 changed", "(compared here)", "somebody-else")
	b.picture("console-diff")
	b.press("Try with dry runs")
	b.see("(tried by the API server)", "somebody-else")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.press("Resume")
	b.see("5 of 5 ready")
	b.offer("Suspend")
}

// timeline has what happened before, and what happens now.
func (b *browser) timeline() {
	b.press("Timeline")
	b.see("Timeline", "Created", "Condition", "Deployment/trustyai-service")
	path := filepath.Join(b.t.TempDir(), "event.yaml")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Event, metadata: {name: seen, namespace: `+namespace+`}, type: Warning, reason: SeenInTheTimeline, message: m,
involvedObject: {apiVersion: v1, kind: Service, namespace: `+namespace+`, name: trustyai-service}, lastTimestamp: "`+time.Now().UTC().Format(time.RFC3339)+`"}`), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.kubectl("create", "-f", path)
	b.see("Event SeenInTheTimeline Service/trustyai-service")
	b.do(chromedp.KeyEvent(kb.Escape))
}

// progress has a bar for each application of the KfDef.
func (b *browser) progress() {
	b.do(chromedp.Evaluate(`location.hash = "#/"`, nil))
	b.see("5 custom resources", "4/4")
	b.open("small-kubeflow")
	b.see("of 8 objects", "Ready, ")
	var bars, full int
	b.do(chromedp.Evaluate(`document.querySelectorAll("progress").length`, &bars), chromedp.Evaluate(`[...document.querySelectorAll("progress")].filter((p) => p.value === p.max).length`, &full))
	if bars != 4 || full != 4 {
		b.t.Errorf("%d bars, %d of them full:\n%s", bars, full, b.text())
	}
}

// violation is what axe-core finds fault with.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// axe has axe-core check what is shown, in both themes.
func (b *browser) axe(what string) {
	b.t.Helper()
	path := os.Getenv("AXE")
	if path == "" {
		return
	}
	script, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, theme := range []string{"light", "dark"} {
		var text string
		await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
		// The colours of rows change over a moment.
		b.do(chromedp.Evaluate(fmt.Sprintf(`document.documentElement.dataset.theme = %q`, theme), nil), chromedp.Sleep(500*time.Millisecond), chromedp.Evaluate(string(script)+"; true", nil),
			chromedp.Evaluate(`axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"] }).then((r) =>
				JSON.stringify(r.violations.map((v) => ({ id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map((n) => ({ html: n.html })) }))))`, &text, await))
		var found []violation
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			b.t.Fatalf("%v: %s", err, text)
		}
		for _, v := range found {
			if v.Impact == "serious" || v.Impact == "critical" {
				b.t.Errorf("%s, %s: %s (%s, %s): %.300s", what, theme, v.Help, v.ID, v.Impact, v.Nodes[0].HTML)
			} else {
				b.t.Logf("%s, %s: %s (%s, %s)", what, theme, v.Help, v.ID, v.Impact)
			}
		}
	}
	b.do(chromedp.Evaluate(`delete document.documentElement.dataset.theme`, nil))
}

// pages shows what there is to the checks of axe-core.
func (b *browser) pages() {
	if os.Getenv("AXE") == "" {
		b.t.Log("axe-core: NOT RUN")
		return
	}
	b.axe("the overview")
	b.open("trustyai-service-example")
	b.see("Deployment/trustyai-service")
	b.axe("a stack")
	b.press("Drawing")
	b.do(chromedp.WaitVisible(".drawing svg"))
	b.axe("a drawing")
	b.press("Timeline")
	b.see("Created")
	b.axe("a timeline")
	b.press("What would change")
	b.see("(compared here)")
	b.axe("a comparison")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.press("Drawing")
	b.open("Deployment/trustyai-service")
	b.see("Written by")
	b.axe("an object")
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.Evaluate(`location.hash = "#/"`, nil))
	b.see("custom resources")
}

// many measures the overview with thousands of custom resources: how long it takes to the first rows and to all of them, and until a change
// is seen. It prints the figures, which depend on the machine, and checks what does not: that the page has few nodes.
func (b *browser) many() {
	stacks := 2000
	if text := os.Getenv("STACKS"); text != "" {
		var err error
		if stacks, err = strconv.Atoi(text); err != nil {
			b.t.Fatalf("STACKS: %v", err)
		}
	}
	b.kubectl("create", "namespace", "many")
	var out strings.Builder
	for i := range stacks {
		// Suspended, so that nothing but their conditions is written.
		fmt.Fprintf(&out, `---
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: many-%04d, namespace: many, annotations: {keeper.mlkeeper.dev/suspend: "true"}}
spec: {grpcPort: 9000, restPort: 8500, replicas: 1, configMap: c, configFileName: f, configFileLocation: /var/config/, secretFileName: s, secretFileLocation: /secret/}
`, i)
	}
	path := filepath.Join(b.t.TempDir(), "many.yaml")
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.kubectl("create", "-f", path)
	b.do(chromedp.Evaluate(`location.hash = "#/"`, nil))
	b.see(fmt.Sprintf("%d custom resources", stacks+5))
	b.settled()
	var figures struct {
		First, All float64
		Nodes      int
	}
	b.do(chromedp.Reload())
	b.see(fmt.Sprintf("%d custom resources", stacks+5))
	b.do(chromedp.Evaluate(`({ first: performance.getEntriesByName("first-rows")[0]?.startTime ?? -1, all: performance.now(), nodes: document.querySelectorAll("*").length })`, &figures))
	begun := time.Now()
	b.kubectl("-n", "many", "delete", "tfserv", "many-0000", "--wait=false")
	deleted := time.Now()
	b.see(fmt.Sprintf("%d custom resources", stacks+4))
	b.t.Logf("%d custom resources: the first rows after %.0f ms, all after at most %.0f ms, a deletion after at most %s, and %s from when kubectl ended; %d nodes in the page",
		stacks, figures.First, figures.All, time.Since(begun).Round(time.Millisecond), time.Since(deleted).Round(time.Millisecond), figures.Nodes)
	if figures.Nodes > 1500 {
		b.t.Errorf("the page has %d nodes: all rows are in it", figures.Nodes)
	}
	b.kubectl("delete", "namespace", "many", "--wait=false")
}

// settled waits until the rows of the page do not change for two seconds.
func (b *browser) settled() {
	b.t.Helper()
	last, since := "", time.Now()
	b.until(func(text string) bool {
		if text != last {
			last, since = text, time.Now()
		}
		return time.Since(since) > 2*time.Second
	}, "the page goes on changing")
}
