package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

var (
	//go:embed site/page.html
	pageTemplate string
	//go:embed site/style.css
	style []byte
	//go:embed site/search.js
	search []byte
)

const (
	// layout is the file with the order of the pages.
	layout = "docs/site.yaml"
	// indexFile is the file of a site with what can be searched, by whose beginning a site is known.
	indexFile, indexStart = "index.js", "window.searchIndex = "
)

// section is a part of the navigation. Its pages are paths in the repository, or patterns of these.
type section struct {
	Title string
	Pages []string
}

// site makes the pages of a repository.
type site struct {
	root, source string
	sections     []section
	// pages are by their paths in the repository; images are the files that pages show.
	pages    map[string]*page
	images   map[string]bool
	problems []error
}

func newSite(root, source string) *site {
	return &site{root: root, source: strings.TrimSuffix(source, "/"), pages: map[string]*page{}, images: map[string]bool{}}
}

func (s *site) problem(at, format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

// build returns the files of the site, or everything that is wrong with the pages.
func (s *site) build() (map[string][]byte, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		s.check(s.pages[name])
	}
	s.complete()
	if err := errors.Join(s.problems...); err != nil {
		return nil, err
	}
	out := map[string][]byte{"style.css": style, "search.js": search}
	parsed, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	for _, p := range s.pages {
		html, err := s.render(parsed, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		out[p.output()] = html
	}
	for image := range s.images {
		raw, err := os.ReadFile(filepath.Join(s.root, image))
		if err != nil {
			return nil, err
		}
		out[image] = raw
	}
	out[indexFile], err = s.index()
	return out, err
}

// read reads the layout and the pages that it names.
func (s *site) read() error {
	raw, err := os.ReadFile(filepath.Join(s.root, layout))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(raw, &s.sections); err != nil {
		return fmt.Errorf("%s: %w", layout, err)
	}
	for i, part := range s.sections {
		var names []string
		for _, pattern := range part.Pages {
			found, err := fs.Glob(os.DirFS(s.root), pattern)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", layout, pattern, err)
			}
			if len(found) == 0 {
				return fmt.Errorf("%s: no page is called %s", layout, pattern)
			}
			names = append(names, found...)
		}
		s.sections[i].Pages = names
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(s.root, name))
			if err != nil {
				return err
			}
			if s.pages[name] != nil {
				s.problem(layout, "%s is there twice", name)
			}
			s.pages[name] = parse(name, text)
			if s.pages[name].title == "" {
				s.problem(name, "it has no heading of the first level, which is its title")
			}
		}
	}
	return nil
}

// complete reports pages of docs that the layout leaves out, which nobody would find.
func (s *site) complete() {
	err := filepath.WalkDir(filepath.Join(s.root, "docs"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".md") {
			return err
		}
		name, err := filepath.Rel(s.root, file)
		if err == nil && s.pages[filepath.ToSlash(name)] == nil {
			s.problem(layout, "%s is in no section", name)
		}
		return err
	})
	if err != nil {
		s.problem(layout, "%v", err)
	}
}

// entry is a link of the navigation.
type entry struct {
	Title, Link string
	Current     bool
}

// render returns the HTML of a page.
func (s *site) render(parsed *template.Template, p *page) ([]byte, error) {
	content, err := p.html()
	if err != nil {
		return nil, err
	}
	type part struct {
		Title   string
		Entries []entry
		Open    bool
	}
	var parts []part
	for _, one := range s.sections {
		next := part{Title: one.Title}
		for _, name := range one.Pages {
			next.Entries = append(next.Entries, entry{s.pages[name].title, p.to(s.pages[name].output()), name == p.name})
			next.Open = next.Open || name == p.name
		}
		parts = append(parts, next)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{
		"Title": p.title, "Content": template.HTML(content), "Sections": parts, "Root": p.to(""), "Home": p.to("index.html"),
		"Headings": p.contents(), "Source": s.source + "/blob/main/" + p.name,
	})
	return out.Bytes(), err
}

// hit is what the search finds: a section of a page.
type hit struct {
	Page    string `json:"p"`
	Heading string `json:"h"`
	Link    string `json:"u"`
	Text    string `json:"t"`
}

// index is the script with everything that can be searched. A script can be loaded from a file, as a JSON document cannot.
func (s *site) index() ([]byte, error) {
	var hits []hit
	for _, part := range s.sections {
		for _, name := range part.Pages {
			p := s.pages[name]
			for _, h := range p.headings {
				hits = append(hits, hit{p.title, h.Title, p.output() + "#" + h.ID, h.text})
			}
		}
	}
	raw, err := json.Marshal(hits)
	return append(append([]byte(indexStart), raw...), ";\n"...), err
}

// to is a link from a page to a file of the site.
func (p *page) to(target string) string {
	return strings.Repeat("../", strings.Count(p.output(), "/")) + target
}

// output is the path of a page in the site.
func (p *page) output() string {
	folder, file := path.Split(p.name)
	if file == "README.md" {
		return folder + "index.html"
	}
	return folder + strings.TrimSuffix(file, ".md") + ".html"
}
