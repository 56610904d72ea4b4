package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	public "golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// user is the non-root user of the image, numeric so that runAsNonRoot can be verified.
	user = "65532:65532"
	// certificates is where Go looks for root certificates first.
	certificates = "etc/ssl/certs/ca-certificates.crt"
)

// options are the flags.
type options struct {
	binary, arch, version, certificates string
	image, input, output                string
	push                                bool
}

// runImage is the command image: it makes a container image from one static binary, without Docker, and pushes it. The same binary
// gives the same image, byte for byte: nothing in it tells when or where it was made.
func runImage(args []string) error {
	var o options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", "", "static linux binary to make an image of")
	flags.StringVar(&o.arch, "arch", "amd64", "architecture of the binary")
	flags.StringVar(&o.version, "version", "", "version to label the image with")
	flags.StringVar(&o.certificates, "ca-certificates", "", "PEM file of certificates to trust beside the public ones; empty for none")
	flags.StringVar(&o.image, "image", "", "name of the image, with registry and tag")
	flags.StringVar(&o.input, "input", "", "image tarball to push instead of making one")
	flags.StringVar(&o.output, "output", "", "tarball to write the image to")
	flags.BoolVar(&o.push, "push", false, "push the image to the registry that its name names")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return run(o)
}

// run makes or reads the image, then writes and pushes it as asked.
func run(o options) error {
	tag, err := name.NewTag(o.image)
	if err != nil {
		return fmt.Errorf("image name %q: %w", o.image, err)
	}
	var image v1.Image
	switch {
	case o.input != "" && o.binary == "":
		image, err = tarball.ImageFromPath(o.input, nil)
	case o.binary != "" && o.input == "":
		image, err = build(o)
	default:
		err = errors.New("give either -binary or -input")
	}
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	if o.output != "" {
		if err := tarball.WriteToFile(o.output, tag, image); err != nil {
			return err
		}
		fmt.Printf("wrote %s: %s, %s\n", o.output, o.image, digest)
	}
	if o.push {
		if err := remote.Write(tag, image, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("push: %w", err)
		}
		fmt.Printf("pushed %s, %s\n", tag.Name(), digest)
	}
	return nil
}

// build makes the operator's image.
func build(o options) (v1.Image, error) {
	content, err := layer(o)
	if err != nil {
		return nil, err
	}
	return single(content, o.arch, v1.Config{
		User:       user,
		Entrypoint: []string{"/mlkeeper"},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "mlkeeper",
			"org.opencontainers.image.version":  o.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	})
}

// single makes an image of one layer.
func single(content []byte, arch string, settings v1.Config) (v1.Image, error) {
	blob, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, blob)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = arch
	config.Config = settings
	return mutate.ConfigFile(image, config)
}

// layer is the root file system: the binary, a folder for temporary files, and the certificates, beside which Go reads those of a folder that
// SSL_CERT_DIR names.
func layer(o options) ([]byte, error) {
	binary, err := os.ReadFile(o.binary)
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{tar.Header{Typeflag: tar.TypeReg, Name: "mlkeeper", Mode: 0o755}, binary},
		{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil},
	}
	trusted, err := bundle(o.certificates)
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		entries = append(entries, entry{tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755}, nil})
	}
	entries = append(entries, entry{tar.Header{Typeflag: tar.TypeReg, Name: certificates, Mode: 0o644}, trusted})
	var buffer bytes.Buffer
	if err := writeTar(&buffer, entries, time.Unix(0, 0)); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// bundle is the public root certificates and those of a file, if one is given. The binary's own count only where the image has none, so both
// have to be there. A root with a constraint is left out, since a PEM file cannot say it.
func bundle(file string) ([]byte, error) {
	var own []byte
	if file != "" {
		var err error
		if own, err = os.ReadFile(file); err != nil {
			return nil, err
		}
		if !x509.NewCertPool().AppendCertsFromPEM(own) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", file)
		}
	}
	var out bytes.Buffer
	for root := range public.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return append(out.Bytes(), own...), nil
}
