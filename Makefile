# MLKeeper's targets; "make help" lists them. Go, make and git are all they need: every tool is built from Go modules
# into bin/tools.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Builds and tests compile alike, so that each package is compiled once; the race detector alone needs C.
export CGO_ENABLED ?= 0

# IMG is the name of the operator's image, with registry and tag.
IMG ?= registry.invalid/mlkeeper:dev
# ARCH is the architecture of the image.
ARCH ?= $(shell go env GOARCH)
# IMAGE_FLAGS are those of go build for the binary in the image: it names no path of the machine that built it.
IMAGE_FLAGS ?= -trimpath
# IMAGE is the repository of a release's image, without a tag, and KEY the private key in PEM that signs the release; empty for none.
IMAGE ?=
KEY ?=
# SOURCE is the address of the repository: where a release's files are, and where the documentation links to files that are no pages.
SOURCE ?=
# CA_CERTIFICATES is a PEM file of certificates that the image trusts beside the public ones; empty for none.
CA_CERTIFICATES ?=
# NAMESPACE is where deploy puts the operator, and where run keeps the key of its digests.
NAMESPACE ?= mlkeeper-system
# FORCE=1 makes install and deploy adopt definitions whose operator still runs, and take fields from other tools.
FORCE ?=
# TIMEOUT is how long uninstall and undeploy wait for the custom resources to go.
TIMEOUT ?= 5m
# CONTROLLERS are the controllers that deploy switches on, separated by spaces, and COMPONENTS the other parts of config/components; it
# switches off all others, and deletes their rights. The controller kserve comes with the component participant.
CONTROLLERS ?= trustyai tfserving kubeflow seldon
COMPONENTS ?=
# PKG limits test, test-race and fuzz-smoke to some packages of the main module; with it, the other modules are left out.
PKG ?=
# FUZZTIME is how long fuzz-smoke runs each fuzz target.
FUZZTIME ?= 10s
# SAMPLE is the number of mutations that test-bank runs, and SEED selects them: a number made of the commit's hash, which a shallow
# clone has too.
SAMPLE ?= 5
SEED ?= $(shell printf %d 0x$$(git rev-parse --short=7 HEAD 2>/dev/null | cut -c1-7 | grep . || echo 1))
# HOURS is how long soak runs; fractions are fine.
HOURS ?= 2
# ARGS are further flags of what run, faults, soak, test-bank, test-node and bench start.
ARGS ?=
# PREVIOUS is the commit that test-install upgrades from; empty for the last tag.
PREVIOUS ?=
# PLAN is the plan file that faults replays; empty for all campaigns.
PLAN ?=

