package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// Explanation is what `mlkeeper explain -o json` prints. Fields are only ever added.
type Explanation struct {
	// Object is the custom resource, as "Kind namespace/name".
	Object string `json:"object"`
	// Ready and Reason are those of its condition Ready.
	Ready  string `json:"ready"`
	Reason string `json:"reason"`
	// Cause is one or more sentences on why.
	Cause string `json:"cause"`
	// Clues are what its objects, their pods and their events tell.
	Clues []string `json:"clues"`
	// Remedy says what to do; empty where there is nothing to do.
	Remedy string `json:"remedy"`
	// Notes are what else is to be known.
	Notes []string `json:"notes"`
	// Warnings say what could not be read.
	Warnings []string `json:"warnings"`
}

// NewExplainCommand returns `mlkeeper explain`.
func NewExplainCommand(env Environment) *cobra.Command {
	var namespace, output string
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Explain in one paragraph why a custom resource is not Ready, and what to do",
		Long: `Explain in one paragraph why a custom resource is not Ready, and what to do: from its conditions, the health of its objects,
and, where they have more details, their pods, volumes and events.

KIND is the kind, its plural or a short name; an object that MLKeeper created stands for the custom resource that it belongs
to. The cluster is read and never written, and the values of Secrets are not read. The exit status is 0 whatever the
health.`,
		Example: `  mlkeeper explain trustyaiservice/my-service -n models
  mlkeeper explain pvc/my-service-pvc`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output, &Explanation{}, "text"); err != nil {
				return err
			}
			r, s, err := resolve(cmd, env, args, namespace, false)
			if err != nil {
				return err
			}
			e, err := r.explain(cmd.Context(), env, s)
			if err != nil {
				return err
			}
			if printed, err := printReport(cmd.OutOrStdout(), output, e); printed || err != nil {
				return err
			}
			if err := printWarnings(cmd.ErrOrStderr(), e.Warnings); err != nil {
				return err
			}
			return printLines(cmd.OutOrStdout(), wrap(Clean(e.paragraph()), widthOf(cmd.OutOrStdout())))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&namespace, "namespace", "n", "", "namespace; default: that of the context")
	flags.StringVarP(&output, "output", "o", "text", "text, yaml, json or jsonpath=TEMPLATE")
	return cmd
}

// explain finds out why a custom resource is as it is.
func (r *resolver) explain(ctx context.Context, env Environment, s *subject) (*Explanation, error) {
	c := &collector{cluster: r.cluster, namespace: s.namespace, only: s}
	report, err := c.collect(ctx, []controller.Any{s.controller})
	if err != nil {
		return nil, err
	}
	out := r.explainFrom(ctx, env, s, &report.Stacks[0], c.whole)
	out.Warnings = append([]string{}, c.warnings...)
	return out, nil
}

// explainFrom explains what was read of a custom resource, and of its objects as they were read.
func (r *resolver) explainFrom(
	ctx context.Context, env Environment, s *subject, status *StackStatus, whole map[plan.Key]*unstructured.Unstructured,
) *Explanation {
	out := &Explanation{
		Object: s.key().String(), Ready: status.Ready, Reason: status.Reason, Clues: []string{}, Notes: []string{},
	}
	conditions := conditionsOf(s.live)
	switch {
	case status.Deleting:
		explainDeletion(out, s, status)
	case status.Ready == string(metav1.ConditionTrue) && status.Observed:
		explainReady(out, env, status, conditions)
	default:
		d := &detective{cluster: r.cluster, now: env.Now()}
		explainNotReady(out, status, d.clues(ctx, status, whole))
		if status.Reason == "NotReconciled" || !status.Observed {
			out.Clues = append(out.Clues, d.managers(ctx)...)
		}
	}
	explainBesides(out, status, conditions)
	return out
}

func explainDeletion(out *Explanation, s *subject, status *StackStatus) {
	out.Cause = "It is being deleted."
	if held := s.live.GetFinalizers(); len(held) > 0 {
		out.Cause += " The finalizers " + strings.Join(held, ", ") + " delay the deletion: MLKeeper sets no finalizers, and the " +
			"controllers that set them have to remove them."
		out.Remedy = "Start the controller that set the finalizer or, if it no longer exists, remove the finalizer manually."
	}
	if n := len(status.Objects); n > 0 {
		out.Clues = append(out.Clues, fmt.Sprintf("%d of its objects still exist; the garbage collector deletes those that it owns.", n))
	}
}

