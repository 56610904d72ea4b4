package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// fieldManager is what the API server knows the writes of these commands as.
const fieldManager = "mlkeeper-cli"

// NewSuspendCommand returns `mlkeeper suspend`.
func NewSuspendCommand(env Environment) *cobra.Command {
	return newAnnotateCommand(env, &cobra.Command{
		Use:   "suspend KIND/NAME",
		Short: "Stop every write of MLKeeper for a custom resource",
		Long: `Stop every write of MLKeeper for a custom resource and its objects, by the annotation ` + keeper.SuspendAnnotation + `. What runs goes on running;
drift is not corrected, and changes of the spec wait, until mlkeeper resume.`,
		Example: `  mlkeeper suspend trustyaiservice/my-service -n models`,
	}, actionSuspend, "is suspended")
}

// NewResumeCommand returns `mlkeeper resume`.
func NewResumeCommand(env Environment) *cobra.Command {
	return newAnnotateCommand(env, &cobra.Command{
		Use:     "resume KIND/NAME",
		Short:   "Let MLKeeper write again for a custom resource that is suspended",
		Long:    `Let MLKeeper write again for a custom resource that mlkeeper suspend stopped. What changed meanwhile is carried out at once.`,
		Example: `  mlkeeper resume trustyaiservice/my-service -n models`,
	}, actionResume, "is resumed")
}

// NewReconcileCommand returns `mlkeeper reconcile`.
func NewReconcileCommand(env Environment) *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := newAnnotateCommand(env, &cobra.Command{
		Use:   "reconcile KIND/NAME",
		Short: "Have MLKeeper reconcile a custom resource now, and fetch its sources again",
		Long: `Have MLKeeper reconcile a custom resource now, by the annotation ` + keeper.ReconcileAtAnnotation + `. This is seldom needed, since MLKeeper watches
every change; sources of KfDefs and SeldonOperators that moved without a new address are fetched again. With --wait the command ends when
MLKeeper has done it and the custom resource is Ready.`,
		Example: `  mlkeeper reconcile kfdef/kubeflow -n kubeflow --wait`,
	}, actionReconcile, "is to be reconciled")
	annotate := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if wait && timeout <= 0 {
			return fmt.Errorf("--timeout %s: set a positive duration, such as 5m", timeout)
		}
		if err := annotate(cmd, args); err != nil || !wait {
			return err
		}
		return runWait(cmd, env, waitFlags{namespace: cmd.Flag("namespace").Value.String(), goal: goalReady, timeout: timeout, handled: true}, args)
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is reconciled and Ready")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

// The actions that are annotations.
const (
	actionSuspend   = "suspend"
	actionResume    = "resume"
	actionReconcile = "reconcile"
)

// actionOf returns the annotations that an action sets, where nil removes one.
func actionOf(env Environment, s *subject, action string) (map[string]any, error) {
	field, _, _ := unstructured.NestedBool(s.live.Object, "spec", "suspend")
	switch {
	case action == actionSuspend:
		return map[string]any{keeper.SuspendAnnotation: "true"}, nil
	case action == actionResume && field:
		return nil, fmt.Errorf("spec.suspend of %s is true, which suspends it: set it to false where it is declared", s.key())
	case action == actionResume:
		return map[string]any{keeper.SuspendAnnotation: nil}, nil
	case action == actionReconcile && isSuspended(s.live):
		return nil, fmt.Errorf("%s is suspended: run `mlkeeper resume %s`", s.key(), s.argument())
	case action == actionReconcile:
		return map[string]any{keeper.ReconcileAtAnnotation: env.Now().UTC().Format(time.RFC3339Nano)}, nil
	}
	return nil, fmt.Errorf("there is no action %q", action)
}

// newAnnotateCommand makes a command that carries out an action on one custom resource, and says what was done.
func newAnnotateCommand(env Environment, cmd *cobra.Command, action, done string) *cobra.Command {
	var namespace string
	cmd.Args = cobra.RangeArgs(1, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, s, err := resolve(cmd, env, args, namespace, false)
		if err != nil {
			return err
		}
		values, err := actionOf(env, s, action)
		if err != nil {
			return err
		}
		if err := r.annotate(cmd.Context(), s, values); err != nil {
			return err
		}
		return printLines(cmd.OutOrStdout(), Clean(s.key().String()+" "+done))
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace; default: that of the context")
	return cmd
}

// annotate writes annotations of the custom resource that was read, and of no namesake that took its place.
func (r *resolver) annotate(ctx context.Context, s *subject, values map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.live.GetUID(), "annotations": values}})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	api := r.resource(s.mapping, s.namespace)
	_, err = api.Patch(ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("write %s: %w; request the right to patch it", s.key(), err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s was deleted and recreated meanwhile: run the command again", s.key())
	case err != nil:
		return fmt.Errorf("write %s: %w", s.key(), err)
	}
	return nil
}

// handled says that MLKeeper has seen the last request to reconcile a custom resource.
func handled(u *unstructured.Unstructured) bool {
	done, _, _ := unstructured.NestedString(u.Object, "status", "lastHandledReconcileAt")
	return done == u.GetAnnotations()[keeper.ReconcileAtAnnotation]
}
