"""Every public name is in the reference, docs/api/, with an example that runs."""

import doctest
import inspect
import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

import pggnn.baselines
import pggnn.capture
import pggnn.nn

ROOT = Path(__file__).parents[1]
REFERENCE = "".join(page.read_text() for page in sorted((ROOT / "docs/api").glob("*.md")))
NAMES = re.findall(r"^\.\. auto(?:class|function):: (\S+)$", REFERENCE, re.MULTILINE)
OBJECTS = {name: resolve_name(":".join(name.rsplit(".", 1))) for name in NAMES}


def test_public_names_are_in_the_reference():
    modules = (pggnn, pggnn.nn, pggnn.baselines, pggnn.capture)
    public = {getattr(module, name) for module in modules for name in module.__all__ if name != "MODELS"}
    assert public - {*OBJECTS.values()} == set()


def test_what_first_pages_import_is_in_the_reference():
    pages = [ROOT / "README.md", *(ROOT / f"docs/{name}.md" for name in ("start", "idea", "layer", "data"))]
    text = "".join(page.read_text() for page in [*pages, *(ROOT / "docs/tutorials").glob("*.md")])
    shown = {f"{module}:{name.strip()}"
             for module, names in re.findall(r"^from (pggnn[.\w]*) import ([\w, ]+)$", text, re.MULTILINE)
             for name in names.split(",")}  # fmt: skip
    found = {name: resolve_name(name) for name in shown}
    assert len(found) > 15
    assert {name for name, one in found.items() if callable(one) and one not in OBJECTS.values()} == set()


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = inspect.getdoc(OBJECTS[name]) or ""
    test = doctest.DocTestParser().get_doctest(lines, {}, name, None, None)
    assert test.examples, f"{name} has no example"
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert report == [], "".join(report)