func explainReady(out *Explanation, env Environment, status *StackStatus, conditions map[string]metav1.Condition) {
	current := 0
	for i := range status.Objects {
		if status.Objects[i].Health == string(health.Current) {
			current++
		}
	}
	since := ""
	if ready, found := conditions["Ready"]; found && !ready.LastTransitionTime.IsZero() {
		since = " since " + duration.HumanDuration(env.Now().Sub(ready.LastTransitionTime.Time))
	}
	out.Cause = fmt.Sprintf("It is Ready%s: everything is as declared, and %d of its %d objects are healthy.", since, current,
		len(status.Objects))
	for i := range status.Objects {
		if o := &status.Objects[i]; o.Health != string(health.Current) {
			out.Notes = append(out.Notes, fmt.Sprintf("%s %s is %s: %s", o.Kind, o.Name, o.Health, o.Message))
		}
	}
}

// explainNotReady explains the reason of Ready and adds the state of the objects. For a reason that only points at the objects,
// the remedy is theirs.
func explainNotReady(out *Explanation, status *StackStatus, clues []clue) {
	a, known := adviceOn(status.Reason)
	var cause []string
	if known {
		cause = append(cause, a.meaning)
	}
	if status.Stalled {
		cause = append(cause, "It stays Stalled until that is changed.")
	}
	if status.Message != "" && status.Reason != "NotReconciled" {
		cause = append(cause, "MLKeeper reports: "+sentence(status.Message))
	}
	if !status.Observed && status.Reason != "NotReconciled" {
		cause = append(cause, "That is the state of an older version of its spec; no manager has reconciled the latest one yet.")
	}
	out.Cause = strings.Join(cause, " ")
	out.Remedy = a.remedy
	for _, c := range clues {
		out.Clues = append(out.Clues, c.text)
	}
	if !known || a.vague {
		for _, c := range clues {
			if c.remedy != "" {
				out.Remedy = c.remedy
				break
			}
		}
	}
	if out.Remedy == "" {
		out.Remedy = "Follow the message; `mlkeeper tree` shows its objects."
	}
}

// explainBesides adds what only the other conditions report.
func explainBesides(out *Explanation, status *StackStatus, conditions map[string]metav1.Condition) {
	if status.Suspended {
		a := engineAdvice["SuspendAnnotation"]
		out.Notes = append(out.Notes, a.meaning+" "+a.remedy)
	}
	for _, name := range sortedKeys(conditions) {
		c := conditions[name]
		abnormal := slices.Contains([]string{"FieldManagerConflict", "Reconciling"}, name)
		told := c.Reason == status.Reason || name == "Ready" || name == "Stalled" || name == "Suspended"
		a, known := adviceOn(c.Reason)
		switch {
		case told || known && a.quiet:
		case abnormal && c.Status == metav1.ConditionTrue,
			// While it is not Ready the others follow from that.
			!abnormal && status.Ready == "True" && c.Status == metav1.ConditionFalse && known:
			out.Notes = append(out.Notes, fmt.Sprintf("%s is %s: %s %s", name, c.Status, sentence(c.Message), a.remedy))
		}
	}
}

// paragraph is the explanation as text.
func (e *Explanation) paragraph() string {
	verdict := "is not Ready (" + e.Reason + ")."
	switch e.Ready {
	case "True":
		verdict = "is Ready."
	case "Unknown":
		verdict = "is not known to be Ready (" + e.Reason + ")."
	}
	if strings.HasPrefix(e.Cause, "It is Ready") || strings.HasPrefix(e.Cause, "It is being deleted") {
		verdict = strings.TrimPrefix(e.Cause, "It ")
	} else {
		verdict += " " + e.Cause
	}
	parts := append([]string{e.Object + " " + verdict}, e.Clues...)
	if e.Remedy != "" {
		parts = append(parts, "What to do: "+e.Remedy)
	}
	for _, note := range e.Notes {
		parts = append(parts, "Note: "+note)
	}
	return strings.Join(parts, " ")
}

// conditionsOf reads the conditions of a custom resource by their types.
func conditionsOf(u *unstructured.Unstructured) map[string]metav1.Condition {
	out := map[string]metav1.Condition{}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		m, ok := item.(map[string]any)
		var c metav1.Condition
		if ok && runtime.DefaultUnstructuredConverter.FromUnstructured(m, &c) == nil {
			out[c.Type] = c
		}
	}
	return out
}

// sentence ends a text as a sentence does.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "…") {
		return s
	}
	return s + "."
}

// defaultWidth is that of a paragraph which goes to no terminal.
const defaultWidth = 100

func widthOf(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 20 {
			return min(width, 120)
		}
	}
	return defaultWidth
}

// wrap breaks text between words, so that no line is longer than a width unless a word is.
func wrap(text string, width int) string {
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
		case column+1+n > width:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	return out.String()
}
