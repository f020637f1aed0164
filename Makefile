# `make help` lists the targets. Recipes longer than a few lines are scripts in hack/.
SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The version of the operator, its bundle and its images.
VERSION ?= 0.0.1
# The repository of the published images. BUNDLE_IMG and CATALOG_IMG derive from it.
IMAGE_BASE ?= ghcr.io/fettle-dev/fettle
IMG ?= $(IMAGE_BASE):v$(VERSION)
BUNDLE_IMG ?= $(IMAGE_BASE)-bundle:v$(VERSION)
CATALOG_IMG ?= $(IMAGE_BASE)-catalog:v$(VERSION)
# OLM channels of the bundle; the first one is the default channel. A pre-release is only in candidate.
ifneq ($(findstring -,$(VERSION)),)
CHANNELS ?= candidate
endif
CHANNELS ?= stable,candidate
# Architectures of `make image`; `make image ARCHES="amd64 arm64"` builds a multi-architecture image.
ARCHES ?= $(shell go env GOARCH)
# local: the cluster that `make up` creates. existing: the cluster of KUBECONFIG, whose nodes pull the images by name.
CLUSTER ?= local
# The registry to push to. Defaults to the local cluster's registry; empty for an existing cluster.
REGISTRY ?=
# The container engine of docker-build and docker-push.
CONTAINER_TOOL ?= docker

# run, install and deploy use KUBECONFIG if it is set. demo, e2e and the other scripts use it only with CLUSTER=existing.
ifneq ($(CLUSTER),existing)
KUBECONFIG ?= $(or $(FETTLE_CLUSTER),/var/lib/fettle-cluster)/kubeconfig
endif
export KUBECONFIG

export VERSION IMAGE_BASE IMG BUNDLE_IMG CATALOG_IMG CHANNELS ARCHES CLUSTER REGISTRY

LOGS := dist/logs
tool = $$(hack/tools/bin $(1))

##@ General

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "; print "Usage: make TARGET [VARIABLE=value]"} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' Makefile
	@echo; echo "Variables: VERSION=$(VERSION) IMG=$(IMG) CLUSTER=$(CLUSTER) REGISTRY=$(REGISTRY) ARCHES=\"$(ARCHES)\""

##@ Try it

.PHONY: demo
demo: ## Create a local cluster, install Fettle with OLM from its catalog, run a shop and place an order (DEMO=webapp: a WebApp)
	@hack/demo.sh

.PHONY: up
up: ## Create or repair the local cluster with all images of the tests (NODES=3 for three nodes)
	@hack/cluster.sh up

.PHONY: down
down: ## Delete the local cluster and everything that it created on this machine
	@hack/cluster.sh down

.PHONY: status
status: ## Show the status of the local cluster
	@hack/cluster.sh status

##@ Develop

.PHONY: build
build: ## Build the operator into bin/fettle
	@hack/build.sh bin/fettle

.PHONY: run
run: ## Run the operator on this machine against the cluster of KUBECONFIG (run make install first)
	go run . manager --webhooks=false --leader-elect=false --metrics-bind-address=0 $(RUN_ARGS)

.PHONY: generate
generate: ## Generate the DeepCopy methods of the API types
	$(call tool,kubebuilder)/controller-gen object paths=./api/...

.PHONY: manifests
manifests: ## Generate CRDs, the operator's ClusterRole and the webhook configuration from markers in the code
	$(call tool,kubebuilder)/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	$(call tool,kubebuilder)/controller-gen rbac:roleName=fettle-manager webhook \
	  paths="{./controllers/...,./internal/...}" output:rbac:dir=config/rbac output:webhook:dir=config/webhook

.PHONY: chart
chart: manifests ## Generate the templates of the Helm chart that repeat config/
	@hack/chart.sh

.PHONY: docs
docs: ## Generate docs/reference from the CRDs and comments, and the tables of measured figures from docs/figures
	@go -C hack run ./docs

.PHONY: fmt
fmt: ## Format the code
	@$(call tool,lint)/golangci-lint fmt ./...
	@gofmt -w hack

.PHONY: vet
vet: ## Run go vet in both modules
	go vet ./...
	go -C hack vet ./...

.PHONY: lint
lint: ## Run actionlint on the workflows, and the linters of .golangci.yml in both modules
	@$(call tool,actionlint)/actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml
	@bin=$(call tool,lint)/golangci-lint; $$bin run ./... && cd hack && $$bin run --config ../.golangci.yml ./...

.PHONY: verify
verify: ## Regenerate all generated files and fail if one of them was out of date
	@hack/verify.sh

.PHONY: vulncheck
vulncheck: ## Search the code of the image for known vulnerabilities of its modules (govulncheck; needs the Internet)
	@$(call tool,supply-chain)/govulncheck . ./cmd/...

##@ Test

.PHONY: test
test: ## Run all tests that need no cluster (they start an API server and etcd)
	@hack/test.sh

.PHONY: race
race: ## Run the tests of concurrent code with Go's race detector (PACKAGES=... for some packages; needs gcc)
	@hack/test.sh race $(PACKAGES)

