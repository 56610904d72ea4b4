//go:build realnode

package node

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
)

const (
	operatorNamespace  = "mlkeeper-system"
	operatorDeployment = "mlkeeper-controller-manager"
	// The stand-ins' images are of no registry, so that nothing can pull them.
	// The name tells the operator which generation it is; it is the stand-in's nevertheless.
	serviceImage = "mlkeeper-test.local/trustyai-service:v0.28.0"
	proxyImage   = "mlkeeper-test.local/kube-rbac-proxy-standin:test"
	servingImage = "mlkeeper-test.local/tensorflow-serving-standin:test"
)

// loadImages puts the operator's image and those of the stand-ins into the node, and returns the name of the first.
func loadImages(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	operator := filepath.Join(root, "bin", "mlkeeper-image.tar")
	name, err := imageName(operator)
	if err != nil {
		t.Fatalf("the operator's image: %v: run make image", err)
	}
	t.Log(strings.TrimSpace(devcluster(t, "image", "load", "--dir", c.Dir, operator)))
	loadStandIns(t, c, standIn{serviceImage, "", []string{"serve", "JavaTLS"}}, standIn{proxyImage, "", []string{"proxy"}},
		standIn{servingImage, servingPath, nil})
	return name
}

// servingPath is where the image of TensorFlow Serving has its program.
const servingPath = "/usr/bin/tensorflow_model_server"

// standIn is an image of the program test/node/standin: its name, where the program is in it if that counts, and how it is started.
type standIn struct {
	name, path string
	args       []string
}

// loadStandIns compiles the program and loads images of it into the node.
func loadStandIns(t *testing.T, c *cluster.Cluster, images ...standIn) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	binary := filepath.Join(folder, "standin")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "./test/node/standin")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the stand-in: %v\n%s", err, out)
	}
	load := []string{"image", "load", "--dir", c.Dir}
	for i, one := range images {
		archive := filepath.Join(folder, fmt.Sprintf("%d.tar", i))
		devcluster(t, append([]string{"image", "make", "--name", one.name, "--path", one.path, "--output", archive, binary}, one.args...)...)
		load = append(load, archive)
	}
	t.Log(strings.TrimSpace(devcluster(t, load...)))
}

// imageName reads the name of an image from its archive.
func imageName(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("%s has no manifest.json", path)
		}
		if err != nil {
			return "", err
		}
		if header.Name != "manifest.json" {
			continue
		}
		var manifest []struct{ RepoTags []string }
		if err := json.NewDecoder(r).Decode(&manifest); err != nil {
			return "", err
		}
		if len(manifest) != 1 || len(manifest[0].RepoTags) == 0 {
			return "", fmt.Errorf("%s names no image", path)
		}
		return manifest[0].RepoTags[0], nil
	}
}

// install applies config/install.yaml with the image of this build, and with the flags that the operator's page
// documents for the images of the services.
func install(t *testing.T, c *cluster.Cluster, image string) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "config", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := cluster.Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	var out strings.Builder
	for _, u := range objects {
		if u.GetKind() == "Deployment" && u.GetName() == operatorDeployment {
			setImages(t, u, image)
			changed++
		}
		text, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(text))
	}
	if changed != 1 {
		t.Fatalf("install.yaml has %d Deployments %s", changed, operatorDeployment)
	}
	path := filepath.Join(t.TempDir(), "install.yaml")
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "apply", "--server-side", "-f", path)
	c.InstallCRDs(t) // Applied above; this waits until they are served.
}

func setImages(t *testing.T, deployment *unstructured.Unstructured, image string) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("the Deployment of the operator has %d containers (%v)", len(containers), err)
	}
	container := containers[0].(map[string]any)
	container["image"] = image
	args, _ := container["args"].([]any)
	container["args"] = append(args, "--trustyai-image="+serviceImage, "--trustyai-proxy-image="+proxyImage,
		"--tfserving-image="+servingImage)
	if err := unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
}
