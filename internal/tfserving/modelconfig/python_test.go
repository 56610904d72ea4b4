//go:build python

package modelconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"sigs.k8s.io/yaml"
)

const root = "../../../"

// corpus are the model configs of the tests, of the fuzz corpus, and of all that users are shown.
func corpus(t *testing.T) []string {
	t.Helper()
	out := append([]string{seed}, fuzzSeeds...)
	for _, text := range accepted {
		out = append(out, text)
	}
	for _, c := range refused {
		if len(c.text) <= maxSize {
			out = append(out, c.text)
		}
	}
	files, err := filepath.Glob("testdata/fuzz/FuzzParse/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for line := range strings.Lines(read(t, file)) {
			if quoted, ok := strings.CutPrefix(strings.TrimSpace(line), "string("); ok {
				text, err := strconv.Unquote(strings.TrimSuffix(quoted, ")"))
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, text)
			}
		}
	}
	shown := []string{"config/samples/tfserv.yaml", "test/testdata/seeds/tfserv.yaml"}
	goldens, err := filepath.Glob("../testdata/golden/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, golden := range goldens {
		shown = append(shown, "internal/tfserving/modelconfig/"+golden)
	}
	found := 0
	for _, file := range shown {
		for _, document := range strings.Split(read(t, root+file), "\n---") {
			var object struct{ Data map[string]string }
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, text := range object.Data {
				if strings.Contains(text, "model_config_list") {
					out, found = append(out, text), found+1
				}
			}
		}
	}
	if found == 0 {
		t.Errorf("no model config is in %q", shown)
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestProtobufsVerdict compares what is read of each config, and of what MLKeeper prints of it, with what Python's protobuf
// reads by TensorFlow Serving's schema.
func TestProtobufsVerdict(t *testing.T) {
	texts := corpus(t)
	for _, text := range texts {
		if c, err := Parse(text); err == nil {
			texts = append(texts, c.String())
		}
	}
	request, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	judge := exec.CommandContext(t.Context(), os.Getenv("PYTHON"), root+"hack/modelconfig/judge.py", "judge")
	judge.Stdin, judge.Stderr = bytes.NewReader(request), os.Stderr
	raw, err := judge.Output()
	if err != nil {
		t.Fatal(err)
	}
	var verdicts []struct{ Message, Error string }
	if err := json.Unmarshal(raw, &verdicts); err != nil || len(verdicts) != len(texts) {
		t.Fatalf("%d verdicts on %d texts: %v", len(verdicts), len(texts), err)
	}
	both := 0
	for i, text := range texts {
		m := dynamicpb.NewMessage(serverConfig)
		failed := prototext.Unmarshal([]byte(text), m)
		if (failed == nil) != (verdicts[i].Error == "") {
			t.Errorf("%q: here %v, by protobuf %q", text, failed, verdicts[i].Error)
			continue
		}
		if failed != nil {
			continue
		}
		both++
		here, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := base64.StdEncoding.EncodeToString(here); got != verdicts[i].Message {
			t.Errorf("%q is read otherwise by protobuf", text)
		}
	}
	t.Logf("of %d texts both read %d alike and refuse the rest", len(texts), both)
}
