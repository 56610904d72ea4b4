package version

import (
	"os"
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
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "k8s.io/kubernetes "+Kubernetes+"\n") {
		t.Errorf("go.mod does not require k8s.io/kubernetes %s; change the constant with it", Kubernetes)
	}
}
