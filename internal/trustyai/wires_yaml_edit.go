package trustyai

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const yamlBlank = " \t\r\n"

// addURL returns the text with one more payload processor at the end of the list, and what was made for it. It writes
// only what can be taken out again with every other byte as it was.
func (c *meshConfig) addURL(url string) (string, meshMade, error) {
	urls := append(slices.Clone(c.urls()), url)
	var candidates []string
	var made meshMade
	switch {
	case c.key == nil:
		candidates, made.Key = c.withKey(url), true
	case len(urls) == 1:
		candidates = c.withFirst(url)
		if c.value.Tag == "!!null" {
			made.Was = c.value.Value
		}
	default:
		candidates = c.withLast(url)
	}
	for _, text := range candidates {
		if c.holds(text, true, urls) && c.returns(text, url, made) {
			return text, made, nil
		}
	}
	return "", meshMade{}, &wireError{ReasonConfigNotEditable, "config.yaml is written in a way in which MLKeeper cannot " +
		"add to payloadProcessors without changing other text: write payloadProcessors as plain text on one line"}
}

// returns says that taking the URL out of the edited text gives this configuration back.
func (c *meshConfig) returns(edited, url string, made meshMade) bool {
	after, err := parseMeshConfig(edited)
	if err != nil {
		return false
	}
	back, _, err := after.removeURL(url, made)
	return err == nil && back == c.text
}

// withKey adds the key: at the end of the mapping, which reads best, else at its start, for what comes last may be text
// that a further line would become part of.
func (c *meshConfig) withKey(url string) []string {
	line, nl := processorsKey+": "+url, c.newline()
	if c.root != nil && c.root.Style&yaml.FlowStyle != 0 {
		at := strings.Index(c.text[c.offset(c.root):], "{")
		if at < 0 {
			return nil
		}
		at += c.offset(c.root) + 1
		return []string{c.text[:at] + flowPiece(url, len(c.root.Content) > 0) + c.text[at:]}
	}
	indent, first := "", ""
	if c.root != nil && len(c.root.Content) > 0 {
		indent = strings.Repeat(" ", max(c.root.Content[0].Column-1, 0))
		at := c.offset(c.root.Content[0])
		first = c.text[:at] + line + nl + indent + c.text[at:]
	}
	last := c.text + indent + line + nl
	if c.text != "" && !strings.HasSuffix(c.text, "\n") {
		last = c.text + nl + indent + line
	}
	return []string{last, first}
}

// flowPiece is the form in which the key is added to a mapping in braces; the quotes keep JSON what it is.
func flowPiece(url string, more bool) string {
	piece := `"` + processorsKey + `": "` + url + `"`
	if more {
		piece += ", "
	}
	return piece
}

// withFirst writes the URL into a value that holds none.
func (c *meshConfig) withFirst(url string) []string {
	if c.value.Tag == "!!null" && c.value.Value != "" {
		at := c.offset(c.value)
		return []string{c.text[:at] + strings.Replace(c.text[at:], c.value.Value, url, 1)}
	}
	if c.value.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		at := min(c.offset(c.value)+1, len(c.text))
		return []string{c.text[:at] + url + c.text[at:]}
	}
	start := c.offset(c.key)
	colon := strings.Index(c.text[start:], ":")
	if colon < 0 {
		return nil
	}
	at := start + colon + 1
	return []string{c.text[:at] + " " + url + c.text[at:]}
}

// withLast writes the URL behind the last one, separated as those before are.
func (c *meshConfig) withLast(url string) []string {
	places := c.places()
	if len(places) == 0 {
		return nil
	}
	last := places[len(places)-1]
	separators := []string{" "}
	if len(places) > 1 {
		between := c.text[places[len(places)-2].to:last.from]
		if strings.Trim(between, yamlBlank) == "" {
			separators = []string{between, " "}
		}
	} else if c.value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		start := strings.LastIndex(c.text[:last.from], "\n") + 1
		separators = []string{c.newline() + c.text[start:last.from], " "}
	}
	var out []string
	for _, s := range separators {
		out = append(out, c.text[:last.to]+s+url+c.text[last.to:])
	}
	return out
}

// removeURL returns the text without one payload processor, and what MLKeeper had made that stays. The text comes back
// as it is when the URL is not there any more.
func (c *meshConfig) removeURL(url string, made meshMade) (string, meshMade, error) {
	urls := c.urls()
	at := lastIndex(urls, url)
	if at < 0 {
		return c.text, made, nil
	}
	left := slices.Delete(slices.Clone(urls), at, at+1)
	if len(left) == 0 && made.Key {
		for _, text := range c.withoutKey(url) {
			if c.holds(text, false, nil) {
				made.Key, made.Was = false, ""
				return text, made, nil
			}
		}
	}
	for _, text := range c.withoutURL(at, len(left) == 0, made.Was) {
		if c.holds(text, true, left) {
			made.Was = ""
			return text, made, nil
		}
	}
	return "", made, &wireError{ReasonConfigNotEditable, "config.yaml is written in a way in which MLKeeper cannot take " +
		url + " out of payloadProcessors without changing other text: take it out by hand"}
}

func lastIndex(list []string, s string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// withoutKey takes out the whole key in the form in which MLKeeper added it. A line to which the user has added, if
// only a comment, is not that form.
func (c *meshConfig) withoutKey(url string) []string {
	start := c.offset(c.key)
	for _, piece := range []string{flowPiece(url, true), flowPiece(url, false)} {
		if strings.HasPrefix(c.text[start:], piece) {
			return []string{c.text[:start] + c.text[start+len(piece):]}
		}
	}
	line := processorsKey + ": " + url
	begin := strings.LastIndex(c.text[:start], "\n") + 1
	if !strings.HasPrefix(c.text[start:], line) || strings.Trim(c.text[begin:start], " ") != "" {
		return nil
	}
	end := start + len(line)
	for _, nl := range []string{"\r\n", "\n"} {
		if strings.HasPrefix(c.text[end:], nl) {
			return []string{c.text[:begin] + c.text[end+len(nl):]}
		}
	}
	if end < len(c.text) {
		return nil
	}
	return []string{strings.TrimSuffix(strings.TrimSuffix(c.text[:begin], "\n"), "\r")}
}

// withoutURL takes the URL at an index out of the value, with the white space that went with it.
func (c *meshConfig) withoutURL(index int, only bool, was string) []string {
	places := c.places()
	if index >= len(places) {
		return nil
	}
	p := places[index]
	before, after := c.text[:p.from], c.text[p.to:]
	withBefore := strings.TrimRight(before, yamlBlank) + after
	withAfter := before + strings.TrimLeft(after, yamlBlank)
	switch {
	case only && was != "":
		return []string{before + was + after, before + `""` + after}
	case only && c.value.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return []string{before + after}
	case only:
		return []string{withBefore, before + `""` + after, before + after}
	case index == 0:
		return []string{withAfter, before + after}
	default:
		return []string{withBefore, before + after}
	}
}
