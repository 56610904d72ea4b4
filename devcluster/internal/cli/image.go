package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"mlkeeper.dev/devcluster/internal/cluster"
	"mlkeeper.dev/devcluster/internal/image"
)

func newImage(dir *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make images of static binaries, and load them into a real node",
	}
	cmd.AddCommand(newImageMake(), newImageLoad(dir))
	return cmd
}

// newImageMake needs no cluster.
func newImageMake() *cobra.Command {
	spec := image.Spec{Arch: runtime.GOARCH}
	var output string
	cmd := &cobra.Command{
		Use:   "make BINARY [ARG...]",
		Short: "Make an image of one static binary; the arguments follow it in the entry point",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var err error
			if spec.Content, err = os.ReadFile(args[0]); err != nil {
				return err
			}
			spec.Binary, spec.Args = cmp.Or(spec.Binary, filepath.Base(args[0])), args[1:]
			archive, err := image.Archive(spec)
			if err != nil {
				return err
			}
			return os.WriteFile(output, archive, 0o644)
		},
	}
	cmd.Flags().StringVar(&spec.Name, "name", "", "name and tag of the image")
	cmd.Flags().StringVar(&spec.Binary, "path", "", "path of the binary in the image; its name at the root when empty")
	cmd.Flags().StringVar(&spec.User, "user", "65532:65532", "numeric user and group that the binary runs as")
	cmd.Flags().StringVar(&output, "output", "", "archive to write")
	for _, name := range []string{"name", "output"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			// The flag is defined above.
			panic(err)
		}
	}
	return cmd
}

func newImageLoad(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "load ARCHIVE...",
		Short: "Load image archives, such as those of image make, into the containerd of a real node",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := absolute(*dir)
			if err != nil {
				return err
			}
			for _, path := range args {
				if err := loadImage(cmd, d, path); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			return nil
		},
	}
}

func loadImage(cmd *cobra.Command, dir, path string) error {
	archive, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	loaded, err := cluster.NewClient(dir).LoadImage(cmd.Context(), archive)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), loaded)
	return err
}
