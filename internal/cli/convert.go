package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"mlkeeper.dev/internal/tfserving/convert"
)

// convertFlags are the flags of `mlkeeper convert`.
type convertFlags struct {
	files   []string
	output  string
	strict  bool
	options convert.Options
}

// defaultDownloader is the image of KServe that downloads models, which a converted Tfserv names for models below s3://.
const defaultDownloader = "kserve/storage-initializer:v0.15.0"

// NewConvertCommand returns `mlkeeper convert`.
func NewConvertCommand() *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Print the Tfservs that replace KServe's TensorFlow InferenceServices, or Deployments of TensorFlow Serving",
		Long: `Print the Tfservs that replace KServe's InferenceServices with the TensorFlow runtime, or Deployments of TensorFlow Serving.

No cluster is read. A Deployment is converted together with the Service that selects its pods and the ConfigMap with its model config,
where these are in the files. What of the originals is in no Tfserv is a warning on standard error with the path of its field, and
what MLKeeper does by itself in another way is a note. An original that cannot be converted at all is an error; the others are printed
nevertheless, and the exit status is 1. With --strict every warning is an error, and nothing is printed if there is one.`,
		Example: `  mlkeeper convert -f inferenceservice.yaml
  kubectl get deployment,service,configmap -n models -o yaml | mlkeeper convert -f - --suffix=-tfs | mlkeeper render -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConvert(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or folder with the originals; - is standard input; repeatable")
	flags.StringVarP(&f.output, "output", "o", "yaml", "yaml or json")
	flags.BoolVar(&f.strict, "strict", false, "every warning is an error, and nothing is printed then")
	flags.StringVar(&f.options.Suffix, "suffix", "", "end of the names of the Tfservs, after those of the originals")
	flags.StringVar(&f.options.Downloader, "downloader-image", defaultDownloader, "image that downloads models below s3://")
	// The flag was defined above, so marking it cannot fail.
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

func runConvert(cmd *cobra.Command, f convertFlags) error {
	if f.output != "yaml" && f.output != "json" {
		return fmt.Errorf("--output %q: use yaml or json", f.output)
	}
	objects, err := readObjects(f.files, cmd.InOrStdin())
	if err != nil {
		return err
	}
	result := convert.Convert(objects, f.options)
	stderr := cmd.ErrOrStderr()
	for _, m := range result.Notes {
		fmt.Fprintln(stderr, "note: "+Clean(m.String()))
	}
	for _, m := range result.Warnings {
		fmt.Fprintln(stderr, "warning: "+Clean(m.String()))
	}
	for _, m := range result.Errors {
		fmt.Fprintln(stderr, "error: "+Clean(m.String()))
	}
	if f.strict && len(result.Warnings)+len(result.Errors) > 0 {
		return errors.New("not everything can be converted, and --strict was given")
	}
	if err := printConverted(cmd.OutOrStdout(), result, f.output); err != nil {
		return err
	}
	switch {
	case len(result.Errors) > 0:
		return errors.New("not every object could be converted")
	case len(result.Tfservs) == 0:
		return errors.New("there is nothing to convert: neither an InferenceService nor a Deployment")
	}
	return nil
}

// printConverted prints the Tfservs without what only the API server fills in.
func printConverted(out io.Writer, result *convert.Result, format string) error {
	items := []any{}
	for _, tfserv := range result.Tfservs {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(tfserv)
		if err != nil {
			return err
		}
		delete(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		if format == "json" {
			items = append(items, content)
			continue
		}
		if err := printDocument(out, &unstructured.Unstructured{Object: content}, nil); err != nil {
			return err
		}
	}
	if format == "json" {
		return printJSON(out, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	return nil
}
