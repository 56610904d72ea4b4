package modelconfig

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// seed is the model config of the tutorial.
const seed = `model_config_list: {
  config: {
    name: "resnet",
    base_path: "gs://tfmodel-store/resnet",
    model_platform: "tensorflow",
    model_version_policy: { specific: { versions: 1538687457 } }
  }
}
`

// accepted are configs that the server takes.
var accepted = map[string]string{
	"empty":         "",
	"empty list":    "model_config_list {}",
	"comments":      "# models\n" + seed + "# end\n",
	"angles":        `model_config_list < config < name: 'a' base_path: '/m' model_platform: 'tensorflow' > >`,
	"old type":      `model_config_list { config { name: "a" base_path: "/m" model_type: TENSORFLOW } }`,
	"labels":        `model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" version_labels { key: "stable" value: 1 } } }`,
	"logging":       `model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" logging_config { log_collector_config { type: "x" filename_prefix: "y" } sampling_config { sampling_rate: 0.5 } } } }`,
	"latest":        `model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" model_version_policy { latest { num_versions: 2 } } } }`,
	"per task":      `model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" logging_config { sampling_config { per_task_sampling_configs { dc: "d" task_index: 1 sampling_rate: 0.1 } } } } }`,
	"custom log":    `model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" logging_config { custom_logging_config { type_url: "t" value: "v" } } } }`,
	"bytes":         `model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" logging_config { custom_logging_config { type_url: "t" value: "\000\"\\\n\377v" } } } }`,
	"all":           `model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" model_version_policy { all {} } } }`,
	"joined string": `model_config_list { config { name: "a" "b" base_path: "/m" model_platform: "tensorflow" } }`,
}

func one(fields string) string { return "model_config_list { config { " + fields + " } }" }

// refused are configs that the server refuses, with a word of why.
var refused = map[string]struct{ text, want string }{
	"no proto":       {"models: resnet", "unknown field"},
	"cut":            {seed[:len(seed)-4], "unexpected EOF"},
	"unknown field":  {one(`name: "a" base_path: "/m" model_platform: "tensorflow" colour: "red"`), "unknown field: colour"},
	"twice a field":  {one(`name: "a" name: "b" base_path: "/m" model_platform: "tensorflow"`), "repeated"},
	"no name":        {one(`base_path: "/m" model_platform: "tensorflow"`), "model 1 has no name"},
	"no path":        {one(`name: "a" model_platform: "tensorflow"`), "no base_path"},
	"relative":       {one(`name: "a" base_path: "models/a" model_platform: "tensorflow"`), "neither an absolute path nor a URI"},
	"scheme":         {one(`name: "a" base_path: "git+ssh://models/a" model_platform: "tensorflow"`), "neither an absolute path nor a URI"},
	"no platform":    {one(`name: "a" base_path: "/m"`), "has no model_platform"},
	"other platform": {one(`name: "a" base_path: "/m" model_platform: "caffe"`), `other than "tensorflow"`},
	"both":           {one(`name: "a" base_path: "/m" model_platform: "tensorflow" model_type: TENSORFLOW`), "both model_platform and model_type"},
	"no versions":    {one(`name: "a" base_path: "/m" model_platform: "tensorflow" model_version_policy { specific {} }`), "lists no versions"},
	"negative":       {one(`name: "a" base_path: "/m" model_platform: "tensorflow" model_version_policy { specific { versions: -1 } }`), "version -1 is negative"},
	"two policies":   {one(`name: "a" base_path: "/m" model_platform: "tensorflow" model_version_policy { all {} latest {} }`), "oneof"},
	"duplicate":      {"model_config_list { config { name: 'a' base_path: '/m' model_platform: 'tensorflow' } config { name: 'a' base_path: '/n' model_platform: 'tensorflow' } }", "listed twice"},
	"custom":         {`custom_model_config { type_url: "x" }`, "custom_model_config"},
	"large":          {strings.Repeat("#", maxSize+1), "larger than"},
}

// fuzzSeeds are where fuzzing begins.
var fuzzSeeds = []string{
	seed,
	`model_config_list { config { name: "a" base_path: "/m" model_platform: "tensorflow" version_labels { key: "s" value: 1 } } }`,
	`custom_model_config { [type.googleapis.com/x.Y] {} }`,
	accepted["logging"], accepted["per task"], accepted["custom log"], accepted["bytes"],
}

