package seldon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// author makes a key of PGP in a folder: secret.gpg is what Helm signs with, and public.asc what verifies it.
func author(t *testing.T, dir string) {
	t.Helper()
	entity, err := openpgp.NewEntity("author", "", "author@example.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, fill func(*os.File) error) {
		file, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = fill(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("secret.gpg", func(f *os.File) error { return entity.SerializePrivate(f, nil) })
	write("public.asc", func(f *os.File) error {
		w, err := armor.Encode(f, openpgp.PublicKeyType, nil)
		if err != nil {
			return err
		}
		if err := entity.Serialize(w); err != nil {
			return err
		}
		return w.Close()
	})
}

// TestSignedCharts has Helm's own command sign charts. One without a signature, and one that somebody else has signed, changes nothing of what
// runs, and what runs is repaired.
func TestSignedCharts(t *testing.T) {
	c := cluster.Start(t)
	command, home, published := manifesttest.HelmCommand(t), t.TempDir(), t.TempDir()
	ours, theirs := filepath.Join(home, "ours"), filepath.Join(home, "theirs")
	for _, dir := range []string{ours, theirs} {
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		author(t, dir)
	}
	helm := func(args ...string) {
		t.Helper()
		cmd := exec.Command(command, args...)
		cmd.Env = []string{"HOME=" + home}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	// publish packages a version of the chart, signed by the key in a folder where one is given.
	publish := func(version, by string) {
		t.Helper()
		chart := filepath.Join(home, "small-"+version)
		if err := os.MkdirAll(filepath.Join(chart, "templates"), 0o750); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"Chart.yaml":       "{apiVersion: v2, name: small, version: " + version + "}\n",
			"templates/a.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {version: {{ .Chart.Version }}}}\n",
		} {
			if err := os.WriteFile(filepath.Join(chart, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"package", chart, "--destination", published}
		if by != "" {
			args = append(args, "--sign", "--key", "author", "--keyring", filepath.Join(by, "secret.gpg"))
		}
		helm(args...)
		helm("repo", "index", published)
	}
	var asked atomic.Int32
	files := http.FileServer(http.Dir(published))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			asked.Add(1)
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	start(t, c, repository(t).URL, harness.Options{})
	ns := c.Namespace(t)
	c.Kubectl(t, "-n", ns, "create", "secret", "generic", "keys", "--from-file="+filepath.Join(ours, "public.asc"))
	want := func(version, provider string) string {
		return fmt.Sprintf(`{core: {chart: {repository: %q, name: small, version: %s, verify: {provider: %s, secretRef: {name: keys}}}}}`, server.URL, version, provider)
	}
	if out, err := c.TryKubectl("-n", ns, "create", "-f", manifest(t, want("1.0.0", "cosign"))); err == nil || !strings.Contains(out+err.Error(), "set it to cosign for an oci:// address") {
		t.Errorf("a provider that does not fit is admitted: %s, %v", out, err)
	}
	publish("1.0.0", "")
	apply(t, c, ns, want("1.0.0", "pgp"))
	cluster.Eventually(t, patience, func() error {
		return reason(get(t, c, ns, "stack"), "SignatureMissing", "spec.core.chart.verify (small 1.0.0): ")
	})
	if c.Get(t, configMaps, ns, "one") != nil || asked.Load() > 0 {
		t.Error("a chart without a signature is fetched or rendered")
	}
	publish("1.0.0", ours)
	c.Kubectl(t, "-n", ns, "annotate", "seldonoperator", "stack", "keeper.mlkeeper.dev/reconcile-at=now")
	version := func() error {
		if got := text(c.Get(t, configMaps, ns, "one"), "data", "version"); got != "1.0.0" {
			return fmt.Errorf("the version is %q", got)
		}
		return nil
	}
	cluster.Eventually(t, patience, func() error {
		if err := version(); err != nil {
			return err
		}
		return ready(get(t, c, ns, "stack"))
	})
	publish("1.1.0", theirs)
	apply(t, c, ns, want("1.1.0", "pgp"))
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "SignatureInvalid", "none of the keys") })
	c.Kubectl(t, "-n", ns, "delete", "configmap", "one")
	cluster.Eventually(t, patience, version)
	// The key is known from now on.
	c.Kubectl(t, "-n", ns, "patch", "secret", "keys", "-p", fmt.Sprintf(`{"stringData":{"theirs.asc":%q}}`, read(t, filepath.Join(theirs, "public.asc"))))
	cluster.Eventually(t, patience, func() error {
		if got := text(c.Get(t, configMaps, ns, "one"), "data", "version"); got != "1.1.0" {
			return fmt.Errorf("the version is %q", got)
		}
		return ready(get(t, c, ns, "stack"))
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// manifest is a file with a SeldonOperator that only its admission is tested with.
func manifest(t *testing.T, spec string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "refused.yaml")
	text := "apiVersion: operator.seldon.io/v1alpha1\nkind: SeldonOperator\nmetadata: {name: refused}\nspec: " + spec + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
