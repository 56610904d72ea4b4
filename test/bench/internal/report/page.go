package report

import (
	"embed"
	"html/template"
	"os"
	"slices"
	"strings"
)

//go:embed page.html
var pages embed.FS

// WriteHTML writes the report: one file, with its plots in it and no scripts.
func (r *Result) WriteHTML(path string) error {
	page, err := template.New("page.html").Funcs(template.FuncMap{
		"join": strings.Join,
		"class": func(verdict string) string {
			return map[string]string{Pass: "pass", Fail: "fail"}[verdict]
		},
		// What is not markup was escaped when the plot was drawn.
		"svg":  func(s string) template.HTML { return template.HTML(s) },
		"keys": sortedKeys[string],
	}).ParseFS(pages, "page.html")
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := page.Execute(file, r); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
