package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// bill is what an artifact consists of, as the Go linker wrote it into the binary.
type bill struct {
	artifact, version, digest string
	at                        time.Time
	modules                   []module
}

// module is one Go module, the standard library included.
type module struct{ path, version string }

// readBill reads the modules of a binary.
func readBill(artifact, version string, binary, content []byte, at time.Time) (*bill, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", artifact, err)
	}
	b := &bill{artifact: artifact, version: version, digest: sha256Hex(content), at: at}
	b.modules = append(b.modules, module{"stdlib", strings.TrimPrefix(info.GoVersion, "go")})
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		b.modules = append(b.modules, module{dep.Path, dep.Version})
	}
	return b, nil
}

// url is the package URL of a module (package-url/purl-spec, type golang).
func (m module) url() string { return "pkg:golang/" + m.path + "@" + m.version }

// spdx is the bill as SPDX 2.3 in JSON.
func (b *bill) spdx() ([]byte, error) {
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: b.artifact,
		DocumentNamespace: "https://mlkeeper.dev/spdx/" + b.artifact + "-" + b.digest,
		CreationInfo: &spdx.CreationInfo{
			Created: b.at.UTC().Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "mlkeeper-release"}},
		},
	}
	add := func(id, name, version string) *spdx.Package {
		p := &spdx.Package{
			PackageSPDXIdentifier: common.ElementID(id), PackageName: name, PackageVersion: version,
			PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION",
			PackageCopyrightText: "NOASSERTION", IsFilesAnalyzedTagPresent: true,
		}
		document.Packages = append(document.Packages, p)
		return p
	}
	relate := func(from, to, kind string) {
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", from), RefB: common.MakeDocElementID("", to), Relationship: kind,
		})
	}
	root := add("Artifact", b.artifact, b.version)
	root.PackageLicenseDeclared = "Apache-2.0"
	root.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: b.digest}}
	relate("DOCUMENT", "Artifact", common.TypeRelationshipDescribe)
	for i, m := range b.modules {
		id := fmt.Sprintf("Module-%d", i+1)
		add(id, m.path, m.version).PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: m.url(),
		}}
		relate("Artifact", id, common.TypeRelationshipContains)
	}
	var out bytes.Buffer
	err := spdxjson.Write(document, &out, spdxjson.Indent("  "))
	return out.Bytes(), err
}

// cycloneDX is the bill as CycloneDX in JSON.
func (b *bill) cycloneDX() ([]byte, error) {
	bom := cyclonedx.NewBOM()
	const root = "artifact"
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.at.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: root, Type: cyclonedx.ComponentTypeApplication, Name: b.artifact, Version: b.version,
			Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: b.digest}},
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	var components []cyclonedx.Component
	var needs []string
	for _, m := range b.modules {
		components = append(components, cyclonedx.Component{
			BOMRef: m.url(), Type: cyclonedx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: m.url(),
		})
		needs = append(needs, m.url())
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: root, Dependencies: &needs}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}
