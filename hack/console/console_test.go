//go:build realbrowser

package console

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	root = "../.."
	// patience is how long a test waits for what takes a second on an idle machine.
	patience  = time.Minute
	namespace = "model-namespace"
)

// browser is the page of the demo in a Chromium.
type browser struct {
	t          *testing.T
	ctx        context.Context
	kubeconfig string
}

// start runs the demo, and opens the page at the address that it prints.
func start(t *testing.T) *browser {
	t.Helper()
	b := &browser{t: t}
	var address string
	b.kubeconfig, address = demo(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1400, 900))
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	chromedp.ListenTarget(b.ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page fails: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *log.EventEntryAdded:
			// What the policy of the page refuses is told here.
			if e.Entry.Level == log.LevelError {
				t.Errorf("the browser says: %s %s", e.Entry.Text, e.Entry.URL)
			}
		}
	})
	// The browser lives as long as the context that starts it.
	if err := chromedp.Run(b.ctx, log.Enable()); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(address))
	return b
}

// process starts a program that lives as long as the test, and returns the lines that it prints.
func process(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		_ = cmd.Wait()
	})
	return bufio.NewScanner(out)
}

// demo runs hack/demo.sh until it shows everything, and returns the kubeconfig of its cluster and the address of its console.
func demo(t *testing.T) (kubeconfig, address string) {
	t.Helper()
	cmd := exec.Command("bash", "hack/demo.sh")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "DEMO_EXIT=0")
	for lines := process(t, cmd); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if name, found := strings.CutPrefix(line, "export KUBECONFIG="); found {
			kubeconfig = name
		}
		if kubeconfig != "" && strings.HasPrefix(line, "http://127.0.0.1:") {
			return kubeconfig, line
		}
	}
	t.Fatal("the demo ended early")
	return "", ""
}

func (b *browser) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.FromSlash(program), args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "KUBECONFIG="+b.kubeconfig, "KUBECACHEDIR="+filepath.Join(filepath.Dir(b.kubeconfig), "cache"))
	return cmd
}