.PHONY: e2e
e2e: ## Run the end-to-end tests on the cluster, with Fettle installed by OLM (TEST_ARGS=...)
	@hack/e2e.sh

.PHONY: faults
faults: ## Run the fault-injection tests: crashes, delays and lost requests at every write
	@mkdir -p $(LOGS)
	KUBEBUILDER_ASSETS=$(call tool,kubernetes) go test -count=1 -timeout 60m ./test/faults/... $(TEST_ARGS) | tee $(LOGS)/faults.log

.PHONY: mutants
mutants: ## Run the mutation tests (MUTANTS_ARGS="-since main" for changed files only)
	@mkdir -p $(LOGS)
	@started=$$(date +%s); \
	  KUBEBUILDER_ASSETS=$(call tool,kubernetes) go run ./internal/testenv/shared-apiserver go run ./test/mutants $(MUTANTS_ARGS) | tee $(LOGS)/mutants.log; \
	  [ -n "$(MUTANTS_ARGS)" ] || hack/record.sh "make mutants" $$(($$(date +%s) - started))

.PHONY: cert-manager
cert-manager: ## Run the cert-manager integration tests with a real cert-manager; not part of CI
	@mkdir -p $(LOGS)
	FETTLE_CERT_MANAGER=$(call tool,cert-manager)/cert-manager KUBEBUILDER_ASSETS=$(call tool,kubernetes) \
	  go test -count=1 -timeout 10m ./controllers -run '^TestControllers$$' -ginkgo.focus 'cert-manager itself' -ginkgo.v | tee $(LOGS)/cert-manager.log

.PHONY: bench
bench: ## Benchmark Fettle against a naive controller and a raw client (BENCH_ARGS="-mode memory" for memory)
	@mkdir -p $(LOGS)
	KUBEBUILDER_ASSETS=$(call tool,kubernetes) go run ./test/bench $(BENCH_ARGS) | tee $(LOGS)/bench.log

.PHONY: figures
figures: ## Copy the records of measurements (dist/figures) into docs/figures and fill the tables of the docs
	@cp -v dist/figures/*.json docs/figures/
	@$(MAKE) docs

.PHONY: scorecard
scorecard: ## Run the suites basic and olm of operator-sdk's scorecard on the cluster
	@hack/scorecard.sh

##@ Deploy without OLM

.PHONY: install
install: ## Install the CRDs
	@hack/deploy.sh install

.PHONY: uninstall
uninstall: ## Delete the CRDs and all objects of their kinds
	@hack/deploy.sh uninstall

.PHONY: deploy
deploy: ## Deploy the operator; it generates its own certificates (IMG=...)
	@hack/deploy.sh deploy

.PHONY: undeploy
undeploy: ## Delete everything that deploy created, including the CRDs and all objects of their kinds
	@hack/deploy.sh undeploy

.PHONY: install-yaml
install-yaml: ## Write the manifest that deploy applies into dist/install.yaml (IMG=...)
	@mkdir -p dist
	@hack/deploy.sh print >dist/install.yaml
	@echo "dist/install.yaml: apply it with kubectl apply --server-side -f dist/install.yaml"

##@ Images

.PHONY: image
image: ## Build the operator's image without a container engine and push it to REGISTRY
	@hack/image.sh operator

.PHONY: bundle-image
bundle-image: ## Build the bundle's image without a container engine and push it to REGISTRY
	@hack/image.sh bundle

.PHONY: catalog-image
catalog-image: ## Build the catalog's image without a container engine and push it to REGISTRY
	@hack/image.sh catalog

.PHONY: docker-build
docker-build: ## Build the operator's image with docker (CONTAINER_TOOL=podman for podman)
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) -t $(IMG) .

.PHONY: docker-push
docker-push: ## Push the operator's image with docker
	$(CONTAINER_TOOL) push $(IMG)

##@ OLM

.PHONY: bundle
bundle: manifests generate ## Generate the bundle from config/ and the markers in api/
	@hack/bundle.sh

.PHONY: bundle-validate
bundle-validate: ## Validate the bundle with all validators of operator-sdk; a warning is an error
	@hack/bundle-validate.sh

.PHONY: catalog
catalog: ## Render the bundle into the catalog
	@hack/catalog.sh

.PHONY: catalog-validate
catalog-validate: ## Validate the catalog
	$(call tool,opm)/opm validate catalog
	@echo "catalog: valid"

.PHONY: olm-install
olm-install: ## Install Fettle with OLM and wait until the CSV has Succeeded
	@hack/olm-install.sh

##@ Release

.PHONY: release
release: ## Prepare the release VERSION=... in dist/ and print what to push; pushes nothing (docs/release.md)
	@$(if $(filter file,$(origin VERSION)),VERSION=) hack/release.sh prepare

.PHONY: release-push
release-push: ## Push the images of the prepared release VERSION=... and sign them with cosign
	@$(if $(filter file,$(origin VERSION)),VERSION=) hack/release.sh push
