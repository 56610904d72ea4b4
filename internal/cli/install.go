package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// installFlags are the flags of `mlkeeper install`.
type installFlags struct {
	export                  bool
	image, namespace        string
	controllers, components []string
}

const (
	// componentOfParticipant needs a file of the user's, which this command does not take.
	componentOfParticipant = "participant"
	// componentOfTrust makes the operator cluster-admin.
	componentOfTrust = "trusted"
)

// NewInstallCommand returns `mlkeeper install`.
func NewInstallCommand(env Environment) *cobra.Command {
	var f installFlags
	cmd := &cobra.Command{
		Use:   "install --export --image IMAGE",
		Short: "Print the manifests of an installation of this release",
		Long: `Print the manifests of an installation of this release: the namespace, the CustomResourceDefinitions, the rights, the policies and the
operator, as make deploy applies them. The command reads and writes no cluster: apply what it prints with kubectl apply --server-side.
mlkeeper check --pre says what that would meet in a cluster, such as definitions of an original operator.`,
		Example: `  mlkeeper install --export --image registry.example.com/mlkeeper:v0.1.0
  mlkeeper install --export --image registry.example.com/mlkeeper:v0.1.0 --controllers trustyai --components network-policy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := f.manifests(env.Manifests)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.export, "export", false, "print the manifests; required, since the command does not apply them")
	flags.StringVar(&f.image, "image", "", "image of the operator, with registry and tag or digest")
	flags.StringVarP(&f.namespace, "namespace", "n", "mlkeeper-system", "namespace of the operator")
	flags.StringSliceVar(&f.controllers, "controllers", []string{"trustyai", "tfserving", "kubeflow", "seldon"}, "controllers that are on")
	flags.StringSliceVar(&f.components, "components", nil, "further parts of config/components, such as network-policy")
	return cmd
}

var (
	imageName     = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,511}$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// IsImage says that an image can have this name.
func IsImage(name string) bool { return imageName.MatchString(name) }

// check validates the flags against the components that there are.
func (f installFlags) check(manifests fs.FS) error {
	entries, err := fs.ReadDir(manifests, "components")
	if err != nil {
		return fmt.Errorf("read the manifests: %w", err)
	}
	controllers := map[string]bool{"trustyai": true, "tfserving": true, "kubeflow": true, "seldon": true}
	components := map[string]bool{}
	for _, entry := range entries {
		if !controllers[entry.Name()] && entry.Name() != componentOfParticipant {
			components[entry.Name()] = true
		}
	}
	switch {
	case !f.export:
		return errors.New("give --export: the command prints manifests, and kubectl apply --server-side -f - applies them")
	case !IsImage(f.image):
		return fmt.Errorf("--image %q: name an image with its registry, such as registry.example.com/mlkeeper:v0.1.0", f.image)
	case !namespaceName.MatchString(f.namespace):
		return fmt.Errorf("--namespace %q: use the name of a namespace", f.namespace)
	case slices.Contains(f.components, componentOfParticipant):
		return errors.New("--components participant: it has a configuration of yours; edit config/components/participant/application.yaml and use make deploy")
	}
	for flag, given := range map[string]struct {
		names []string
		known map[string]bool
	}{"controllers": {f.controllers, controllers}, "components": {f.components, components}} {
		for _, name := range given.names {
			if !given.known[name] {
				return fmt.Errorf("--%s %q: there is none of this name; there are %s", flag, name, strings.Join(slices.Sorted(maps.Keys(given.known)), ", "))
			}
		}
	}
	return f.checkTogether()
}

// checkTogether refuses what hack/overlay.sh, the chart and the manager refuse of names that there are.
func (f installFlags) checkTogether() error {
	switch {
	case len(f.controllers) == 0:
		return errors.New("--controllers names none: the manager would not start; name one, such as trustyai")
	case slices.Contains(f.components, componentOfTrust) && !slices.Contains(f.controllers, "kubeflow") && !slices.Contains(f.controllers, "seldon"):
		return fmt.Errorf("--components %s: it is for KfDefs and SeldonOperators, whose controllers are off: name kubeflow or seldon in --controllers",
			componentOfTrust)
	}
	return nil
}

// manifests builds the installation with kustomize, from the folders that make deploy uses.
func (f installFlags) manifests(manifests fs.FS) ([]byte, error) {
	if err := f.check(manifests); err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	if err := fs.WalkDir(manifests, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(manifests, path)
		if err != nil {
			return err
		}
		return files.WriteFile("/"+path, data)
	}); err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, f.image)
	kustomization := types.Kustomization{
		Namespace: f.namespace, Resources: []string{"../operator"},
		Patches: []types.Patch{{Patch: patch, Target: &types.Selector{LabelSelector: "app.kubernetes.io/name=mlkeeper"}}},
	}
	kustomization.Patches[0].Target.Kind = "Deployment"
	for _, name := range slices.Concat(f.controllers, f.components) {
		// kustomize refuses a component that is named twice, which make deploy takes once.
		if path := "../components/" + name; !slices.Contains(kustomization.Components, path) {
			kustomization.Components = append(kustomization.Components, path)
		}
	}
	data, err := yaml.Marshal(kustomization)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if err := files.WriteFile("/install/kustomization.yaml", data); err != nil {
		return nil, fmt.Errorf("write the manifests: %w", err)
	}
	options := krusty.MakeDefaultOptions()
	// Namespaces and definitions come before what needs them.
	options.Reorder = krusty.ReorderOptionLegacy
	built, err := krusty.MakeKustomizer(options).Run(files, "/install")
	if err != nil {
		return nil, fmt.Errorf("build the manifests: %w", err)
	}
	return built.AsYaml()
}
