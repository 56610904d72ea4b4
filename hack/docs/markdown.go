package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// page is a page in Markdown.
type page struct {
	// name is its path in the repository.
	name, title string
	source      []byte
	tree        ast.Node
	headings    []heading
}

// heading is a heading of a page with the text below it.
type heading struct {
	ID, Title string
	Level     int
	text      string
}

// markdown reads what GitHub reads. The pages are the repository's own, so that their HTML is used as it is.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithUnsafe()),
)

// anchors gives headings the names that GitHub gives them, so that a link works on both.
type anchors map[string]int

var noAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)

// Generate implements parser.IDs.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(value))), ""), " ", "-")
	a[name]++
	if before := a[name] - 1; before > 0 {
		return fmt.Appendf(nil, "%s-%d", name, before)
	}
	return []byte(name)
}

// Put implements parser.IDs.
func (a anchors) Put(value []byte) { a[string(value)]++ }

func parse(name string, source []byte) *page {
	p := &page{name: name, source: source}
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	for block := p.tree.FirstChild(); block != nil; block = block.NextSibling() {
		if h, ok := block.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			raw, _ := id.([]byte)
			next := heading{ID: string(raw), Title: p.plain(h), Level: h.Level}
			if h.Level == 1 && p.title == "" {
				p.title = next.Title
			}
			p.headings = append(p.headings, next)
		} else if last := len(p.headings) - 1; last >= 0 {
			p.headings[last].text = strings.TrimSpace(p.headings[last].text + " " + p.plain(block))
		}
	}
	return p
}

// plain is the text of a node without its markup.
func (p *page) plain(node ast.Node) string {
	var out strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch {
		case !entering && n.Type() == ast.TypeBlock:
			out.WriteByte(' ')
		case !entering:
		case n.Kind() == ast.KindText:
			t := n.(*ast.Text)
			out.Write(t.Segment.Value(p.source))
			if t.SoftLineBreak() {
				out.WriteByte(' ')
			}
		case n.Kind() == ast.KindFencedCodeBlock || n.Kind() == ast.KindCodeBlock:
			out.Write(n.Lines().Value(p.source))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(out.String()), " ")
}

// contents are the headings that a page lists beside its text.
func (p *page) contents() []heading {
	var out []heading
	for _, h := range p.headings {
		if h.Level == 2 {
			out = append(out, h)
		}
	}
	return out
}

func (p *page) html() ([]byte, error) {
	var out bytes.Buffer
	err := markdown.Renderer().Render(&out, p.source, p.tree)
	return out.Bytes(), err
}
