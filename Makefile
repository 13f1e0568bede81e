# perfscale.seatrial. `make help` lists what there is; each target is a few lines of tools/.
PROJECT ?= fine_tuning
PRESET ?= light
SUITES ?=

.DEFAULT_GOAL := help
.PHONY: help setup trial presets ci test test-long versions lint bench measure docs site mirror release-check lock pin clean

# Ansible refuses a locale that is not UTF-8.
ifneq ($(filter C POSIX,$(LC_ALL)),)
export LC_ALL := C.UTF-8
endif

# The Python that makes the virtual environment; afterwards everything runs in it.
PY := tools/find-python
VENV_PYTHON := .venv/bin/python

help: ## this list
	@echo "perfscale.seatrial: measure an AI platform from lease to verdict"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'
	@echo
	@echo "  PROJECT=$(PROJECT) PRESET=$(PRESET) choose another trial, as in: make trial PROJECT=fine_tuning PRESET=gpu"
	@echo "  SUITES=\"lint unit\" runs only these suites of make test"

setup: ## virtual environment, collections and the binaries of the rehearsal cluster; nothing twice
	@python=$$($(PY)) && "$$python" tools/trial.py --setup-only

trial: ## set up what is missing, run PROJECT with PRESET, print the summary and the report's path
	@python=$$($(PY)) && exec "$$python" tools/trial.py --project "$(PROJECT)" --preset "$(PRESET)"

presets: ## every preset of every project, with one line of what it does
	@python=$$($(PY)) && "$$python" tools/setup.py user && .venv/bin/ansible-playbook playbooks/$(PROJECT).yml -e preset=list

# make ends with 2 whatever failed; a CI job that needs the exit status of the verdict calls tools/ci.
ci: ## run PROJECT with PRESET as a CI job: JUnit file, and the verdict in one line
	@tools/ci "playbooks/$(PROJECT).yml" -e "preset=$(PRESET)"

test: ## all fast tests: lint, unit, sanity, other versions, install, integration, molecule, README
	@python=$$($(PY)) && "$$python" tools/setup.py test && $(VENV_PYTHON) tools/suites.py $(SUITES)

test-long: ## the tests that take longer: 200 signals, 50 kills, 1,000 jobs, each version of ansible-core
	@python=$$($(PY)) && "$$python" tools/setup.py test && $(VENV_PYTHON) tools/suites.py --long $(SUITES)

versions: ## sanity and the main job under each supported version of ansible-core, unit tests from 2.19 on
	@python=$$($(PY)) && "$$python" tools/setup.py test && $(VENV_PYTHON) tools/suites.py --long versions

lint: ## ruff, mypy, yamllint, ansible-lint, documentation, generated files
	@python=$$($(PY)) && "$$python" tools/setup.py test && $(VENV_PYTHON) tools/suites.py lint

bench: ## the benchmarks of tests/bench, side by side
	@python=$$($(PY)) && "$$python" tools/setup.py test && $(VENV_PYTHON) tools/suites.py --bench

measure: ## the error rates of the verdicts' statistics; OTAVA=1 beside apache-otava, SUITES=100 quickly
	@python=$$($(PY)) && "$$python" tools/setup.py test && $(VENV_PYTHON) tests/measure/measure_error_rates.py \
		$(if $(SUITES),--suites $(SUITES)) $(if $(filter 1,$(OTAVA)),--otava)

docs: ## write docs/settings.md, the package table and docs/schemas (not in the repository)
	@python=$$($(PY)) && "$$python" tools/setup.py user && $(VENV_PYTHON) tools/generate.py

site: ## build the documentation as a site in .cache/site/html; LINKS=1 requests the links to other sites too
	@python=$$($(PY)) && "$$python" tools/setup.py user && $(VENV_PYTHON) tools/build_site.py $(if $(filter 1,$(LINKS)),--links)

mirror: ## collect in MIRROR what set-up needs on a machine without network (docs/offline.md)
	@python=$$($(PY)) && "$$python" tools/trial.py --mirror "$(MIRROR)"

release-check: ## make the archive of a release, sign, install and import it; KEY=<of gpg>; publishes nothing
	@python=$$($(PY)) && "$$python" tools/setup.py test && $(VENV_PYTHON) tools/release_check.py $(if $(KEY),--key "$(KEY)")

lock: ## write tools/locks, the versions and hashes that set-up installs; needs uv (pip install uv); UPGRADE=1 takes newer ones
	set -e; for level in user:requirements-pypi.txt test:test-requirements.txt site:tools/site-requirements.txt \
	  importer:tools/importer-requirements.txt; do \
	  uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-annotate --no-header --no-strip-extras \
	    $(if $(filter 1,$(UPGRADE)),--upgrade) "$${level#*:}" --output-file "tools/locks/$${level%%:*}.txt"; done

pin: ## write the checksums of published programs into their components, where the publishers can be reached
	@python=$$($(PY)) && "$$python" tools/setup.py user && $(VENV_PYTHON) tools/pin_published.py

clean: ## stop this clone's rehearsal clusters, remove .venv; ARTIFACTS=1 the runs too, EVERYTHING=1 caches too
	@python=$$($(PY)) && "$$python" tools/clean.py $(if $(filter 1,$(ARTIFACTS)),--artifacts) $(if $(filter 1,$(EVERYTHING)),--everything)
