# Both targets set up everything they need in .venv; the only prerequisite is Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

# Tests start many processes: each would compile all it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint pytest test-oldest clean

demo: $(VENV)/ready
	$(RUN)/pggnn demo

test: $(VENV)/ready
	$(MAKE) --jobs 2 lint pytest

pytest: $(VENV)/ready
	$(RUN)/python -m pytest -q -n 2 --dist loadfile

lint: $(VENV)/ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("pggnn needs Python 3.11 or newer, this is " + sys.version if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --no-compile --constraint constraints.txt torch torch_geometric
	$(RUN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[all]'
	touch $@

# The layers with the oldest PyTorch and PyG that pyproject.toml asks for; not part of the tests above.
OLDEST := .venv-oldest
CORE := tests/test_groups.py tests/test_cells.py tests/test_orderings.py tests/test_plan.py tests/test_transforms.py \
	tests/test_list_search.py tests/nn/test_conv.py tests/nn/test_norm.py tests/nn/test_readout.py \
	tests/nn/test_variants.py tests/nn/test_list_layers.py tests/nn/test_linear_cell.py tests/nn/test_golden.py \
	tests/ops/test_sums.py tests/ops/test_linear.py

test-oldest: $(OLDEST)/ready
	PYTHONPATH=src:. $(OLDEST)/bin/python -m pytest -q -k "not compile" $(CORE)  # torch.compile of some operators fails with 2.6

$(OLDEST)/ready: Makefile
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet torch==2.6.0 torch_geometric==2.6.1 'numpy<2.3' numba safetensors pytest hypothesis
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST)
