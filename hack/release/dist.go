package main

import (
	"bytes"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageFolder is the OCI image layout below the folder of a release.
const imageFolder = "image"

//go:embed templates
var templates embed.FS

// distOptions are the flags of dist.
type distOptions struct {
	version, image, source, commit, goVersion string
	root, binaries, manifests, completions    string
	output, key, help                         string
	seconds                                   int64
	at                                        time.Time
}

// dist is a release under way.
type dist struct {
	distOptions
	signer *signer
	// files are what is written, by name.
	files map[string][]byte
	// digest is that of the image index, which has an image for each of the architectures.
	digest        v1.Hash
	architectures map[string]bool
	// channel is that of OLM by default.
	channel string
	// operands are the images that the binary starts by default.
	operands []operand
	// layout is what the OCI layout has beside the index, by tag, and published what of it is no signature.
	layout    map[string]v1.Image
	published []subject
}

// operand is an image that the operator starts, with the flag of the manager that names another.
type operand struct{ name, image string }

// flags are those that the commands check and dist have in common.
func (o *distOptions) flags(command string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.StringVar(&o.version, "version", "", "version of the release, such as v0.1.0")
	flags.StringVar(&o.image, "image", "", "repository of the image, without a tag")
	flags.StringVar(&o.root, "root", ".", "folder of the repository")
	flags.StringVar(&o.key, "key", "", "private key in PEM to sign with; empty for no signatures")
	return flags
}

// runCheck is the command check. Compiling for every platform takes a quarter of an hour.
func runCheck(args []string) error {
	var o distOptions
	if err := o.flags("check").Parse(args); err != nil {
		return err
	}
	_, err := begin(o)
	return err
}

// begin checks what needs no binary, and writes nothing.
func begin(o distOptions) (*dist, error) {
	d := &dist{distOptions: o, files: map[string][]byte{}, layout: map[string]v1.Image{}, architectures: map[string]bool{}}
	if _, err := name.NewRepository(o.image); err != nil {
		return nil, fmt.Errorf("IMAGE %q is not like registry.example.com/mlkeeper: %w", o.image, err)
	}
	if o.key != "" {
		var err error
		if d.signer, err = readSigner(o.key); err != nil {
			return nil, err
		}
	}
	return d, d.notes()
}

// runDist is the command dist.
func runDist(args []string) error {
	var o distOptions
	flags := o.flags("dist")
	flags.StringVar(&o.source, "source", "https://mlkeeper.dev/mlkeeper", "address of the source repository and of its downloads")
	flags.StringVar(&o.commit, "commit", "", "commit that the binaries were built from")
	flags.Int64Var(&o.seconds, "time", 0, "time of all files, in seconds since 1970: that of the commit")
	flags.StringVar(&o.binaries, "binaries", "", "folder with OS-ARCH/mlkeeper of every platform")
	flags.StringVar(&o.manifests, "manifests", "", "folder with the manifests that name the image registry.invalid/mlkeeper:dev")
	flags.StringVar(&o.completions, "completions", "", "folder with the completions of shells")
	flags.StringVar(&o.help, "help-text", "", "file with what mlkeeper manager --help prints, which names the images that the operator starts")
	flags.StringVar(&o.output, "output", "", "folder to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.at = time.Unix(o.seconds, 0)
	if info, ok := debug.ReadBuildInfo(); ok {
		o.goVersion = info.GoVersion
	}
	for name, value := range map[string]string{"version": o.version, "image": o.image, "binaries": o.binaries, "output": o.output} {
		if value == "" {
			return fmt.Errorf("dist needs -%s", name)
		}
	}
	return makeDist(o)
}

// makeDist makes everything of a release in memory, and writes it at the end: a release that fails leaves nothing.
func makeDist(o distOptions) error {
	d, err := begin(o)
	if err != nil {
		return err
	}
	images, err := d.images()
	if err != nil {
		return err
	}
	for _, step := range []func() error{d.kubernetes, d.olm, d.chart, d.archives, d.packages, d.attest} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(o.output); err != nil {
		return err
	}
	if err := os.MkdirAll(o.output, 0o755); err != nil {
		return err
	}
	for name, content := range d.files {
		if err := os.WriteFile(filepath.Join(o.output, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := writeLayout(filepath.Join(o.output, imageFolder), images, imageTag(o.version), d.layout); err != nil {
		return err
	}
	fmt.Printf("wrote %s: %d files, and the image %s@%s as an OCI layout\n", o.output, len(d.files), o.image, d.digest)
	return nil
}

// binary reads the binary of a platform.
func (d *dist) binary(platform string) ([]byte, error) {
	name := "mlkeeper"
	if strings.HasPrefix(platform, "windows-") {
		name += ".exe"
	}
	return os.ReadFile(filepath.Join(d.binaries, platform, name))
}

// platforms are OS-ARCH of the binaries.
func (d *dist) platforms() ([]string, error) {
	entries, err := os.ReadDir(d.binaries)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out, nil
}

// images makes the image index of the Linux binaries, and its signature.
func (d *dist) images() (v1.ImageIndex, error) {
	all, err := d.platforms()
	if err != nil {
		return nil, err
	}
	binaries := map[string]string{}
	for _, platform := range all {
		if arch, ok := strings.CutPrefix(platform, "linux-"); ok {
			binaries[arch] = filepath.Join(d.binaries, platform, "mlkeeper")
			d.architectures[arch] = true
		}
	}
	if len(binaries) == 0 {
		return nil, fmt.Errorf("%s has no binary for Linux, of which the image is made", d.binaries)
	}
	images, err := index(binaries, d.version, d.at, d.commit)
	if err != nil {
		return nil, err
	}
	if d.digest, err = images.Digest(); err != nil || d.signer == nil {
		return images, err
	}
	signature, tag, err := d.signer.signImage(d.image, d.digest)
	d.layout[tag] = signature
	return images, err
}

func (d *dist) notes() error {
	changelog, err := os.ReadFile(filepath.Join(d.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	text, err := notes(string(changelog), d.version)
	if err != nil {
		return err
	}
	d.files["RELEASE_NOTES.md"] = []byte("# MLKeeper " + d.version + "\n\n" + text)
	return nil
}

// archives packs the command line for each platform, with a bill of materials of each.
func (d *dist) archives() error {
	all, err := d.platforms()
	if err != nil {
		return err
	}
	var common []file
	for _, name := range []string{"LICENSE", "README.md"} {
		content, err := os.ReadFile(filepath.Join(d.root, name))
		if err != nil {
			return err
		}
		common = append(common, file{name, 0o644, content})
	}
	completions, err := filepath.Glob(filepath.Join(d.completions, "*"))
	if err != nil {
		return err
	}
	for _, path := range completions {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		common = append(common, file{"completions/" + filepath.Base(path), 0o644, content})
	}
	for _, platform := range all {
		if err := d.archive(platform, common); err != nil {
			return err
		}
	}
	return nil
}

// archive packs one binary.
func (d *dist) archive(platform string, common []file) error {
	binary, err := d.binary(platform)
	if err != nil {
		return err
	}
	pack, name, ending := targz, "mlkeeper", ".tar.gz"
	if strings.HasPrefix(platform, "windows-") {
		pack, name, ending = zipped, "mlkeeper.exe", ".zip"
	}
	archive := archiveName(d.version, platform) + ending
	content, err := pack(append([]file{{name, 0o755, binary}}, common...), d.at)
	if err != nil {
		return err
	}
	d.files[archive] = content
	bill, err := readBill(archive, d.version, binary, content, d.at)
	if err != nil {
		return err
	}
	if d.files[archive+".spdx.json"], err = bill.spdx(); err != nil {
		return err
	}
	d.files[archive+".cdx.json"], err = bill.cycloneDX()
	return err
}

func archiveName(version, platform string) string {
	return "mlkeeper_" + strings.TrimPrefix(version, "v") + "_" + strings.ReplaceAll(platform, "-", "_")
}

// development is the image of the manifests in config/, a name that nobody can resolve.
const development = "registry.invalid/mlkeeper:dev"

// operands finds the images that the binary starts by default, in the help of its flags.
var operands = regexp.MustCompile(`(?m)--([a-z]+(?:-[a-z]+)*)-image string .*\(default "([^"]+)"\)`)

// kubernetes writes the manifests with the image by its digest, and the list of all images for registries without the Internet.
func (d *dist) kubernetes() error {
	manifests, err := filepath.Glob(filepath.Join(d.manifests, "*.yaml"))
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		return fmt.Errorf("%s has no manifests", d.manifests)
	}
	for _, path := range manifests {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(content, []byte(development)); n != 1 {
			return fmt.Errorf("%s names the image %s %d times, not once", path, development, n)
		}
		d.files[filepath.Base(path)] = bytes.Replace(content, []byte(development), []byte(d.reference()), 1)
	}
	help, err := os.ReadFile(d.help)
	if err != nil {
		return err
	}
	list := []string{d.reference()}
	for _, m := range operands.FindAllSubmatch(help, -1) {
		d.operands = append(d.operands, operand{string(m[1]), string(m[2])})
		list = append(list, string(m[2]))
	}
	if len(list) == 1 {
		return errors.New("the help of mlkeeper manager names no default image")
	}
	d.files["images.txt"] = []byte(strings.Join(list, "\n") + "\n")
	return nil
}

// reference is the image by tag and digest: the digest counts, the tag is for people.
func (d *dist) reference() string {
	return d.image + ":" + imageTag(d.version) + "@" + d.digest.String()
}

// The lines of the chart that a release fills in.
var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
	repository   = regexp.MustCompile(`(?m)^  repository: ""$`)
	digest       = regexp.MustCompile(`(?m)^  digest: ""$`)
)

// chart packs charts/mlkeeper with the version and the image of the release.
func (d *dist) chart() error {
	from := filepath.Join(d.root, "charts", "mlkeeper")
	fill := map[string]map[*regexp.Regexp]string{
		"Chart.yaml":  {chartVersion: "version: " + strings.TrimPrefix(d.version, "v"), appVersion: "appVersion: " + d.version},
		"values.yaml": {repository: "  repository: " + d.image, digest: "  digest: " + d.digest.String()},
	}
	var files []file
	err := fs.WalkDir(os.DirFS(from), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
		for line, text := range fill[name] {
			if n := len(line.FindAll(content, -1)); n != 1 {
				return fmt.Errorf("%s has %d lines like %s, not one", name, n, line)
			}
			content = line.ReplaceAllLiteral(content, []byte(text))
		}
		files = append(files, file{path.Join("mlkeeper", name), 0o644, content})
		return err
	})
	if err != nil {
		return err
	}
	packed, err := targz(files, d.at)
	d.files["mlkeeper-"+strings.TrimPrefix(d.version, "v")+".tgz"] = packed
	return err
}

// packaged is an archive as package managers name it.
type packaged struct{ OS, Arch, Name, Sum, Binary string }

// packages fills the manifest of krew, the formula of Homebrew and the Subscription of OLM.
func (d *dist) packages() error {
	all, err := d.platforms()
	if err != nil {
		return err
	}
	var archives []packaged
	for _, platform := range all {
		one := packaged{Name: archiveName(d.version, platform) + ".tar.gz", Binary: "mlkeeper"}
		one.OS, one.Arch, _ = strings.Cut(platform, "-")
		if one.OS == "windows" {
			one.Name, one.Binary = archiveName(d.version, platform)+".zip", "mlkeeper.exe"
		}
		one.Sum = sha256Hex(d.files[one.Name])
		archives = append(archives, one)
	}
	values := map[string]any{
		"Version": d.version, "Number": strings.TrimPrefix(d.version, "v"), "Source": d.source, "Archives": archives,
		"Image": d.image, "Tag": imageTag(d.version), "Channel": d.channel,
	}
	return fs.WalkDir(templates, "templates", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		parsed, err := template.New(path.Base(name)).Option("missingkey=error").ParseFS(templates, name)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, values); err != nil {
			return err
		}
		d.files[strings.TrimSuffix(path.Base(name), ".tmpl")] = out.Bytes()
		return nil
	})
}

// attest writes checksums and provenance of all files and of the image, with signatures where there is a key.
func (d *dist) attest() error {
	subjects := append([]subject{{Name: d.image, Digest: map[string]string{d.digest.Algorithm: d.digest.Hex}}}, d.published...)
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		sum := sha256Hex(d.files[name])
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
		subjects = append(subjects, subject{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	statement, err := provenance(subjects, d.distOptions)
	if err != nil {
		return err
	}
	d.files["checksums.txt"] = []byte(sums.String())
	d.files["provenance.json"] = statement
	if d.signer == nil {
		return nil
	}
	signature, err := d.signer.sign(d.files["checksums.txt"])
	if err != nil {
		return err
	}
	d.files["checksums.txt.sig"] = []byte(signature)
	if d.files["provenance.intoto.jsonl"], err = d.signer.envelope(statement); err != nil {
		return err
	}
	d.files["cosign.pub"], err = d.signer.public()
	return err
}
