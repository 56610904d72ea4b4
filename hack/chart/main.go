// Command chart writes the parts of charts/mlkeeper that say the same as config/: the CustomResourceDefinitions, the roles, the policies and
// the components, each with the switch of values.yaml that it belongs to. It also writes README.md, the table of the values out of
// values.schema.json. It never touches the templates that are written by hand, which are all others.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
