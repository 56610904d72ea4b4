package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"mlkeeper.dev/internal/engine/plan"
)

const (
	// maxLogs bounds the containers whose logs are read at once.
	maxLogs = 50
	// maxLogLine bounds a line, in bytes; a longer one is printed as several.
	maxLogLine = 64 << 10
)

// logsFlags are the flags of `mlkeeper logs`.
type logsFlags struct {
	namespace, container string
	follow, previous     bool
	prefix               bool
	tail                 int64
	since                time.Duration
}

// NewLogsCommand returns `mlkeeper logs`.
func NewLogsCommand(env Environment) *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use:   "logs KIND/NAME",
		Short: "Print the logs of the pods of a custom resource",
		Long: `Print the logs of the pods of a custom resource: of all containers of all pods that its Deployments, StatefulSets, DaemonSets, Jobs and
CronJobs created. An object that MLKeeper created stands for the custom resource that it belongs to. With --follow, pods that are
created meanwhile are followed, too, until the command is interrupted. Control characters are escaped.`,
		Example: `  mlkeeper logs trustyaiservice/my-service -n models
  mlkeeper logs kfdef/kubeflow -n kubeflow --follow --tail 10
  mlkeeper logs tas/my-service -c trustyai-service --since 10m`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return runLogs(cmd, env, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace; default: that of the context")
	flags.StringVarP(&f.container, "container", "c", "", "only containers of this name; init containers are read by their name alone")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what is logged from now on")
	flags.BoolVarP(&f.previous, "previous", "p", false, "logs of the containers that ran before the last restart")
	flags.BoolVar(&f.prefix, "prefix", true, "begin each line with its pod and container")
	flags.Int64Var(&f.tail, "tail", 100, "how many of the latest lines of each container; -1 for all")
	flags.DurationVar(&f.since, "since", 0, "only lines newer than this, such as 10m")
	return cmd
}

// check validates the flags.
func (f logsFlags) check() error {
	switch {
	case f.tail < -1:
		return fmt.Errorf("--tail %d: use -1 for all lines, or a number of lines", f.tail)
	case f.since < 0:
		return fmt.Errorf("--since %s: use a positive duration, such as 10m", f.since)
	case f.follow && f.previous:
		return errors.New("--follow and --previous exclude each other: what ran before logs nothing any more")
	}
	return nil
}

func runLogs(cmd *cobra.Command, env Environment, f logsFlags, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	r, s, err := resolve(cmd, env, args, f.namespace, false)
	if err != nil {
		return err
	}
	l := &logReader{
		podWatches: &podWatches{watches: newWatches(r.cluster, s), by: map[childWatch]*informer{}}, flags: f,
		begun: map[string]int64{}, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(),
	}
	return l.read(cmd.Context())
}

// logReader reads the logs of the pods of one custom resource.
type logReader struct {
	*podWatches
	flags logsFlags
	// begun has, for each container whose logs are read or were, how often it had been restarted then.
	begun map[string]int64
	// crowded says that containers were left out.
	crowded bool
	// told are the notes that are made once.
	told []string
	wg   sync.WaitGroup

	mu sync.Mutex
	// reading is how many logs are read at once.
	reading    int
	out, notes io.Writer
	failed     error
}

// read reads until all logs were read or, while they are followed, until the context ends.
func (l *logReader) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.wait()
	}()
	if err := l.start(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			l.wg.Wait()
			return nil
		case err := <-l.podWatches.failed:
			return err
		case <-l.changed:
		}
		done, err := l.look(ctx)
		if err != nil {
			return err
		}
		if done {
			l.wg.Wait()
			return l.result()
		}
	}
}

// look begins to read the containers that run by now, and says whether there will be no others.
func (l *logReader) look(ctx context.Context) (done bool, err error) {
	now, synced := l.snapshot()
	if !synced {
		return false, nil
	}
	if more, err := l.cover(ctx, now.expected); more || err != nil {
		return false, err
	}
	if err := l.coverPods(ctx, now.whole); err != nil {
		return false, err
	}
	if !now.complete || !l.listed() {
		return false, nil
	}
	for _, pod := range l.podsInOrder(now.whole) {
		for _, container := range l.containersOf(pod) {
			l.begin(ctx, pod, container)
		}
	}
	unread, hides := l.unread()
	if l.flags.follow {
		l.noteOnce(unread)
		return false, nil
	}
	if hides || len(l.begun) == 0 && len(unread) > 0 {
		return true, errors.Join(l.result(), errors.New(strings.Join(unread, "; ")+"; request the rights list and watch"))
	}
	l.noteOnce(unread)
	if len(l.begun) == 0 {
		return true, fmt.Errorf("no container of %s has logged anything yet; `mlkeeper explain %s` says why", l.subject.key(), l.subject.argument())
	}
	return true, nil
}

