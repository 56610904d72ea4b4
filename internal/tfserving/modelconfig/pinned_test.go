package modelconfig

import (
	"strings"
	"testing"
)

const several = `model_config_list {
  config { name: "first" base_path: "/first" model_platform: "tensorflow" }
  config { name: "m" base_path: "/m" model_platform: "tensorflow" model_version_policy { all {} } version_labels { key: "stable" value: 41 }
    version_labels { key: "next" value: 42 } }
  config { name: "last" base_path: "/last" model_platform: "tensorflow" }
}`

func TestPinned(t *testing.T) {
	c, err := Parse(several)
	if err != nil {
		t.Fatal(err)
	}
	before := c.String()
	pinned, found := c.Pinned("m", 42)
	if !found || c.String() != before {
		t.Fatalf("found %t, and the config is %s", found, c)
	}
	if _, err := Parse(pinned.String()); err != nil {
		t.Error(err)
	}
	text := strings.Join(strings.Fields(pinned.String()), " ")
	want := `config { name: "m" base_path: "/m" model_platform: "tensorflow" model_version_policy { specific { versions: 42 } } ` +
		`version_labels { key: "next" value: 42 } version_labels { key: "stable" value: 42 } }`
	if !strings.Contains(text, want) {
		t.Errorf("%s is not in %s", want, text)
	}
	var names []string
	for _, m := range pinned.Models() {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); got != "m first last" {
		t.Errorf("the models are %s", got)
	}
	if _, found := c.Pinned("nobody", 42); found {
		t.Error("a model that is not there is found")
	}
	if _, found := (Config{}).Pinned("m", 42); found {
		t.Error("a config that could not be read has a model")
	}
}

func TestExcludes(t *testing.T) {
	for policy, want := range map[string]bool{
		"": false, "all {}": false, "latest { num_versions: 2 }": false,
		"specific { versions: 41 }": true, "specific { versions: 41 versions: 42 }": false,
	} {
		if policy != "" {
			policy = "model_version_policy { " + policy + " }"
		}
		c, err := Parse(`model_config_list { config { name: "m" base_path: "/m" model_platform: "tensorflow" ` + policy + " } }")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Excludes("m", 42); got != want {
			t.Errorf("%q excludes 42: %t", policy, got)
		}
	}
}