func TestParseTakesTheConfigOfTheSeed(t *testing.T) {
	c, err := Parse(seed)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Models(); len(got) != 1 || got[0] != (Model{Name: "resnet", BasePath: "gs://tfmodel-store/resnet"}) {
		t.Fatalf("models %v", got)
	}
	if c.Labelled() {
		t.Fatal("it has no labels")
	}
}

func TestParseTakesEverythingThatTheServerTakes(t *testing.T) {
	for name, text := range accepted {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(text); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestParseRefusesWhatTheServerRefuses(t *testing.T) {
	for name, tc := range refused {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%v, not an error with %q", err, tc.want)
			}
			if strings.ContainsRune(err.Error(), '\u00a0') || strings.HasPrefix(err.Error(), "proto:") {
				t.Fatalf("the error varies from build to build: %q", err)
			}
		})
	}
}

// TestAFieldOfANewerServerIsLeftOut, and is all that is: everything else is refused as ever.
func TestAFieldOfANewerServerIsLeftOut(t *testing.T) {
	for name, text := range accepted {
		want, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if c, unknown, err := ParseNewer(text); err != nil || unknown != "" || c.String() != want.String() {
			t.Errorf("%s: unknown %q, %v", name, unknown, err)
		}
	}
	for name, tc := range refused {
		_, unknown, err := ParseNewer(tc.text)
		if name == "unknown field" {
			if err != nil || !strings.Contains(unknown, tc.want) {
				t.Errorf("%s: unknown %q, %v", name, unknown, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, not an error with %q", name, err, tc.want)
		}
	}
	for text, want := range map[string][]string{
		one(`name: "a" base_pth: "/m" model_platform: "tensorflow"`):                                                 {"no base_path", "unknown field: base_pth"},
		one(`name: "a" base_path: "/m" colour: { red: [1, 2] } model_platform: "tensorflow" model_version_policy {`): {"unexpected EOF", "unknown field: colour"},
	} {
		_, _, err := ParseNewer(text)
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v, not an error with %q", text, err, part)
			}
		}
	}
}

func TestStringIsReadBackAsTheSame(t *testing.T) {
	made, err := New([]Declared{
		{Model: Model{Name: "b", BasePath: `/a "path" with \ and ü`}, Policy: Policy{Specific: []int64{1, 3}}, Labels: map[string]int64{"stable": 1, "canary": 3}},
		{Model: Model{Name: "a", BasePath: "gs://bucket/a"}, Policy: Policy{Latest: 2}},
		{Model: Model{Name: "c", BasePath: "gs://bucket/c"}, Policy: Policy{All: true}},
		{Model: Model{Name: "d", BasePath: "gs://bucket/d"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := made.String()
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if again.String() != text {
		t.Fatalf("printed\n%s\nread back as\n%s", text, again.String())
	}
	if !again.Labelled() {
		t.Fatal("the labels are lost")
	}
	if got := again.Models()[0].BasePath; got != `/a "path" with \ and ü` {
		t.Fatalf("base path %q", got)
	}
}

// TestWhatIsPrintedMeansTheSame: TensorFlow Serving reads what is printed, not what was declared.
func TestWhatIsPrintedMeansTheSame(t *testing.T) {
	for name, text := range accepted {
		t.Run(name, func(t *testing.T) {
			c, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(c.String())
			if err != nil {
				t.Fatalf("%v in\n%s", err, c.String())
			}
			if !proto.Equal(c.message.Interface(), again.message.Interface()) {
				t.Errorf("%v\nis printed as\n%s", c.message, c.String())
			}
		})
	}
}

func TestMovedChangesBasePathsAlone(t *testing.T) {
	c, err := Parse(seed)
	if err != nil {
		t.Fatal(err)
	}
	moved := c.Moved(func(m Model) string { return "/local/" + m.Name })
	if got := moved.Models()[0]; got != (Model{Name: "resnet", BasePath: "/local/resnet"}) {
		t.Fatalf("moved to %v", got)
	}
	if want := strings.ReplaceAll(c.String(), "gs://tfmodel-store/resnet", "/local/resnet"); moved.String() != want {
		t.Fatalf("moved to\n%s\nnot\n%s", moved, want)
	}
	if c.Models()[0].BasePath != "gs://tfmodel-store/resnet" {
		t.Fatal("the original was changed")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range fuzzSeeds {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(c.String())
		if err != nil {
			t.Fatalf("what was accepted is refused when it is printed: %v\n%q\n%q", err, text, c.String())
		}
		if again.String() != c.String() {
			t.Fatalf("printed twice: %q and %q", c.String(), again.String())
		}
	})
}
