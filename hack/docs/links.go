package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// pages on the Internet and addresses of mail are not checked: that would need a network, and fail with it.
var elsewhere = regexp.MustCompile(`^(https?://|mailto:)`)

// inRepository are paths of the repository in a command.
var inRepository = regexp.MustCompile(`(?:^|[\s"'=])((?:\.ci|charts|config|docs|hack|test)/[A-Za-z0-9_./-]+)`)

// check checks the links and the commands of a page, and has the links lead to the pages of the site.
func (s *site) check(p *page) {
	_ = ast.Walk(p.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Link:
			n.Destination = []byte(s.link(p, string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(s.image(p, string(n.Destination)))
		case *ast.FencedCodeBlock:
			if string(n.Language(p.source)) == "sh" {
				s.commands(p, string(n.Lines().Value(p.source)))
			}
		}
		return ast.WalkContinue, nil
	})
}

// link is where a link of a page leads in the site: to another page, or to a file in the repository.
func (s *site) link(p *page, to string) string {
	if elsewhere.MatchString(to) {
		return to
	}
	target, anchor, _ := strings.Cut(to, "#")
	name := p.name
	if target != "" {
		name = path.Join(path.Dir(p.name), target)
	}
	if other := s.pages[name]; other != nil {
		if anchor == "" {
			return p.to(other.output())
		}
		if !slices.ContainsFunc(other.headings, func(h heading) bool { return h.ID == anchor }) {
			s.problem(p.name, "the link %s: %s has no heading #%s", to, name, anchor)
		}
		return p.to(other.output()) + "#" + anchor
	}
	info, err := os.Stat(filepath.Join(s.root, name))
	switch {
	case err != nil || strings.HasPrefix(name, ".."):
		s.problem(p.name, "the link %s leads nowhere", to)
	case info.IsDir():
		return s.source + "/tree/main/" + name
	}
	return s.source + "/blob/main/" + name
}

// image is where an image is in the site, which has a copy of it.
func (s *site) image(p *page, to string) string {
	if elsewhere.MatchString(to) {
		s.problem(p.name, "the image %s is on another server: the site shows nothing of others", to)
		return to
	}
	name := path.Join(path.Dir(p.name), to)
	if _, err := os.Stat(filepath.Join(s.root, name)); err != nil {
		s.problem(p.name, "the image %s does not exist", to)
		return to
	}
	s.images[name] = true
	return p.to(name)
}

// commands checks that the files exist which a block of commands names.
func (s *site) commands(p *page, block string) {
	for _, match := range inRepository.FindAllStringSubmatch(block, -1) {
		name := strings.TrimRight(match[1], "./")
		if _, err := os.Stat(filepath.Join(s.root, name)); err != nil {
			s.problem(p.name, "a command names %s, which does not exist", name)
		}
	}
}
