package modelconfig

import (
	"reflect"
	"strings"
	"testing"
)

func TestHoldLabels(t *testing.T) {
	model := func(policy, labels string) string {
		return `model_config_list { config { name: "m" base_path: "/m" model_platform: "tensorflow" ` + policy + " " + labels + " } }"
	}
	label := func(name, version string) string {
		return `version_labels { key: "` + name + `" value: ` + version + " }"
	}
	for name, c := range map[string]struct {
		before, now string
		available   int64
		held        []HeldLabel
		want        []string
	}{
		"moves at once": {
			model("", label("stable", "1")), model("", label("stable", "2")), 2, nil, []string{"value: 2"},
		},
		"waits, and both are served": {
			model("", label("stable", "1")), model("", label("stable", "2")), 0,
			[]HeldLabel{{"m", "stable", 1, 2}},
			[]string{"latest", "num_versions: 2", "value: 1"},
		},
		"a list has both": {
			model("model_version_policy { specific { versions: 1 } }", label("stable", "1")),
			model("model_version_policy { specific { versions: 2 } }", label("stable", "2")), 0,
			[]HeldLabel{{"m", "stable", 1, 2}},
			[]string{"specific", "versions: 1", "versions: 2", "value: 1"},
		},
		"the latest two may be others": {
			model("model_version_policy { latest { num_versions: 2 } }", label("stable", "1")),
			model("model_version_policy { latest { num_versions: 2 } }", label("stable", "2")), 0,
			[]HeldLabel{{"m", "stable", 1, 2}},
			[]string{"latest", "num_versions: 3", "value: 1"},
		},
		"no number is above the highest": {
			model("model_version_policy { latest { num_versions: 4294967295 } }", label("stable", "1")),
			model("model_version_policy { latest { num_versions: 4294967295 } }", label("stable", "2")), 0,
			[]HeldLabel{{"m", "stable", 1, 2}},
			[]string{"num_versions: 4294967295", "value: 1"},
		},
		"all are both": {
			model("model_version_policy { all {} }", label("stable", "1")), model("model_version_policy { all {} }", label("stable", "2")), 0,
			[]HeldLabel{{"m", "stable", 1, 2}},
			[]string{"all", "value: 1"},
		},
		"another label is of its own": {
			model("", label("stable", "1")), model("", label("stable", "1")+label("canary", "9")), 0, nil, []string{"value: 9"},
		},
		"another folder has the same labels": {
			strings.Replace(model("", label("stable", "1")), "/m", "/n", 1), model("", label("stable", "2")), 0,
			[]HeldLabel{{"m", "stable", 1, 2}},
			[]string{`base_path: "/m"`, "value: 1"},
		},
		"another model has labels of its own": {
			strings.Replace(model("", label("stable", "1")), `"m"`, `"n"`, 1), model("", label("stable", "2")), 0, nil, []string{"value: 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := Parse(c.before)
			if err != nil {
				t.Fatal(err)
			}
			now, err := Parse(c.now)
			if err != nil {
				t.Fatal(err)
			}
			printed := now.String()
			got, held := now.HoldLabels(before, func(_ string, v int64) bool { return v == c.available })
			if !reflect.DeepEqual(held, c.held) {
				t.Errorf("held %v, not %v", held, c.held)
			}
			for _, want := range c.want {
				if !strings.Contains(got.String(), want) {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			if again, err := Parse(got.String()); err != nil || again.String() != got.String() {
				t.Errorf("the server would refuse it: %v", err)
			}
			if now.String() != printed {
				t.Error("the declared config has changed")
			}
		})
	}
}
