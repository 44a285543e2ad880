# Both targets set up everything they need in .venv; the only prerequisite is Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

# Tests start many processes: each would compile all it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint pytest clean

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

clean:
	rm -rf $(VENV)
