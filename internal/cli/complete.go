package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/controller"
)

// completionTimeout bounds what a shell waits for.
const completionTimeout = 3 * time.Second

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// Complete gives a command the completions of its arguments and flags: kinds and names of custom resources, namespaces, and the values
// of flags that have few.
func Complete(env Environment, cmd *cobra.Command) {
	use := strings.Fields(cmd.Use)
	if slices.ContainsFunc(use, func(word string) bool { return strings.Contains(word, "KIND/NAME") }) {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return completeResource(cmd, env, args, typed)
		}
	}
	register := func(flag string, complete cobra.CompletionFunc) {
		if cmd.Flags().Lookup(flag) != nil {
			// It fails for a flag that does not exist, or that has completions already.
			_ = cmd.RegisterFlagCompletionFunc(flag, complete)
		}
	}
	register("namespace", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completeNames(cmd, env, namespaceKind, "", "", typed)
	})
	if output := cmd.Flags().Lookup("output"); output != nil {
		register("output", cobra.FixedCompletions(valuesOf(output.Usage), cobra.ShellCompDirectiveNoFileComp))
	}
	register("for", cobra.FixedCompletions([]string{goalReady, goalDeleted, "condition=Ready", "delete"}, cobra.ShellCompDirectiveNoFileComp))
	// The controllers are known after the flags are parsed.
	controllers := func(name func(controller.Any) string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var out []string
			for _, c := range env.Controllers() {
				out = append(out, name(c))
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		}
	}
	register("kind", controllers(func(c controller.Any) string { return c.GVK().Kind }))
	register("controller", controllers(controller.Any.Name))
}

// valuesOf are the values that the help of --output lists.
func valuesOf(usage string) []string {
	list, _, _ := strings.Cut(usage, ";")
	var out []string
	for value := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		value = strings.TrimSuffix(value, "TEMPLATE")
		if value != "or" {
			out = append(out, value)
		}
	}
	return out
}

// completeResource completes KIND/NAME and KIND NAME.
func completeResource(cmd *cobra.Command, env Environment, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	kind, name, slash := strings.Cut(typed, "/")
	prefix := ""
	switch {
	case len(args) == 0 && !slash:
		var out []string
		for _, c := range env.Controllers() {
			if kind := strings.ToLower(c.GVK().Kind); strings.HasPrefix(kind, strings.ToLower(typed)) {
				out = append(out, kind+"/")
			}
		}
		return out, none | cobra.ShellCompDirectiveNoSpace
	case len(args) == 0:
		prefix = kind + "/"
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		kind, name = args[0], typed
	default:
		return nil, none
	}
	known, err := loadDefinitions(env.Definitions)
	if err != nil {
		return nil, none
	}
	for _, c := range env.Controllers() {
		if named(known, c, kind) {
			namespace, err := namespaceOf(env, cmd.Flag("namespace").Value.String(), false)
			if err != nil {
				return nil, none
			}
			return completeNames(cmd, env, c.GVK(), namespace, prefix, name)
		}
	}
	return nil, none
}

// completeNames completes the name of an object.
func completeNames(
	cmd *cobra.Command, env Environment, gvk schema.GroupVersionKind, namespace, prefix, typed string,
) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := context.WithTimeout(context.WithoutCancel(contextOf(cmd)), completionTimeout)
	defer cancel()
	// Discovery, which has no context, ends with its requests.
	quick := *env.Connection
	if quick.overrides.Timeout == "" || quick.overrides.Timeout == "0" {
		quick.overrides.Timeout = completionTimeout.String()
	}
	c, err := quick.open()
	if err != nil {
		return nil, none
	}
	mapping, err := c.lookup(gvk)
	if err != nil || mapping == nil {
		return nil, none
	}
	all, err := c.listMetadata(ctx, mapping, namespace, metav1.ListOptions{})
	if err != nil {
		return nil, none
	}
	var out []string
	for _, u := range all {
		if strings.HasPrefix(u.GetName(), typed) {
			out = append(out, prefix+u.GetName())
		}
	}
	return out, none
}

// contextOf is the context of a command, which a completion may lack.
func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
