PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV ?= uv
LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate
BUILD_REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")

.PHONY: sbom setup run check test test-long lint quick-tests tools classes browser pictures setup-java setup-net setup-brokers setup-promtool setup-proxy setup-kube lock release site clean
.DEFAULT_GOAL := help

help:
	@echo "make run    set everything up and watch Ferret being adapted (about 3 minutes)"
	@echo "make check  the fast part: linters, types, import contracts, unit tests"
	@echo "make test   what CI runs: everything that a change can break"
	@echo "make test-long what takes longer, before a release: the image, all figures, repeated kills, a network, an hour of the page"
	@echo "make browser installs Debian's Chromium for the tests of the dashboard; without it they are skipped"
	@echo "make pictures takes the pictures of README and docs anew, from the running product"
	@echo "make setup-java installs Debian's Java 17 for Spark; without it the tests of the data pipeline are skipped"
	@echo "make setup-net installs Debian's iproute2 for the tests over a network; without it they are skipped"
	@echo "make setup-promtool installs Debian's prometheus for the test of its rules; without it that is skipped"
	@echo "make setup-kube installs Helm's library and the schemas of Kubernetes for the tests of the chart; without it they are skipped"
	@echo "make setup-proxy installs Debian's nginx for the test of the documented proxy; without it that is skipped"
	@echo "make setup-brokers installs Debian's redis-server, nats-server, mosquitto and rabbitmq-server for the tests of sources and sinks; without it they are skipped"
	@echo "make site   builds the documentation as a site, with search, into site/"
	@echo "make release builds wheels, source archive and bill of materials into dist/; SIGN=KEY signs their sums"
	@echo "make sbom   write sbom.cdx.json: the bill of materials of the wheel, as CycloneDX"
	@echo "make lock   pin the dependencies anew (needs uv); UPGRADE=--upgrade takes newer versions"

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv, pinned by its hash as well, installs and compiles on all cores, from where pip would take it. Where it cannot, pip does.
UV_INSTALL := $(BIN)/uv pip install --python $(BIN)/python --require-hashes --compile-bytecode
PIP_KNOWS = $$($(BIN)/python -m pip config get global.$(1) 2>/dev/null)
LIKE_PIP = UV_DEFAULT_INDEX="$${PIP_INDEX_URL:-$(call PIP_KNOWS,index-url)}" \
	UV_INDEX="$${PIP_EXTRA_INDEX_URL:-$(call PIP_KNOWS,extra-index-url)}" UV_INDEX_STRATEGY=unsafe-best-match

$(VENV)/.ready: requirements-uv.lock requirements.lock pyproject.toml lab/pyproject.toml
	@echo "installing what Recompose and its tests need into $(VENV): some 2 GB, a few minutes at the first time"
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --require-hashes -r requirements-uv.lock && $(LIKE_PIP) $(UV_INSTALL) -r requirements.lock || \
		$(PIP_INSTALL) --require-hashes -r requirements.lock
	$(PIP_INSTALL) --no-deps --no-build-isolation -e . -e lab
	touch $@

setup: $(VENV)/.ready

run: setup
	@echo "an image search under a load that rises and falls; it ends by itself within three minutes"
	$(BIN)/recompose demo ferret

# On two cores linters and tests go side by side.
check: setup
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint quick-tests

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

quick-tests: setup
	$(BIN)/python tests/lanes.py quick

# What runs beside what, and what happens to a test that fails: tests/lanes.py.
test: setup tools
	@$(MAKE) --no-print-directory -j3 --output-sync=target lint quick-tests classes
	$(BIN)/python tests/lanes.py test

test-long: setup tools classes
	$(BIN)/python tests/lanes.py long

tools:
	-@$(MAKE) --no-print-directory browser setup-java setup-net setup-brokers setup-promtool setup-proxy setup-kube

# What Spark's JVMs read from jars at every start, parsed once: each takes half of the CPU up to its first answer.
CLASSES := $(VENV)/spark-classes.jsa

