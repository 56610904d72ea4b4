package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/limit"
)

// The workers of the tests do what their input says.
const kindOfTests = "test"

func init() {
	Serve(kindOfTests, func(c *Parent) error {
		var what string
		if err := c.Read(&what); err != nil {
			return err
		}
		return does[what](c)
	})
}

var does = map[string]func(*Parent) error{
	"nothing": func(*Parent) error { return nil },
	"fail":    func(*Parent) error { return errors.New("secret") },
	"spin": func(*Parent) error {
		for i := 0; ; i++ {
			sink = i
		}
	},
	"sleep": func(*Parent) error { time.Sleep(time.Hour); return nil },
	"eat": func(*Parent) error {
		for {
			sink = append(sink.([]byte), make([]byte, 1<<20)...)
		}
	},
	"recurse": func(c *Parent) error { return recurse(c, [1024]byte{}) },
	"talk": func(c *Parent) error {
		for {
			if _, err := Call[bool](c, "text", strings.Repeat("x", 1<<20)); err != nil {
				return err
			}
		}
	},
	"speak": func(*Parent) error {
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20))
		return nil
	},
	"steps": func(c *Parent) error {
		for range 6 {
			for began := cpuTime(); cpuTime()-began < 700*time.Millisecond; {
				sink = began
			}
			if _, err := Call[bool](c, "text", "another"); err != nil {
				return err
			}
			if err := c.NextStep(); err != nil {
				return err
			}
		}
		return nil
	},
	"reach": reach,
	"list":  readTree,
	"wide": func(c *Parent) error {
		return c.Send("", &unstructured.Unstructured{Object: map[string]any{"x": make([]any, 2<<20)}})
	},
}

var sink any = []byte{}

func recurse(c *Parent, x [1024]byte) error {
	if sink == nil {
		return nil
	}
	sink = x
	return errors.Join(recurse(c, x), nil)
}

// reach tries to leave the process, and tells what it could.
func reach(c *Parent) error {
	var reached []string
	try := func(what string, err error) {
		if err == nil {
			reached = append(reached, what)
		}
	}
	_, err := os.Open("/etc/passwd")
	try("a file", err)
	_, err = os.ReadDir("/proc/1")
	try("a folder", err)
	_, err = net.Dial("udp", "127.0.0.1:53")
	try("a connection", err)
	_, err = net.Listen("tcp", "127.0.0.1:0")
	try("a port", err)
	_, err = net.LookupHost("localhost.example")
	try("a name", err)
	try("a program", exec.Command("/bin/true").Run())
	try("a program of the path", exec.Command("true").Run())
	try("a new file", os.WriteFile("/tmp/mlkeeper-worker", []byte("x"), 0o600))
	for fd := 3; fd < 256; fd++ {
		of, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
		if err == nil && !strings.HasPrefix(of, "anon_inode:[event") && !strings.HasPrefix(of, "/sys/fs/cgroup/") { // Go's own
			reached = append(reached, "descriptor "+of)
		}
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{kindVariable, "GOMAXPROCS", "GOTRACEBACK", "GOGC"}, name) {
			reached = append(reached, v)
		}
	}
	_, err = Call[bool](c, "text", strings.Join(reached, ", "))
	return err
}

// readTree reads all of a tree, and what is not there.
func readTree(c *Parent) error {
	tree := c.Tree("t")
	var out []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		out = append(out, fmt.Sprintf("%s %d %x", name, len(content), bytes.Count(content, []byte("y"))))
		return err
	})
	for _, name := range []string{"none", "a/none", "a/b/none", "../a", "/etc/passwd", "a/b/../b", "link"} {
		_, err := fs.Stat(tree, name)
		_, failed := fs.ReadFile(tree, name)
		out = append(out, fmt.Sprint(err != nil && failed != nil))
	}
	if err == nil {
		_, err = Call[bool](c, "text", strings.Join(out, "\n"))
	}
	return err
}

// run has a worker of the tests do something, and returns what it said.
func run(ctx context.Context, pool *Pool, what string, step, total time.Duration) (string, error) {
	var said []string
	handlers := map[string]Handler{"text": Handle(func(_ *Run, text string) (bool, error) {
		if len(said) < 10 {
			said = append(said, text)
		}
		return true, nil
	})}
	(&Objects{}).Collect(handlers)
	Trees(map[string]fs.FS{"t": fstest.MapFS{
		"a/b": {Data: []byte("xxy")}, "large": {Data: append(bytes.Repeat([]byte("x"), 3*chunk), 'y')}, "empty": {},
		"link": {Data: []byte("a/b"), Mode: fs.ModeSymlink},
	}}, handlers)
	err := pool.Run(ctx, Job{Kind: kindOfTests, Namespace: "ns", Input: what, Handlers: handlers, StepTime: step, TotalTime: total})
	return strings.Join(said, "; "), err
}