func (b *browser) kubectl(args ...string) string {
	b.t.Helper()
	out, err := b.command("bin/devcluster", append([]string{"kubectl", "--kubeconfig", b.kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// text is the text of what the page has.
func (b *browser) text() string {
	b.t.Helper()
	var out string
	b.do(chromedp.Evaluate("document.body.innerText", &out))
	return out
}

// see waits until the page has some texts, and says what it has in place of them.
func (b *browser) see(wanted ...string) {
	b.t.Helper()
	b.until(func(text string) bool {
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	}, fmt.Sprintf("the page has not all of %q", wanted))
}

func (b *browser) until(fits func(text string) bool, failure string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text := b.text()
		if fits(text) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s:\n%s", failure, text)
		}
	}
}

// open chooses the row that has a text.
func (b *browser) open(text string) {
	b.t.Helper()
	var found bool
	b.do(chromedp.Evaluate(fmt.Sprintf(`(() => { const row = [...document.querySelectorAll(".row")].find((r) => r.textContent.includes(%q));
		row?.click(); return Boolean(row); })()`, text), &found))
	if !found {
		b.t.Fatalf("no row has %q:\n%s", text, b.text())
	}
}

// picture takes a screenshot where SCREENSHOTS names a folder.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	var content []byte
	b.do(chromedp.Sleep(500*time.Millisecond), chromedp.CaptureScreenshot(&content))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), content, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func TestConsole(t *testing.T) {
	b := start(t)
	t.Run("Overview", func(t *testing.T) { b.t = t; b.overview() })
	t.Run("Repair", func(t *testing.T) { b.t = t; b.repair() })
	t.Run("Drawing", func(t *testing.T) { b.t = t; b.drawing() })
	t.Run("Cut", func(t *testing.T) { b.t = t; b.cut() })
	t.Run("Changes", func(t *testing.T) { b.t = t; b.changes() })
	t.Run("Timeline", func(t *testing.T) { b.t = t; b.timeline() })
	t.Run("Progress", func(t *testing.T) { b.t = t; b.progress() })
	t.Run("Namespace", func(t *testing.T) { b.t = t; b.reading() })
	t.Run("Failure", func(t *testing.T) { b.t = t; b.failure() })
	t.Run("Keyboard", func(t *testing.T) { b.t = t; b.keyboard() })
	t.Run("Time", func(t *testing.T) { b.t = t; b.time() })
	t.Run("Accessibility", func(t *testing.T) { b.t = t; b.accessibility(); b.pages() })
	t.Run("ManyCustomResources", func(t *testing.T) { b.t = t; b.many() })
}

// overview has all five kinds.
func (b *browser) overview() {
	b.see("5 custom resources", "TrustyAIService", "Tfserv", "KfDef", "SeldonOperator", "CompositionElement")
	b.picture("console-overview")
}

// repair deletes a Deployment while the custom resource is suspended, and lets it be corrected: both are seen without a reload.
func (b *browser) repair() {
	b.open("trustyai-service-example")
	b.see("Deployment/trustyai-service", "5 of 5 ready")
	b.picture("console-stack")
	b.do(chromedp.Evaluate(`window.unchanged = true; window.confirm = () => true`, nil))
	b.press("Suspend")
	b.offer("Resume")
	b.kubectl("-n", namespace, "delete", "deployment", "trustyai-service")
	b.see("Missing", "4 of 5 ready")
	b.press("Resume")
	b.see("5 of 5 ready")
	b.offer("Suspend")
	var same bool
	if b.do(chromedp.Evaluate("window.unchanged === true", &same)); !same {
		b.t.Error("the page was loaded anew")
	}
	b.open("Deployment/trustyai-service")
	b.see("Written by", "mlkeeper", "apiVersion: apps/v1", "Conditions")
	b.do(chromedp.KeyEvent(kb.Escape))
}

// press presses the button that has a text, once the page has it.
func (b *browser) press(text string) {
	b.t.Helper()
	b.button(text, "button.click()")
}

// offer waits for the button that has a text: the message "Resume: done" of an earlier press has the text too.
func (b *browser) offer(text string) {
	b.t.Helper()
	b.button(text, "")
}

// button runs a statement for the button that has a text, once the page has it.
func (b *browser) button(text, statement string) {
	b.t.Helper()
	b.until(func(string) bool {
		var found bool
		b.do(chromedp.Evaluate(fmt.Sprintf(`(() => { const button = [...document.querySelectorAll("button")].find((e) => e.textContent === %q);
			if (button) { %s } return Boolean(button); })()`, text, statement), &found))
		return found
	}, fmt.Sprintf("there is no button %q", text))
}

// failure shows a remedy.
func (b *browser) failure() {
	b.kubectl("-n", namespace, "patch", "tfserv", "tfserv-sample", "--type=merge", "-p", `{"spec":{"configMap":"absent","modelConfig":null}}`)
	b.do(chromedp.Evaluate(`location.hash = "#/"`, nil))
	b.see("tfserv-sample", "absent")
	b.open("tfserv-sample")
	b.see("The ConfigMap with the model config does not exist", "Create it, or name the existing one in spec.configMap.")
	b.picture("console-failure")
}

// keyboard filters and moves without a mouse.
func (b *browser) keyboard() {
	b.do(chromedp.Evaluate(`location.hash = "#/"`, nil))
	b.see("5 custom resources")
	var focused string
	b.do(chromedp.KeyEvent("/"), chromedp.Evaluate("document.activeElement.id", &focused))
	if focused != "filter" {
		b.t.Errorf("/ leads to %q", focused)
	}
	// The protocol of the browser inserts the character all the same.
	b.do(chromedp.Evaluate(`document.getElementById("filter").value = ""`, nil), chromedp.KeyEvent("kubeflow"))
	b.see("1 of 5 custom resources")
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.Focus(".list"), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	b.see("of 8 objects", "small-kubeflow")
	b.do(chromedp.Evaluate(`document.querySelector(".skip").click()`, nil), chromedp.Evaluate("document.activeElement.id", &focused))
	if focused != "main" {
		b.t.Errorf("the link to the content leads to %q", focused)
	}
	b.see("of 8 objects", "small-kubeflow")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.see("5 custom resources")
}

// time has the ages of the rows grow, and a connection noticed that says nothing any more.
func (b *browser) time() {
	b.do(chromedp.Evaluate(`location.hash = "#/"`, nil))
	b.see("5 custom resources")
	b.do(chromedp.Evaluate(`{ const now = Date.now; Date.now = () => now() + 50 * 3600e3; const { fetch, setTimeout } = window; window.mend = () => Object.assign(window, { fetch, setTimeout });
		document.getElementById("filter").dispatchEvent(new Event("input")); }`, nil))
	b.see("2d")
	b.do(chromedp.Evaluate(`window.fetch = async () => new Response(new ReadableStream({}));
		{ const later = window.setTimeout; window.setTimeout = (f, time) => later(f, Math.min(time, 200)); }
		location.hash = "#/stack/a/b/c/d"`, nil))
	b.see("the console says nothing any more")
	b.do(chromedp.Evaluate(`window.mend(); location.hash = "#/"`, nil))
	b.see("5 custom resources")
}

// accessibility looks for what a screen reader needs: names of controls, one main, headings, rows with a role.
func (b *browser) accessibility() {
	var problems []string
	b.do(chromedp.Evaluate(`(() => {
		const out = [];
		if (document.documentElement.lang === "") out.push("no language");
		for (const role of ["main", "header", "h1"]) if (document.querySelectorAll(role).length !== 1) out.push("not one " + role);
		for (const c of document.querySelectorAll("input, select, button")) if (!c.labels?.length && !c.textContent && !c.ariaLabel) out.push("no name: " + c.outerHTML);
		for (const r of document.querySelectorAll(".row")) if (r.getAttribute("role") !== "row" || !r.getAttribute("aria-rowindex")) out.push("a row without its place");
		for (const s of document.querySelectorAll(".state")) if (!s.textContent.trim()) out.push("a state without a word");
		if (!document.querySelector(".list").getAttribute("aria-label")) out.push("the list has no name");
		if (!document.querySelector("[aria-live]")) out.push("changes are not told");
		return out;
	})()`, &problems))
	if len(problems) > 0 {
		b.t.Errorf("%v", problems)
	}
}
