# Targets set up everything they need in .venv; the only prerequisite is Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
SITE := build/site

# Tests start many processes: each would compile all it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint pytest test-oldest docs docs-check docs-links dist clean

help:  ## what can be made (this list)
	@echo 'make TARGET, where TARGET is one of'
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 16
	@echo 'All of them work in $(VENV), which the first one creates.'

demo: $(VENV)/ready  ## train PG-GNN and GIN to count triangles, about four minutes
	$(RUN)/pggnn demo

test: $(VENV)/ready  ## lint, types and tests, about twelve minutes
	$(MAKE) --jobs 2 lint pytest

pytest: $(VENV)/ready  ## the tests alone
	$(RUN)/python -m pytest -q -n 2 --dist loadfile

lint: $(VENV)/ready  ## ruff and mypy alone
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("pggnn needs Python 3.11 or newer, this is " + sys.version if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --no-compile --constraint constraints.txt torch torch_geometric
	$(RUN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[all]'
	touch $@

docs: $(VENV)/docs-ready  ## the documentation with its notebooks run, as build/site/index.html
	@echo 'Notebooks that have changed are run, the first time all of them: this takes minutes.'
	$(RUN)/python -m sphinx --fail-on-warning --keep-going -q -c docs/site -d build/doctrees . $(SITE)
	$(RUN)/python docs/site/check_links.py $(SITE)

docs-check: docs  ## contrast, labels, headings, keyboard and widths of each page, in Chromium
	$(RUN)/python docs/site/check_pages.py $(SITE)

docs-links: $(VENV)/docs-ready  ## check where pages link to at PyTorch's, PyG's and Python's (needs the internet)
	$(RUN)/python docs/site/inventories.py

$(VENV)/docs-ready: $(VENV)/ready
	$(RUN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[docs]'
	touch $@

# The layers with the oldest PyTorch and PyG that pyproject.toml asks for; not part of the tests above.
OLDEST := .venv-oldest
CORE := tests/test_groups.py tests/test_cells.py tests/test_orderings.py tests/test_plan.py tests/test_transforms.py \
	tests/test_list_search.py tests/nn/test_conv.py tests/nn/test_norm.py tests/nn/test_readout.py \
	tests/nn/test_variants.py tests/nn/test_list_layers.py tests/nn/test_linear_cell.py tests/nn/test_golden.py \
	tests/ops/test_sums.py tests/ops/test_linear.py

test-oldest: $(OLDEST)/ready  ## the layers with the oldest PyTorch and PyG that are supported
	PYTHONPATH=src:. $(OLDEST)/bin/python -m pytest -q -k "not compile and not kernels" $(CORE)  # these need a later PyTorch

$(OLDEST)/ready: Makefile
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet torch==2.6.0 torch_geometric==2.6.1 'numpy<2.3' safetensors pytest hypothesis
	touch $@

# What goes to PyPI, in dist/, from the last commit: make dist URL=https://HOST/OWNER/pggnn. There relative links and images
# lead nowhere, so those of the README become addresses in that repository, and the metadata name it.
PAGE := build/package/README.md

dist: $(VENV)/ready  ## what goes to PyPI: make dist URL=https://HOST/OWNER/pggnn
	@case "$(URL)" in https://*) ;; *) echo "give the address of the repository: make dist URL=https://HOST/OWNER/pggnn" >&2; exit 2;; esac
	rm -rf build/package && mkdir -p build/package && git archive HEAD | tar -x -C build/package
	sed -i -E -e 's#(!\[[^]]*\]\()([^):]+\))#\1$(URL)/raw/main/\2#' -e 's#(\]\()([^):]+\))#\1$(URL)/blob/main/\2#g' $(PAGE)
	printf '\n[project.urls]\nRepository = "$(URL)"\nDocumentation = "$(URL)/tree/main/docs"\nIssues = "$(URL)/issues"\n' \
		>> build/package/pyproject.toml
	$(RUN)/python -m pip install --quiet build
	$(RUN)/python -m build --outdir dist build/package

clean:  ## remove the environments and what was built
	rm -rf $(VENV) $(OLDEST) build dist