// podsInOrder are the pods of all workloads, by their names.
func (l *logReader) podsInOrder(whole []*unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, pods := range l.pods(whole) {
		out = append(out, pods...)
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(plan.KeyOf(a).String(), plan.KeyOf(b).String())
	})
	return out
}

// logged is a container that has logs, as often as it was restarted.
type logged struct {
	name     string
	restarts int64
}

// containersOf are the containers of a pod that have logs.
func (l *logReader) containersOf(pod *unstructured.Unstructured) []logged {
	fields := []string{"containerStatuses"}
	if l.flags.container != "" {
		fields = append(fields, "initContainerStatuses")
	}
	var out []logged
	for _, field := range fields {
		all, _, _ := unstructured.NestedSlice(pod.Object, "status", field)
		for _, item := range all {
			c, _ := item.(map[string]any)
			name, _ := c["name"].(string)
			_, waiting, _ := unstructured.NestedMap(c, "state", "waiting")
			restarts, _ := c["restartCount"].(int64)
			if name != "" && (l.flags.container == "" || l.flags.container == name) && (!waiting || restarts > 0) && (!l.flags.previous || restarts > 0) {
				out = append(out, logged{name, restarts})
			}
		}
	}
	return out
}

// begin reads the logs of one container, once for each time that it was started.
func (l *logReader) begin(ctx context.Context, pod *unstructured.Unstructured, container logged) {
	key := string(pod.GetUID()) + "/" + container.name
	before, again := l.begun[key]
	if again && before >= container.restarts || !l.enter() {
		return
	}
	l.begun[key] = container.restarts
	options := &corev1.PodLogOptions{Container: container.name, Follow: l.flags.follow, Previous: l.flags.previous}
	// All that a container logs after it was restarted is new.
	if l.flags.tail >= 0 && !again {
		options.TailLines = ptr.To(l.flags.tail)
	}
	if l.flags.since > 0 && !again {
		options.SinceSeconds = ptr.To(int64(max(l.flags.since, time.Second).Seconds()))
	}
	prefix := ""
	if l.flags.prefix {
		prefix = Clean(fmt.Sprintf("[%s/%s] ", pod.GetName(), container.name))
	}
	namespace, name := pod.GetNamespace(), pod.GetName()
	copied := func() {
		if err := l.copy(ctx, namespace, name, prefix, options); err != nil && ctx.Err() == nil {
			l.fail(fmt.Errorf("the logs of %s/%s, container %s: %w", namespace, name, container.name, err))
		}
	}
	if l.flags.follow {
		l.wg.Go(func() {
			copied()
			l.exit()
		})
		return
	}
	// One after the other, so that lines of a container stand together.
	copied()
}

// enter counts a log that is read, unless there are too many, which is told once.
func (l *logReader) enter() bool {
	l.mu.Lock()
	full := l.reading == maxLogs
	if !full {
		l.reading++
	}
	l.mu.Unlock()
	if full && !l.crowded {
		l.crowded = true
		l.note(fmt.Sprintf("there are more than %d containers: the others are left out; name one with --container", maxLogs))
	}
	return !full
}

// exit makes room for another container, as one that was started since.
func (l *logReader) exit() {
	l.mu.Lock()
	l.reading--
	l.mu.Unlock()
	l.wake()
}

// copy prints the lines of one container.
func (l *logReader) copy(ctx context.Context, namespace, name, prefix string, options *corev1.PodLogOptions) error {
	if l.logs == nil {
		return errors.New("there are no logs here")
	}
	stream, err := l.logs(ctx, namespace, name, options)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for lines := bufio.NewReaderSize(stream, maxLogLine); ; {
		line, _, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l.mu.Lock()
		err = printLines(l.out, prefix+Clean(string(line)))
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// fail remembers the first failure, and tells of each while logs are followed.
func (l *logReader) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flags.follow {
		_ = printLines(l.notes, CleanLines(err.Error()))
		return
	}
	l.failed = errors.Join(l.failed, err)
}

func (l *logReader) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = printLines(l.notes, Clean(text))
}

// noteOnce tells each text that was not told yet.
func (l *logReader) noteOnce(texts []string) {
	for _, text := range texts {
		if !slices.Contains(l.told, text) {
			l.told = append(l.told, text)
			l.note(text)
		}
	}
}

func (l *logReader) result() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}
