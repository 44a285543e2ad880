"""The tree of docs/architecture.md is the one that the imports make."""

import ast
import re
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/pggnn"
PAGE = (ROOT / "docs/architecture.md").read_text()
MOST_MODULES, MOST_LINES = 16, 400

FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}


def drawn(page):
    """The floor of each path of the drawing (``plan.py``, ``train/engine/``), counted from the ground; that of a folder
    with lines of its own is its last line."""
    lines = re.search(r"```text\nsrc/pggnn/\n(.*?)```", page, re.DOTALL)[1].splitlines()
    floors, above = {}, []
    for floor, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        above = [(depth, folder) for depth, folder in above if depth < indent]
        within = above[-1][1] if above else ""
        names = list(takewhile(lambda word: re.fullmatch(r"\w+(/|\.py)", word), line.split()))
        assert names, f"a line without a file: {line}"
        for name in names:
            assert within + name not in floors, f"{within + name} is drawn twice"
            floors[within + name] = floor
        floors |= {folder: floor for _, folder in above}
        above.append((indent, within + names[-1]))
    return floors


FLOORS = drawn(PAGE)


def floor(file, floors=FLOORS):
    """The floor of a file: that of its line, or of the innermost folder drawn around it. Where the folder has lines of
    its own, only its ``__init__.py`` may be missing from them."""
    folder, _, name = file.rpartition("/")
    while folder and f"{folder}/" not in floors:
        folder = folder.rpartition("/")[0]
    has_lines = any(path.startswith(f"{folder}/") and path != f"{folder}/" for path in floors)
    return floors.get(file, None if has_lines and name != "__init__.py" else floors.get(f"{folder}/"))


def as_file(module):
    """``pggnn.ops`` → ``ops/__init__.py``; None for what is not a module of the package."""
    top, *rest = module.split(".")
    names = ["/".join(rest) + ".py", "/".join([*rest, "__init__.py"])] if top == "pggnn" else []
    return next((name for name in names if name in FILES), None)


def imported(file, tree):
    """The files of the package that one imports: at its top, inside functions, and for type checking."""
    package = ["pggnn", *file.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = {as_file(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found = {as_file(f"{module}.{alias.name}") or as_file(module) for alias in node.names}
        else:
            continue
        yield from found - {None, file}


IMPORTS = {file: set(imported(file, tree)) for file, tree in TREES.items()}


def circle(imports):
    """The files of one import circle, or none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_every_module_is_drawn():
    assert [file for file in FILES if floor(file) is None] == []


def test_everything_drawn_exists():
    assert [path for path in FLOORS if not (PACKAGE / path).exists()] == []
    for path in re.findall(r"`((?:src|tests|benchmarks|results|examples|docs)/[^`]*)`", PAGE):
        assert (ROOT / path).exists(), path


def test_no_import_goes_up():
    up = [f"{file} imports {other}" for file in FILES for other in IMPORTS[file] if floor(other) > floor(file)]
    assert up == []


def test_no_import_circle():
    assert circle(IMPORTS) == []


def test_folders_and_files_are_small():
    folders = Counter(file.rpartition("/")[0] for file in FILES)
    assert {folder: modules for folder, modules in folders.items() if modules > MOST_MODULES} == {}
    lines = {file: len(path.read_text().splitlines()) for file, path in FILES.items()}
    assert {file: number for file, number in lines.items() if number > MOST_LINES} == {}


def test_class_names_are_used_once():
    homes = defaultdict(list)
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(file)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


DRAWING = """
```text
src/pggnn/
    low.py  lower.py    the ground
    folder/             with floors
        a.py            the first
        inner/          and more
    high.py             uses folder/
```
"""


@pytest.mark.parametrize(
    ("file", "expected"),
    [("lower.py", 0), ("folder/a.py", 2), ("folder/inner/x.py", 3), ("folder/inner/__init__.py", 3),
     ("folder/__init__.py", 3), ("high.py", 4), ("other.py", None), ("folder/other.py", None), ("new/x.py", None)],
)  # fmt: skip
def test_floors_are_read_from_the_drawing(file, expected):
    assert floor(file, drawn(DRAWING)) == expected


def test_all_kinds_of_imports_are_seen():
    code = """
from typing import TYPE_CHECKING
import pggnn.plan
from pggnn import cells, Plan
from ..groups import order
from . import operator
if TYPE_CHECKING:
    from pggnn.nn import conv
def f():
    from pggnn.ops.packed.unroll import UNROLLED
"""
    found = set(imported("ops/reference.py", ast.parse(code)))
    expected = "plan.py cells.py __init__.py groups.py ops/operator.py nn/conv.py ops/packed/unroll.py"
    assert found == set(expected.split())