classes: setup
	@$(MAKE) --no-print-directory $(CLASSES) || echo "no archive of Spark's classes; its sessions take longer without"

$(CLASSES): $(VENV)/.ready datapipe/spark/class_archive.py
	@! command -v java >/dev/null || $(BIN)/python -m datapipe.spark.class_archive

# The tests of the dashboard drive a real browser. Needs root and Debian's packages; does nothing where both are there.
browser:
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver; }

# Of the dashboard, for README and docs: from a daemon with real workers, in some five minutes.
pictures: setup browser
	$(BIN)/python tests/integration/dashboard_pictures.py

# Spark runs on Java 17 or 21. Needs root and Debian's packages; does nothing where there is a Java.
setup-java:
	command -v java >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless; }

# The tests of tests/hosts lay a network between two machines. Needs root and Debian's packages; does nothing where it is.
setup-net:
	command -v ip >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq iproute2; }

# Helm's library and the schemas of Kubernetes, for the tests of the chart in deploy/kuberay: 350 MB in a place of their own.
setup-kube: setup
	test -x $(VENV)/kube/bin/python || $(BIN)/python -m venv $(VENV)/kube
	$(VENV)/kube/bin/python -m pip install --quiet --disable-pip-version-check helm-python-sdk==0.2.2 kubernetes-validate==1.37.0 pyyaml==6.0.3

# Prometheus reads its own rules in a test. Needs root and Debian's packages; does nothing where it is.
setup-promtool:
	command -v promtool >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus; }

# A test runs the documented proxy. Needs root and Debian's packages; does nothing where it is.
setup-proxy:
	command -v nginx >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light; }

# The tests of tests/contract/test_places.py start their own servers. Needs root and Debian's packages; does nothing
# where they are.
setup-brokers:
	command -v redis-server >/dev/null && command -v nats-server >/dev/null && command -v mosquitto >/dev/null && command -v rabbitmq-server >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server nats-server mosquitto rabbitmq-server; }

# Development, the image, and what builds the wheel in the image; the last two take their versions from the first. And
# what installs the first.
lock:
	$(LOCK) $(UPGRADE) --extra ray --extra service --extra arrow --extra report --extra video --extra apps --extra samples --extra spark --extra redis --extra kafka --extra nats --extra mqtt --extra rabbitmq --extra sql --extra dev pyproject.toml -o requirements.lock
	$(LOCK) --constraint requirements.lock --extra ray --extra service --extra arrow --extra report --extra video --extra apps --extra samples --extra spark pyproject.toml -o requirements-run.lock
	echo uv | $(LOCK) $(UPGRADE) - -o requirements-uv.lock
	echo cyclonedx-bom | $(LOCK) $(UPGRADE) - -o requirements-sbom.lock
	$(PYTHON) -c '$(BUILD_REQUIRES)' | $(LOCK) --constraint requirements.lock - -o requirements-build.lock

# What the wheel needs, pinned, as CycloneDX. The image carries one of what is installed in it: the Dockerfile makes it.
sbom:
	$(PYTHON) -m venv $(VENV)-sbom
	$(VENV)-sbom/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-sbom.lock
	$(VENV)-sbom/bin/cyclonedx-py requirements requirements-run.lock --pyproject pyproject.toml --output-reproducible --of JSON -o sbom.cdx.json

# Fails at a link that leads nowhere.
site: setup
	$(BIN)/python docs/site/build.py site

# dist/ gets wheels, source archives, the bill of materials of the locked set-up, and their sums; SIGN=KEY signs the sums.
release: setup sbom
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist
	cd lab && ../$(BIN)/python -m hatchling build --target wheel --directory ../dist
	cp sbom.cdx.json dist/recompose.cdx.json
	cd dist && sha256sum * > SHA256SUMS
	test -z "$(SIGN)" || ssh-keygen -Y sign -f "$(SIGN)" -n recompose dist/SHA256SUMS

clean:
	rm -rf $(VENV) $(VENV)-sbom sbom.cdx.json
