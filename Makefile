# Targets are listed by `make help`. What takes more than a few lines is a script in hack/.
SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The version of the operator, its bundle and its images.
VERSION ?= 0.0.1
# Where the images are published. BUNDLE_IMG and CATALOG_IMG follow.
IMAGE_BASE ?= ghcr.io/fettle-dev/fettle
IMG ?= $(IMAGE_BASE):v$(VERSION)
BUNDLE_IMG ?= $(IMAGE_BASE)-bundle:v$(VERSION)
CATALOG_IMG ?= $(IMAGE_BASE)-catalog:v$(VERSION)
# The first channel is the default one.
CHANNELS ?= stable,candidate
# Architectures of `make image`; `make image ARCHES="amd64 arm64"` makes an index of both.
ARCHES ?= $(shell go env GOARCH)
# local: the cluster that `make up` brings up. existing: that of KUBECONFIG, whose nodes pull the images by name.
CLUSTER ?= local
# A registry to push to; the local cluster's by default, none for an existing cluster.
REGISTRY ?=
# Which container engine docker-build and docker-push use.
CONTAINER_TOOL ?= docker

# A KUBECONFIG that is set wins for run, install and deploy; demo, e2e and the other scripts ask for CLUSTER=existing too.
ifneq ($(CLUSTER),existing)
KUBECONFIG ?= $(or $(FETTLE_CLUSTER),/var/lib/fettle-cluster)/kubeconfig
endif
export KUBECONFIG

export VERSION IMAGE_BASE IMG BUNDLE_IMG CATALOG_IMG CHANNELS ARCHES CLUSTER REGISTRY

LOGS := dist/logs
tool = $$(hack/tools/bin $(1))

##@ General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "; print "Usage: make TARGET [VARIABLE=value]"} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' Makefile
	@echo; echo "Variables: VERSION=$(VERSION) IMG=$(IMG) CLUSTER=$(CLUSTER) REGISTRY=$(REGISTRY) ARCHES=\"$(ARCHES)\""

##@ Try it

.PHONY: demo
demo: ## Bring up a cluster, install Fettle by OLM from its catalog, run a WebApp and fetch its page
	@hack/demo.sh

.PHONY: up
up: ## Bring up the local cluster (NODES=3 for three nodes); may be repeated at any time
	@go -C hack run ./cluster up

.PHONY: down
down: ## Remove the local cluster and all that it left on the machine
	@go -C hack run ./cluster down

.PHONY: status
status: ## Show the state of the local cluster
	@go -C hack run ./cluster status

##@ Develop

.PHONY: build
build: ## Build the operator into bin/fettle
	@hack/build.sh bin/fettle

.PHONY: run
run: ## Run the operator on this machine, against the cluster of KUBECONFIG (CRDs: make install)
	go run . manager --webhooks=false --leader-elect=false --metrics-bind-address=0 $(RUN_ARGS)

.PHONY: generate
generate: ## Generate the DeepCopy methods of the API types
	$(call tool,kubebuilder)/controller-gen object paths=./api/...

.PHONY: manifests
manifests: ## Generate CRDs, the operator's role and the webhook configuration from markers in the code
	$(call tool,kubebuilder)/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	$(call tool,kubebuilder)/controller-gen rbac:roleName=fettle-manager webhook \
	  paths="{./controllers/...,./internal/...}" output:rbac:dir=config/rbac output:webhook:dir=config/webhook

.PHONY: docs
docs: ## Generate docs/reference from the CRDs and from the comments of reasons and codes
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
lint: ## Run the linters of .golangci.yml in both modules
	@bin=$(call tool,lint)/golangci-lint; $$bin run ./... && cd hack && $$bin run --config ../.golangci.yml ./...

.PHONY: verify
verify: ## Regenerate everything and fail on a difference
	@hack/verify.sh

##@ Test

.PHONY: test
test: ## Run all tests that need no cluster (an API server and etcd of their own included)
	@hack/test.sh

.PHONY: race
race: ## Run the tests of what runs at the same time with Go's race detector (PACKAGES=... for some; needs gcc)
	@hack/test.sh race $(PACKAGES)