# ALL_CONTROLLERS are the controllers that have a ClusterRole of their own, and ALL_COMPONENTS what undeploy deletes. The kinds of monitoring are
# not in every cluster: its objects go with what is off.
ALL_CONTROLLERS := trustyai tfserving kubeflow seldon kserve
ALL_COMPONENTS := $(filter-out $(ALL_CONTROLLERS) monitoring,$(notdir $(wildcard config/components/*)))
VERSION ?= $(shell hack/version.sh)
# KUBECTL is the kubectl on the PATH, else the one inside bin/devcluster, which wants to be told of another kubeconfig.
KUBECTL ?= $(or $(shell command -v kubectl 2>/dev/null),bin/devcluster kubectl$(if $(KUBECONFIG), --kubeconfig=$(KUBECONFIG)))
kubectl_deps := $(if $(findstring bin/devcluster,$(KUBECTL)),build-devcluster)

TOOLS := bin/tools
CONTROLLER_GEN := $(TOOLS)/controller-gen
KUSTOMIZE := $(TOOLS)/kustomize
GOLANGCI_LINT := $(TOOLS)/golangci-lint
ACTIONLINT := $(TOOLS)/actionlint
GOVULNCHECK := $(TOOLS)/govulncheck
HELM := $(TOOLS)/helm
CATALOG_TOOL := $(TOOLS)/catalog
RELEASE_TOOL := $(TOOLS)/release
CHART_TOOL := $(TOOLS)/chart
DOCS_TOOL := $(TOOLS)/docs
IMAGE_TAR := bin/mlkeeper-image.tar

GO_BUILD := hack/gobuild.sh
PRODUCT_LDFLAGS := -s -w -X mlkeeper.dev/internal/version.Version=$(VERSION)

##@ Everyday

.PHONY: help
help: ## Print this list.
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z][a-z-]*:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: build-mlkeeper build-devcluster ## Build bin/mlkeeper and bin/devcluster (five to ten minutes the first time on two cores, then seconds).

.PHONY: build-mlkeeper
build-mlkeeper:
	@$(GO_BUILD) -o bin/mlkeeper -ldflags '$(PRODUCT_LDFLAGS)' ./cmd/mlkeeper

.PHONY: build-devcluster
build-devcluster:
	@$(GO_BUILD) -C devcluster -o bin/devcluster -ldflags "$$(cat devcluster/ldflags.txt 2>/dev/null || true)" .

.PHONY: demo
demo: build ## Show it: boot a real control plane, apply a TrustyAIService, watch it become Ready, break it, see it repaired.
	@hack/demo.sh

##@ Tests

.PHONY: test
test: build ## Vet and test every module, on a real control plane where it matters.
	@hack/test.sh $(PKG)

.PHONY: test-race
test-race: build ## The same with the race detector (needs a C compiler).
	@RACE=1 hack/test.sh $(PKG)

.PHONY: fuzz-smoke
fuzz-smoke: ## Run every fuzz target for FUZZTIME (10s, or 1000x for a count), or those in the folders PKG.
	@FUZZTIME=$(FUZZTIME) hack/fuzz.sh $(PKG)

.PHONY: test-node
test-node: build ## Test the operator as a pod on a real node (REQUIRE_NODE=1 fails without root, containerd, runc, CNI plugins, iptables).
	@ARGS="$(ARGS)" hack/test-node.sh

.PHONY: test-install
test-install: build $(HELM) ## Install a release of this commit on a real node by file, kustomize, chart and bundle, as an upgrade of the last tag or of PREVIOUS=commit, and uninstall it (REQUIRE_NODE=1 as above).
	@HELM=$(abspath $(HELM)) PREVIOUS="$(PREVIOUS)" ARGS="$(ARGS)" hack/test-node.sh install

.PHONY: test-kafka
test-kafka: build ## Test the KServe participant on a real Apache Kafka, where Java and Maven are present (REQUIRE=1 fails without them).
	@hack/test-kafka.sh

.PHONY: test-acm
test-acm: build ## Test the KServe participant on ONAP's own runtime: RUNTIME_JAR is a jar of policy-clamp-runtime-acm, RUNTIME_JAVA its java (REQUIRE=1 fails without them).
	@RUNTIME_JAR=$(RUNTIME_JAR) RUNTIME_JAVA=$(RUNTIME_JAVA) hack/test-acm.sh bin/acm

.PHONY: test-modelconfig
test-modelconfig: ## Compare the reader of model configs with protobuf and PyPI's tensorflow-serving-api (REQUIRE=1 fails without Python, UPDATE=1 writes the descriptors).
	@hack/test-modelconfig.sh

.PHONY: test-kserve
test-kserve: build ## Test MLKeeper on KServe's own controller and agent, built from KSERVE, a version such as v0.17.0 or a checkout (REQUIRE=1 fails without it, IDLE=15m looks longer for writes, RECORD=1 writes the stand-in's test data).
	@KSERVE=$(KSERVE) IDLE=$(IDLE) hack/test-kserve.sh bin/kserve

.PHONY: test-kubeflow
test-kubeflow: ## Compare the rendering of Kubeflow's example with kustomize build, in a checkout of kubeflow/manifests that MANIFESTS names (REMOTES=folder in place of the network; REQUIRE=1 fails without MANIFESTS).
	@MANIFESTS=$(MANIFESTS) REMOTES=$(REMOTES) hack/test-kubeflow.sh

.PHONY: test-charts
test-charts: build ## Compare what becomes of charts with what helm template and helm upgrade make of them: CHARTS is a folder with two versions of each (REQUIRE=1 fails without it).
	@CHARTS="$(CHARTS)" hack/test-charts.sh

.PHONY: test-cert-manager
test-cert-manager: build ## Test Secured services on cert-manager's own controllers, built from its module (REQUIRE=1 fails without it).
	@hack/test-cert-manager.sh bin/cert-manager

.PHONY: test-rbac-proxy
test-rbac-proxy: ## Test the rendering for kube-rbac-proxy on that program, built from its module (REQUIRE=1 fails without it).
	@hack/test-rbac-proxy.sh bin/kube-rbac-proxy

.PHONY: test-trustyai
test-trustyai: ## Test the rendering for TrustyAI's service on that program, from the checkout SERVICE (PYTHON=python3.12, REQUIRE=1 fails without them, RECORD=1 writes the stand-in's test data).
	@SERVICE="$(SERVICE)" hack/test-trustyai.sh bin/trustyai

.PHONY: test-original
test-original: build ## Test that the services of the upstream operator itself, from the checkout OPERATOR, are taken over and handed back with no pod restarted (REQUIRE=1 fails without it).
	@OPERATOR="$(OPERATOR)" hack/test-original.sh bin/original

.PHONY: test-tfserving
test-tfserving: ## Run the tests of the stand-in for TensorFlow Serving on the real program: SERVER is a tensorflow_model_server (REQUIRE=1 fails without it).
	@SERVER="$(SERVER)" hack/test-tfserving.sh

.PHONY: test-chart
test-chart: build $(HELM) ## Install, upgrade and uninstall charts/mlkeeper with helm, built from its module, and install it by helm and by make over every original.
	@HELM=$(abspath $(HELM)) go test -tags realhelm -count=1 -timeout 20m -v ./test/chart
	@HELM=$(abspath $(HELM)) go test -tags realhelm -count=1 -timeout 30m -v -run '^Test(Chart|MakeOver)' ./test/install -install.every-way

.PHONY: test-versions
test-versions: build ## Run the end-to-end tests on the oldest and the newest supported release of Kubernetes, built from their modules (PKG=other packages, REQUIRE=1 fails without them).
	@hack/test-versions.sh $(PKG)

.PHONY: test-console
test-console: build ## Test the page of mlkeeper console on the demo, in a Chromium where one is installed (REQUIRE=1 fails without it; STACKS=2000 custom resources are measured).
	@hack/test-console.sh

.PHONY: screenshots
screenshots: build ## Take the screenshots of docs/console.md from the demo, with a Chromium.
	@SCREENSHOTS=$(CURDIR)/docs/images REQUIRE=1 hack/test-console.sh

.PHONY: test-servicemonitors
test-servicemonitors: ## Test the ServiceMonitors on the Prometheus operator's generator and Prometheus' scraper, built from their modules (REQUIRE=1 fails without them).
	@hack/test-servicemonitors.sh bin/prometheus-operator

.PHONY: rbac-minimal
rbac-minimal: build ## Run the tests that need a cluster (PKG=some of them), and fail if a right of the operator's roles is unused or missing without a reason.
	@hack/rbac-minimal.sh $(PKG)

.PHONY: faults
faults: build-devcluster ## Run the fault campaigns, misoperation included, and the mutations that a campaign must detect (ARGS=flags), or replay one plan (PLAN=file).
	@PLAN="$(PLAN)" ARGS="$(ARGS)" hack/faults.sh

.PHONY: soak
soak: build-devcluster ## Run all kinds for HOURS (2) with random users, faults and upgrades; fail if memory, goroutines, files or maps grow (ARGS=flags).
	@HOURS="$(HOURS)" ARGS="$(ARGS)" hack/soak.sh

.PHONY: test-bank
test-bank: build-devcluster ## Run SAMPLE mutations (5), other ones with each commit (SEED); the campaigns or tests that they name must detect them.
	@hack/mutations.sh -sample $(SAMPLE) -seed $(SEED) $(ARGS)

.PHONY: bench
bench: build $(KUSTOMIZE) $(HELM) ## Measure against the API-server baseline; table, JSON, profiles, page in bin/bench (QUICK=1, ONLY=converge,idle, SCALE=1, ARGS=flags).
	@hack/bench.sh

.PHONY: lint
lint: $(GOLANGCI_LINT) $(ACTIONLINT) ## Run golangci-lint on every module (.golangci.yml says what it checks and why), actionlint and shellcheck.
	@hack/lint.sh $(GOLANGCI_LINT) $(ACTIONLINT)

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Fail for a known vulnerability in what the operator calls; NOT RUN where the database cannot be reached (REQUIRE_VULNDB=1 fails then).
	@hack/vulncheck.sh $(GOVULNCHECK)

.PHONY: verify
verify: $(CONTROLLER_GEN) $(CATALOG_TOOL) $(KUSTOMIZE) ## Fail if a generated file or a go.mod is not what make generate manifests and go mod tidy make.
	@hack/verify.sh

##@ Generated files

# The definitions say that unknown fields are pruned, since one that an original operator applied as apiextensions v1beta1 says the contrary,
# with which the API server refuses defaults and rules.
.PHONY: generate
generate: $(CONTROLLER_GEN) $(CATALOG_TOOL) ## Write deep copies and CustomResourceDefinitions from the types in api/, and those of others for devcluster from their modules.
	@echo "generate: deep copies in api/, CustomResourceDefinitions in config/crd and devcluster/internal/catalog/crds"
	@$(CATALOG_TOOL)
	@rm -rf bin/crd
	@$(CONTROLLER_GEN) object crd paths=./api/... output:crd:artifacts:config=bin/crd
	@hack/definitions.sh bin/crd

.PHONY: manifests
manifests: generate build-mlkeeper $(KUSTOMIZE) $(DOCS_TOOL) ## Write the ClusterRoles, dashboard and alerts, config/install.yaml (namespace, CustomResourceDefinitions, RBAC and operator in one file), charts/mlkeeper and docs/reference.
	@echo "manifests: config/rbac/*/role.yaml config/components/manifests config/monitoring config/install.yaml charts/mlkeeper docs/reference"
	@bin/mlkeeper rbac --engine > bin/role.yaml && mv bin/role.yaml config/rbac/engine/role.yaml
	@for controller in $(ALL_CONTROLLERS); do bin/mlkeeper rbac --controller "$$controller" > bin/role.yaml; mv bin/role.yaml "config/rbac/$$controller/role.yaml"; done
	@bin/mlkeeper rbac --kinds > bin/role.yaml && mv bin/role.yaml config/components/manifests/role.yaml
	@for file in dashboard.json rules.yaml prometheusrule.yaml metrics.json; do bin/mlkeeper monitoring "$${file%.*}" > bin/monitoring.tmp; mv bin/monitoring.tmp "config/monitoring/$$file"; done
	@{ echo "# Generated by make manifests from config/default; do not edit."; $(KUSTOMIZE) build config/default; } > bin/install.yaml
	@mv bin/install.yaml config/install.yaml
	@$(GO_BUILD) -o $(CHART_TOOL) ./hack/chart && $(CHART_TOOL)
	@$(DOCS_TOOL) reference

.PHONY: docs
docs: $(DOCS_TOOL) ## Write the documentation as a site to bin/docs, and fail for a link that leads nowhere; open bin/docs/index.html.
	@$(DOCS_TOOL) site -output bin/docs $(if $(SOURCE),-source "$(SOURCE)")
	@echo "docs: bin/docs/index.html"

##@ Image

.PHONY: image
image: $(RELEASE_TOOL) ## Build bin/mlkeeper-image.tar, an image of the static binary (ARCH=amd64|arm64, CA_CERTIFICATES=file); needs no Docker.
	@GOBUILD_FLAGS="$(IMAGE_FLAGS)" GOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -o bin/image/linux-$(ARCH)/mlkeeper -ldflags '$(PRODUCT_LDFLAGS)' ./cmd/mlkeeper
	@$(RELEASE_TOOL) image -binary bin/image/linux-$(ARCH)/mlkeeper -arch $(ARCH) -version $(VERSION) \
		-ca-certificates "$(CA_CERTIFICATES)" -image $(IMG) -output $(IMAGE_TAR)

.PHONY: push
push: image ## Push the image to the registry that IMG names, with the credentials of ~/.docker/config.json.
	@$(RELEASE_TOOL) image -input $(IMAGE_TAR) -image $(IMG) -push

.PHONY: release
release: $(RELEASE_TOOL) $(KUSTOMIZE) ## Make a release in bin/release/VERSION (VERSION=v0.1.0 IMAGE=repository KEY=private key in PEM): image, archives, SBOMs, manifests, chart, checksums, provenance.
	@VERSION="$(VERSION)" IMAGE="$(IMAGE)" KEY="$(KEY)" hack/release.sh $(RELEASE_TOOL) $(KUSTOMIZE)

.PHONY: push-release
push-release: $(RELEASE_TOOL) ## Push the image of a release, and its signature, to the repository IMAGE (VERSION=v0.1.0).
	@$(RELEASE_TOOL) push -dist "bin/release/$(VERSION)" -image "$(IMAGE)"

##@ A cluster (the one of the current kubeconfig)

.PHONY: install
install: $(kubectl_deps) ## Apply the CustomResourceDefinitions and adopt those of a stopped operator (FORCE=1: of one that runs, too).
	@KUBECTL="$(KUBECTL)" FORCE="$(FORCE)" hack/crds.sh

.PHONY: uninstall
uninstall: $(kubectl_deps) ## Delete MLKeeper's CustomResourceDefinitions, and with them every resource of these kinds; another operator's stay.
	@KUBECTL="$(KUBECTL)" TIMEOUT="$(TIMEOUT)" hack/uninstall.sh

.PHONY: run
run: build-mlkeeper ## Run the manager on this machine against the current kubeconfig (NAMESPACE=existing namespace, ARGS=further flags).
	bin/mlkeeper manager --leader-election-namespace="$(NAMESPACE)" $(ARGS)

.PHONY: deploy
deploy: $(kubectl_deps) ## Deploy the operator (IMG=image, NAMESPACE=namespace, CONTROLLERS="trustyai tfserving kubeflow seldon", COMPONENTS="participant network-policy ...").
	@[[ "$(origin IMG)" != file ]] || { echo "make deploy: say which image to run, such as IMG=registry.example.com/mlkeeper:v0.1.0" >&2; exit 1; }
	@KUBECTL="$(KUBECTL)" IMG="$(IMG)" NAMESPACE="$(NAMESPACE)" CONTROLLERS="$(CONTROLLERS)" COMPONENTS="$(COMPONENTS)" hack/overlay.sh
	@KUBECTL="$(KUBECTL)" NAMESPACE="$(NAMESPACE)" hack/namespace.sh check
	@KUBECTL="$(KUBECTL)" FORCE="$(FORCE)" CONTROLLERS="$(CONTROLLERS)$(if $(filter participant,$(COMPONENTS)), kserve)" hack/crds.sh
	$(KUBECTL) apply --server-side $(if $(filter 1,$(FORCE)),--force-conflicts) -k bin/deploy
	@[[ ! -e bin/deploy/off ]] || $(KUBECTL) delete --ignore-not-found -k bin/deploy/off
	@KUBECTL="$(KUBECTL)" NAMESPACE="$(NAMESPACE)" hack/namespace.sh prune

.PHONY: undeploy
undeploy: $(kubectl_deps) ## Delete what deploy applied: the operator, MLKeeper's CustomResourceDefinitions and, where nothing of others is in it, the namespace.
	@KUBECTL="$(KUBECTL)" IMG="$(IMG)" NAMESPACE="$(NAMESPACE)" CONTROLLERS="$(filter-out kserve,$(ALL_CONTROLLERS))" COMPONENTS="$(ALL_COMPONENTS)" hack/overlay.sh
	@# The operator runs until the custom resources are gone, since it removes what it has written to objects of others.
	@KUBECTL="$(KUBECTL)" TIMEOUT="$(TIMEOUT)" hack/uninstall.sh
	$(KUBECTL) delete --ignore-not-found -k bin/deploy/off
	$(KUBECTL) delete --ignore-not-found -k bin/undeploy
	@KUBECTL="$(KUBECTL)" NAMESPACE="$(NAMESPACE)" hack/namespace.sh delete

# The tools. Each is rebuilt when the go.mod that pins its version changes.

$(CONTROLLER_GEN): hack/tools/go.mod
	@$(GO_BUILD) -C hack/tools -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen && touch $@

$(ACTIONLINT): hack/tools/go.mod
	@$(GO_BUILD) -C hack/tools -o $@ github.com/rhysd/actionlint/cmd/actionlint && touch $@

$(KUSTOMIZE): hack/tools/go.mod
	@$(GO_BUILD) -C hack/tools -o $@ sigs.k8s.io/kustomize/kustomize/v5 && touch $@

$(GOLANGCI_LINT): hack/tools/golangci/go.mod
	@$(GO_BUILD) -C hack/tools/golangci -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint && touch $@

$(GOVULNCHECK): hack/tools/govulncheck/go.mod
	@$(GO_BUILD) -C hack/tools/govulncheck -o $@ golang.org/x/vuln/cmd/govulncheck && touch $@

$(HELM): hack/tools/helm/go.mod
	@$(GO_BUILD) -C hack/tools/helm -o $@ helm.sh/helm/v4/cmd/helm && touch $@

$(CATALOG_TOOL): hack/catalog/go.mod hack/catalog/main.go
	@$(GO_BUILD) -C hack/catalog -o $@ . && touch $@

$(RELEASE_TOOL): hack/release/go.mod $(wildcard hack/release/*.go hack/release/templates/*)
	@$(GO_BUILD) -C hack/release -o $@ . && touch $@

$(DOCS_TOOL): hack/docs/go.mod $(wildcard hack/docs/*.go hack/docs/site/*)
	@$(GO_BUILD) -C hack/docs -o $@ . && touch $@