// TestAWorkerThatTakesTooMuchIsEnded tells what was rendered from what nobody can help.
func TestAWorkerThatTakesTooMuchIsEnded(t *testing.T) {
	for what, want := range map[string]string{
		"nothing": "", "speak": "",
		"spin":    "rendering it takes more than 1s of processor time",
		"eat":     "rendering it takes more than 256 MiB of memory",
		"recurse": "rendering it takes more than 256 MiB of memory",
		"talk":    "rendering it gives more than 128 MiB",
		"wide":    "what it renders takes more than 96 MiB of memory",
		"fail":    "rendering it ended too early: exit status 1",
	} {
		t.Run(what, func(t *testing.T) {
			step := 10 * time.Second
			if what == "spin" || what == "eat" {
				step = time.Second
			}
			_, err := run(t.Context(), &Pool{}, what, step, 20*time.Second)
			if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%v, not %q", err, want)
			}
			if errors.As(err, new(*LimitError)) != (want != "" && what != "fail") {
				t.Errorf("%T", err)
			}
			checkNoProcess(t)
		})
	}
}

// TestAWorkerIsUnavailable tells what nobody can help from what was rendered.
func TestAWorkerIsUnavailable(t *testing.T) {
	late, stop := context.WithTimeout(t.Context(), time.Second/2)
	defer stop()
	for what, ctx := range map[string]context.Context{"spin": late, "sleep": late, "nothing": late} {
		if what == "nothing" {
			<-ctx.Done()
		}
		if _, err := run(ctx, &Pool{}, what, time.Second, 2*time.Second); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	checkNoProcess(t)
}

// TestEachStepHasItsTime has six steps of 0.7 s, which take longer together than one may, and then longer than all may.
func TestEachStepHasItsTime(t *testing.T) {
	if said, err := run(t.Context(), &Pool{}, "steps", 2*time.Second, 60*time.Second); err != nil || strings.Count(said, "another") != 6 {
		t.Errorf("%q, %v", said, err)
	}
	said, err := run(t.Context(), &Pool{}, "steps", 2*time.Second, 2*time.Second)
	if n := strings.Count(said, "another"); n < 1 || n > 3 || !errors.As(err, new(*LimitError)) || err.Error() != "rendering it takes more than 2s of processor time" {
		t.Errorf("%q, %v", said, err)
	}
}

// TestAWorkerReachesNothing has one that tries to.
func TestAWorkerReachesNothing(t *testing.T) {
	t.Setenv("MLKEEPER_TEST_SECRET", "x")
	// A descriptor as a process inherits it, whose children do, too.
	inherited, err := syscall.Dup(int(os.Stderr.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	if reached, err := run(t.Context(), &Pool{}, "reach", 10*time.Second, 10*time.Second); err != nil || reached != "" {
		t.Errorf("it reaches %s, %v", reached, err)
	}
}

func TestAWorkerReadsTheTreesOfItsCaller(t *testing.T) {
	said, err := run(t.Context(), &Pool{}, "list", 10*time.Second, 10*time.Second)
	want := fmt.Sprintf("a/b 3 1\nempty 0 0\nlarge %d 1%s", 3*chunk+1, strings.Repeat("\ntrue", 7))
	if err != nil || said != want {
		t.Errorf("%q, %v", said, err)
	}
}

// TestAWorkerIsNobodyElse starts one that is given no job: it is no test, and no manager, either.
func TestAWorkerIsNobodyElse(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.CommandContext(t.Context(), self)
	worker.Env = []string{kindVariable + "=" + kindOfTests}
	if out, err := worker.Output(); err == nil || len(out) > 0 {
		t.Errorf("%q, %v", out, err)
	}
}

// TestNamespacesTakeTurns has a namespace whose jobs take all their time, and another that comes later.
func TestNamespacesTakeTurns(t *testing.T) {
	pool := &Pool{Memory: limit.New(Share, Share)}
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	start := func(namespace, what string) {
		all.Go(func() {
			_ = pool.Run(t.Context(), Job{Kind: kindOfTests, Namespace: namespace, Input: what, StepTime: time.Second, TotalTime: time.Second})
			mu.Lock()
			defer mu.Unlock()
			order = append(order, namespace)
		})
	}
	for range 4 {
		start("bombs", "spin")
	}
	time.Sleep(time.Second / 2)
	mu.Lock()
	before := len(order)
	mu.Unlock()
	start("other", "nothing")
	all.Wait()
	if at := slices.Index(order, "other"); at > before+1 {
		t.Errorf("the order is %v, of which %d had ended before", order, before)
	}
}

// checkNoProcess fails where a worker is left.
func checkNoProcess(t testing.TB) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err == nil && len(bytes.TrimSpace(children)) > 0 {
		t.Errorf("processes are left: %s", children)
	}
}
