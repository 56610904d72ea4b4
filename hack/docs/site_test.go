package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// built is the site of the repository.
func built(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := newSite(root, "https://example.com/mlkeeper").build()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// reference to a file or an address in HTML.
var attribute = regexp.MustCompile(`<(\w+)[^>]*? (?:href|src)="([^"]*)"`)

// TestTheSiteIsWhole follows every link of every page as a browser does that has the folder and no network.
func TestTheSiteIsWhole(t *testing.T) {
	files := built(t)
	links := 0
	for name, content := range files {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		for _, match := range attribute.FindAllStringSubmatch(string(content), -1) {
			element, to := match[1], match[2]
			if elsewhere.MatchString(to) {
				if element != "a" {
					t.Errorf("%s loads %s from another server", name, to)
				}
				continue
			}
			links++
			target, anchor, _ := strings.Cut(to, "#")
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if files[file] == nil {
				t.Errorf("%s: %s leads nowhere", name, to)
			} else if anchor != "" && !strings.Contains(string(files[file]), `id="`+anchor+`"`) {
				t.Errorf("%s: %s has no #%s", name, file, anchor)
			}
		}
	}
	if links < 2000 {
		t.Errorf("only %d links were followed", links)
	}
	for _, want := range []string{"index.html", "docs/operations.html", "docs/reference/index.html", "docs/reference/kfdef.html", "search.js", "style.css"} {
		if len(files[want]) == 0 {
			t.Errorf("the site has no %s", want)
		}
	}
	if index := string(files["index.js"]); !strings.Contains(index, `"u":"docs/operations.html#mlkeeperdown"`) {
		t.Error("the search does not find the section of an alert")
	}
}

// TestOnlyASiteIsReplaced writes the site to a folder that is not there, to the same one again, to an empty one, and to folders of others.
func TestOnlyASiteIsReplaced(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{"others/thesis.txt": "years of work", "script/index.js": "import fs from 'fs'"} {
		if err := write(filepath.Join(folder, filepath.Dir(name)), map[string][]byte{filepath.Base(name): []byte(content)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		output  string
		refused bool
	}{{"new", false}, {"new", false}, {"empty", false}, {"others", true}, {"script", true}} {
		err := run([]string{"site", "-root", root, "-output", filepath.Join(folder, one.output)})
		if refused := err != nil && strings.Contains(err.Error(), "is no site"); refused != one.refused || !refused && err != nil {
			t.Errorf("%s: %v", one.output, err)
		}
	}
	for _, name := range []string{"others/thesis.txt", "script/index.js", "new/index.html"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongPagesAreRefused(t *testing.T) {
	for _, one := range []struct{ name, text, want string }{
		{"a link to nothing", "[a](nothing.md)", "the link nothing.md leads nowhere"},
		{"a link out of the repository", "[a](../../../etc/passwd)", "leads nowhere"},
		{"a heading that is not there", "[a](other.md#below)", "docs/other.md has no heading #below"},
		{"a heading of the same page", "[a](#below)", "docs/page.md has no heading #below"},
		{"a command with a file that is not there", "```sh\nkubectl apply -f config/samples/nothing.yaml\n```", "a command names config/samples/nothing.yaml"},
		{"an image of another server", "![a](https://example.com/a.png)", "is on another server"},
		{"an image that is not there", "![a](a.svg)", "the image a.svg does not exist"},
	} {
		t.Run(one.name, func(t *testing.T) {
			folder := repository(t, map[string]string{
				"docs/site.yaml": "- {title: All, pages: [docs/page.md, docs/other.md]}\n",
				"docs/page.md":   "# Page\n\n" + one.text + "\n", "docs/other.md": "# Other\n",
			})
			_, err := newSite(folder, "https://example.com").build()
			if err == nil || !strings.Contains(err.Error(), "docs/page.md: ") || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%v", err)
			}
		})
	}
	for _, one := range []struct {
		name, want string
		files      map[string]string
	}{
		{"a page without a title", "no heading of the first level", map[string]string{"docs/site.yaml": "- {title: All, pages: [docs/*.md]}\n", "docs/a.md": "## A\n"}},
		{"a page that nobody finds", "docs/b.md is in no section", map[string]string{
			"docs/site.yaml": "- {title: All, pages: [docs/a.md]}\n", "docs/a.md": "# A\n", "docs/b.md": "# B\n",
		}},
		{"a page of the layout that is not there", "no page is called docs/c.md", map[string]string{"docs/site.yaml": "- {title: All, pages: [docs/c.md]}\n"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			_, err := newSite(repository(t, one.files), "https://example.com").build()
			if err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestLinksLeadToPagesAndFiles(t *testing.T) {
	folder := repository(t, map[string]string{
		"docs/site.yaml": "- {title: All, pages: [README.md, docs/page.md]}\n",
		"README.md":      "# Home\n\n## The `code`, twice\n\n## The `code`, twice\n",
		"docs/page.md": "# Page\n\n[home](../README.md#the-code-twice-1) [file](../config/a.yaml) [folder](../config) " +
			"[web](https://example.org/) ![picture](a.svg)\n",
		"docs/a.svg": "<svg/>", "config/a.yaml": "",
	})
	files, err := newSite(folder, "https://example.com/source/").build()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`href="../index.html#the-code-twice-1"`, `href="https://example.com/source/blob/main/config/a.yaml"`,
		`href="https://example.com/source/tree/main/config"`, `href="https://example.org/"`, `src="../docs/a.svg"`,
	} {
		if !strings.Contains(string(files["docs/page.html"]), want) {
			t.Errorf("the page does not have %s:\n%s", want, files["docs/page.html"])
		}
	}
	if string(files["docs/a.svg"]) != "<svg/>" {
		t.Error("the picture is not part of the site")
	}
}

func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