.PHONY: e2e
e2e: ## Run the end-to-end tests on the cluster, with Fettle installed by OLM
	@hack/e2e.sh

.PHONY: faults
faults: ## Crash, delay and lose requests at every write, and compare the end states
	@mkdir -p $(LOGS)
	KUBEBUILDER_ASSETS=$(call tool,kubernetes) go test -count=1 -timeout 60m ./test/faults/... $(TEST_ARGS) | tee $(LOGS)/faults.log

.PHONY: mutants
mutants: ## Break each rule on purpose and see that a test notices (takes an hour; MUTANTS_ARGS="-since main" for what changed)
	@mkdir -p $(LOGS)
	KUBEBUILDER_ASSETS=$(call tool,kubernetes) go run ./internal/testenv/shared-apiserver go run ./test/mutants $(MUTANTS_ARGS) | tee $(LOGS)/mutants.log

.PHONY: cert-manager
cert-manager: ## Try what Fettle asks of cert-manager with cert-manager itself; not part of the checks of a change
	@mkdir -p $(LOGS)
	FETTLE_CERT_MANAGER=$(call tool,cert-manager)/cert-manager KUBEBUILDER_ASSETS=$(call tool,kubernetes) \
	  go test -count=1 -timeout 10m ./controllers -run '^TestControllers$$' -ginkgo.focus 'cert-manager itself' -ginkgo.v | tee $(LOGS)/cert-manager.log

.PHONY: bench
bench: ## Measure Fettle beside a naive controller and a raw client (BENCH_ARGS="-mode memory" for memory)
	@mkdir -p $(LOGS)
	KUBEBUILDER_ASSETS=$(call tool,kubernetes) go run ./test/bench $(BENCH_ARGS) | tee $(LOGS)/bench.log

.PHONY: scorecard
scorecard: ## Run the basic and olm suites of operator-sdk's scorecard on the cluster
	@hack/scorecard.sh

##@ Deploy without OLM

.PHONY: install
install: ## Install the CRDs
	$(call tool,kubebuilder)/kustomize build config/crd | $(call tool,kubernetes)/kubectl apply --server-side -f -

.PHONY: uninstall
uninstall: ## Remove the CRDs, and with them every object of their kinds
	$(call tool,kubebuilder)/kustomize build config/crd | $(call tool,kubernetes)/kubectl delete --ignore-not-found -f -

.PHONY: deploy
deploy: ## Deploy the operator with certificates of its own (IMG=...)
	$(call tool,kubebuilder)/kustomize build config/default | sed 's#\(image\|value\): ghcr.io/fettle-dev/fettle:.*#\1: $(IMG)#' | \
	  $(call tool,kubernetes)/kubectl apply --server-side -f -
	$(call tool,kubernetes)/kubectl -n fettle-system rollout status deployment/fettle-controller-manager --timeout=180s

.PHONY: undeploy
undeploy: ## Remove what deploy made; WebApps are removed too, since the CRDs are
	$(call tool,kubebuilder)/kustomize build config/default | $(call tool,kubernetes)/kubectl delete --ignore-not-found -f -

##@ Images

.PHONY: image
image: ## Build the operator's image without a container engine and push it to the registry
	@hack/image.sh operator

.PHONY: bundle-image
bundle-image: ## Build the bundle's image without a container engine and push it
	@hack/image.sh bundle

.PHONY: catalog-image
catalog-image: ## Build the catalog's image without a container engine and push it
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
bundle-validate: ## Check the bundle by every suite of operator-sdk; a warning is an error
	@hack/bundle-validate.sh

.PHONY: catalog
catalog: ## Render the bundle into the catalog
	@hack/catalog.sh

.PHONY: catalog-validate
catalog-validate: ## Check the catalog
	$(call tool,opm)/opm validate catalog
	@echo "catalog: valid"

.PHONY: olm-install
olm-install: ## Install Fettle by OLM: CatalogSource, OperatorGroup, Subscription, until the CSV has Succeeded
	@hack/olm-install.sh
