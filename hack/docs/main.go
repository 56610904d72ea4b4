// Command docs makes pages for people out of files for machines. "docs reference" writes docs/reference: every field of every kind, from the
// CustomResourceDefinitions of config/crd, and every right of the operator, from the roles of config. "docs site" writes all pages as a site
// that needs no server, and fails for a link that leads nowhere.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to write: reference or site")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	root := flags.String("root", ".", "folder of the repository")
	output := flags.String("output", "bin/docs", "folder of the site, which is replaced; one with other files is refused")
	source := flags.String("source", "https://mlkeeper.dev/mlkeeper", "address of the repository, for links to files that are no pages")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "reference":
		pages, err := reference(*root)
		if err != nil {
			return err
		}
		return write(filepath.Join(*root, referenceFolder), pages)
	case "site":
		files, err := newSite(*root, *source).build()
		if err != nil {
			return err
		}
		if err := replaceable(*output); err != nil {
			return err
		}
		return write(*output, files)
	}
	return fmt.Errorf("there is no %q to write, but reference and site", args[0])
}

// replaceable fails for a folder that has files and is no site: write deletes what is in it.
func replaceable(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	index, err := os.ReadFile(filepath.Join(folder, indexFile))
	if err != nil || !bytes.HasPrefix(index, []byte(indexStart)) {
		return fmt.Errorf("-output %s: the folder has files and is no site, and is not replaced: empty it, or name another", folder)
	}
	return nil
}

// write replaces a folder by files, which are named by their paths in it.
func write(folder string, files map[string][]byte) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
