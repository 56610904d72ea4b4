package version

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/component-base/version"
)

func TestStamp(t *testing.T) {
	Stamp()
	got := version.Get()
	if got.GitVersion != Kubernetes || !strings.HasPrefix(Kubernetes, "v"+got.Major+"."+got.Minor+".") {
		t.Errorf("the process says %+v", got)
	}
}

func TestVersionIsTheOneOfTheModule(t *testing.T) {
	for source, module := range map[string]string{"newest.go": "go.mod", "oldest.go": "versions/1.34.mod"} {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		declared := regexp.MustCompile(`const Kubernetes = "(.+)"`).FindSubmatch(text)
		mod, err := os.ReadFile("../../" + module)
		if err != nil {
			t.Fatal(err)
		}
		if declared == nil || !strings.Contains(string(mod), "k8s.io/kubernetes "+string(declared[1])+"\n") {
			t.Errorf("%s does not require the release of %s; change the constant with it", module, source)
		}
	}
}
