#!/usr/bin/env bash
# Make a release of the tree in bin/release/VERSION: binaries for every platform of PLATFORMS, and out of these, by TOOL: the image as an OCI layout,
# archives, bills of materials, manifests, the chart, packages, checksums and provenance. KEY signs them. Two runs of one commit give the same
# bytes, with the same Go.
# Usage: VERSION=v0.1.0 IMAGE=registry.example.com/mlkeeper [KEY=cosign.pem] [SOURCE=https://…] release.sh tool kustomize
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$1 kustomize=$2
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}
if [[ -z ${IMAGE-} || $IMAGE == registry.invalid/* ]]; then
  echo "make release: say under which name the image will be published, such as IMAGE=registry.example.com/mlkeeper" >&2
  exit 1
fi
if [[ -n $(git status --porcelain) ]]; then
  echo "make release: the tree has changes that are in no commit: commit them, or make the release on a clean clone" >&2
  exit 1
fi
"$tool" check -version "$VERSION" -image "$IMAGE" ${KEY:+-key "$KEY"}
work=bin/release/work
rm -rf "$work" && mkdir -p "$work/manifests" "$work/completions"

host=$(go env GOOS)-$(go env GOARCH)
for platform in $platforms; do
  os=${platform%/*} arch=${platform#*/} ending=''
  [[ $os != windows ]] || ending=.exe
  echo "release: $platform"
  # Nothing of the commit or of the machine beside the version: the commit stands in the provenance.
  GOBUILD_FLAGS="-trimpath -buildvcs=false" GOOS=$os GOARCH=$arch CGO_ENABLED=0 hack/gobuild.sh -o "$work/binaries/$os-$arch/mlkeeper$ending" \
    -ldflags "-s -w -X mlkeeper.dev/internal/version.Version=$VERSION" ./cmd/mlkeeper
done
mlkeeper=$work/binaries/$host/mlkeeper
if [[ ! -x $mlkeeper ]]; then
  echo "make release: PLATFORMS needs the one of this machine, ${host/-//}, whose binary prints the completions" >&2
  exit 1
fi
for shell in bash zsh fish powershell; do
  "$mlkeeper" completion "$shell" >"$work/completions/mlkeeper.$shell"
done
"$mlkeeper" manager --help >"$work/flags.txt"

cp config/install.yaml "$work/manifests/install.yaml"
"$kustomize" build config/trustyai >"$work/manifests/install-trustyai.yaml"

"$tool" dist -version "$VERSION" -image "$IMAGE" -commit "$(git rev-parse HEAD)" -time "$(git log -1 --format=%ct)" \
  ${SOURCE:+-source "$SOURCE"} ${KEY:+-key "$KEY"} -binaries "$work/binaries" -manifests "$work/manifests" \
  -completions "$work/completions" -help-text "$work/flags.txt" -output "bin/release/$VERSION"
rm -rf "$work"
