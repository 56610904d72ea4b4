package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// maxEvents bounds the events that are printed: the latest ones.
const maxEvents = 200

// EventsReport is what `mlkeeper events -o json` prints. Fields are only ever added.
type EventsReport struct {
	// Events are those of the custom resource and its objects, the latest last.
	Events []EventReport `json:"events"`
	// Omitted is how many older events were left out.
	Omitted int `json:"omitted"`
	// Warnings say what could not be read.
	Warnings []string `json:"warnings"`
}

// EventReport is one event.
type EventReport struct {
	LastSeen time.Time `json:"lastSeen"`
	// Type is Normal or Warning.
	Type      string `json:"type"`
	Reason    string `json:"reason"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Message   string `json:"message"`
}

// eventsFlags are the flags of `mlkeeper events`.
type eventsFlags struct {
	namespace, output string
	types             []string
}

// NewEventsCommand returns `mlkeeper events`.
func NewEventsCommand(env Environment) *cobra.Command {
	var f eventsFlags
	cmd := &cobra.Command{
		Use:   "events KIND/NAME",
		Short: "Show the events of a custom resource, its objects and their pods, the latest last",
		Long: `Show the events of a custom resource, of the objects that belong to it and of their pods, the latest last. An object that MLKeeper
created stands for the custom resource that it belongs to. The API server keeps events for an hour by default.`,
		Example: `  mlkeeper events trustyaiservice/my-service -n models
  mlkeeper events kfdef/kubeflow -n kubeflow --types Warning`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return runEvents(cmd, env, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace; default: that of the context")
	flags.StringVarP(&f.output, "output", "o", "table", "table, yaml, json or jsonpath=TEMPLATE")
	flags.StringSliceVar(&f.types, "types", nil, "only events of these types, Normal or Warning")
	return cmd
}

func runEvents(cmd *cobra.Command, env Environment, f eventsFlags, args []string) error {
	if err := checkOutput(f.output, &EventsReport{}, "table"); err != nil {
		return err
	}
	for _, given := range f.types {
		if !amongTypes(given, []string{"Normal", "Warning"}) {
			return fmt.Errorf("--types %q: use Normal or Warning", given)
		}
	}
	r, s, err := resolve(cmd, env, args, f.namespace, false)
	if err != nil {
		return err
	}
	report, err := r.events(cmd.Context(), s, f.types)
	if err != nil {
		return err
	}
	if printed, err := printReport(cmd.OutOrStdout(), f.output, report); printed || err != nil {
		return err
	}
	if err := printWarnings(cmd.ErrOrStderr(), report.Warnings); err != nil {
		return err
	}
	return report.print(cmd, env.Now(), s)
}

// events collects the events of a custom resource.
func (r *resolver) events(ctx context.Context, s *subject, types []string) (*EventsReport, error) {
	c := &collector{cluster: r.cluster, namespace: s.namespace, only: s}
	status, err := c.collect(ctx, []controller.Any{s.controller})
	if err != nil {
		return nil, err
	}
	mapping, err := r.lookup(eventKind)
	if err != nil || mapping == nil {
		return nil, errors.Join(errors.New("the cluster serves no events"), err)
	}
	of := map[plan.Key]bool{s.key(): true}
	// Events about objects without a namespace are in the namespace default.
	namespaces := []string{cmp.Or(s.namespace, metav1.NamespaceDefault)}
	for i := range status.Stacks[0].Objects {
		o := &status.Stacks[0].Objects[i]
		of[o.key()] = true
		if in := cmp.Or(o.Namespace, metav1.NamespaceDefault); !slices.Contains(namespaces, in) {
			namespaces = append(namespaces, in)
		}
	}
	report := &EventsReport{Events: []EventReport{}, Warnings: append([]string{}, status.Warnings...)}
	for _, namespace := range namespaces {
		all, err := r.list(ctx, mapping, namespace, metav1.ListOptions{})
		if err != nil {
			report.Warnings = append(report.Warnings, c.explain("events in "+namespace, err).Error())
			continue
		}
		for _, event := range all {
			if one := readEvent(event); concerns(of, event) && (len(types) == 0 || amongTypes(one.Type, types)) {
				report.Events = append(report.Events, one)
			}
		}
	}
	slices.SortStableFunc(report.Events, func(a, b EventReport) int { return a.LastSeen.Compare(b.LastSeen) })
	if report.Omitted = max(len(report.Events)-maxEvents, 0); report.Omitted > 0 {
		report.Events = report.Events[report.Omitted:]
	}
	return report, nil
}

// amongTypes says that a type of events is among some, whatever their case, as for kubectl.
func amongTypes(one string, among []string) bool {
	return slices.ContainsFunc(among, func(other string) bool { return strings.EqualFold(one, other) })
}

func readEvent(event *unstructured.Unstructured) EventReport {
	text := func(path ...string) string {
		out, _, _ := unstructured.NestedString(event.Object, path...)
		return out
	}
	return EventReport{
		LastSeen: eventTime(event), Type: text("type"), Reason: text("reason"), Message: text("message"),
		Kind: text("involvedObject", "kind"), Namespace: text("involvedObject", "namespace"), Name: text("involvedObject", "name"),
	}
}

// concerns says that an event is about one of some objects, or about what a workload among these made: that carries its name, with an ending.
func concerns(of map[plan.Key]bool, event *unstructured.Unstructured) bool {
	about, _, _ := unstructured.NestedStringMap(event.Object, "involvedObject")
	gv, err := schema.ParseGroupVersion(about["apiVersion"])
	if err != nil {
		return false
	}
	if of[plan.Key{GroupKind: gv.WithKind(about["kind"]).GroupKind(), Namespace: about["namespace"], Name: about["name"]}] {
		return true
	}
	for key := range of {
		ending, found := strings.CutPrefix(about["name"], key.Name+"-")
		if found && key.Namespace == about["namespace"] && endings[[2]string{key.Kind, about["kind"]}] == 1+strings.Count(ending, "-") {
			return true
		}
	}
	return false
}

// endings are how many parts longer than that of a workload the name is of what it makes. Another workload may have its name and more.
var endings = map[[2]string]int{
	{"Deployment", "ReplicaSet"}: 1, {"Deployment", "Pod"}: 2, {"CronJob", "Job"}: 1, {"CronJob", "Pod"}: 2,
	{"StatefulSet", "Pod"}: 1, {"DaemonSet", "Pod"}: 1, {"ReplicaSet", "Pod"}: 1, {"Job", "Pod"}: 1,
}

func (r *EventsReport) print(cmd *cobra.Command, now time.Time, s *subject) error {
	if len(r.Events) == 0 {
		return printLines(cmd.ErrOrStderr(), Clean(fmt.Sprintf("there are no events of %s and its objects; the API server keeps them for an hour by default", s.key())))
	}
	if r.Omitted > 0 {
		if err := printLines(cmd.ErrOrStderr(), fmt.Sprintf("%d older events are left out", r.Omitted)); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	lines := []string{"LAST SEEN\tTYPE\tREASON\tOBJECT\tMESSAGE"}
	for i := range r.Events {
		e := &r.Events[i]
		object := e.Kind + "/" + e.Name
		if e.Namespace != s.namespace {
			object = e.Namespace + "/" + object
		}
		lines = append(lines, strings.Join([]string{
			duration.HumanDuration(now.Sub(e.LastSeen)), Clean(e.Type), Clean(e.Reason), Clean(object), Clean(strings.Join(strings.Fields(e.Message), " ")),
		}, "\t"))
	}
	if err := printLines(table, lines...); err != nil {
		return err
	}
	return table.Flush()
}
