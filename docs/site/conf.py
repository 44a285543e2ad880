"""Sphinx: the Markdown pages of the repository as a site. Its sources begin at the root, so that the links between
files, which a code host follows too, are those between pages. ``make docs`` builds it."""

import logging
import os
import re
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor
from pygments.lexers.special import TextLexer
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "src"))
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # notebooks run `pggnn`
os.environ["COLUMNS"] = "100"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # notebooks are small
os.environ["IPYTHONDIR"] = str(ROOT / "build/ipython")
STARTUP = ROOT / "build/ipython/profile_default/startup/startup.py"
STARTUP.parent.mkdir(parents=True, exist_ok=True)
STARTUP.write_text((HERE / "startup.py").read_text())
(STARTUP.parents[1] / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 'ERROR'\n")
logging.getLogger("traitlets").setLevel(logging.WARNING)  # a style of Pygments sets all loggers to INFO

import pggnn  # noqa: E402

project, author, version, copyright = "pggnn", "The pggnn authors", pggnn.__version__, "the pggnn authors"
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md", "benchmarks/*.md", "results/*.md"]
exclude_patterns = ["docs/site/**"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx"]
nitpicky = True
suppress_warnings = ["myst.header"]  # a page may begin with what an included file has at its second level

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build/notebooks")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
nb_ipywidgets_js: dict[str, Any] = {}

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_custom_sections = ["Shapes"]

HOMES = {
    "python": "https://docs.python.org/3/",
    "torch": "https://docs.pytorch.org/docs/stable/",
    "pyg": "https://pytorch-geometric.readthedocs.io/en/latest/",
}
intersphinx_mapping = {name: (home, str(HERE / f"inventories/{name}.txt")) for name, home in HOMES.items()}

html_theme = "furo"
html_title = "pggnn"
html_static_path = [str(HERE / "static")]
html_css_files = ["style.css"]
html_js_files: list[Any] = ["page.js"]
html_copy_source = html_show_sourcelink = False
html_show_sphinx = False
html_math_renderer = "mathml"
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"


def run_notebooks(app: Sphinx) -> None:
    """Runs the notebooks that have changed, one on each core. One that fails is run again where its page is read, and
    reported there."""
    cache = get_cache(nb_execution_cache_path)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page.read_text(encoding="utf-8").startswith("---\nfile_format: mystnb"):
            cache.add_nb_to_project(str(page), read_data={"name": "myst_nb_md", "type": "plugin"})
    load_executor("temp-parallel", cache).run_and_cache(timeout=nb_execution_timeout)


def mathml(visitor: Any, node: nodes.Element) -> None:
    """Formulas as MathML, which browsers show without a script or a server."""
    block = isinstance(node, nodes.math_block)
    formula = latex2mathml.tex2mathml(node.astext(), as_block=block)
    visitor.body.append(f'<div class="formula">{formula}</div>' if block else str(formula))
    raise nodes.SkipNode


def public_name(name: str) -> str:
    """The shortest name of an object: ``torch_geometric.data.data.Data`` is ``torch_geometric.data.Data``."""
    owner, _, last = name.rpartition(".")
    if isinstance(resolve_name(owner), type):
        return f"{public_name(owner)}.{last}"
    found, parts = getattr(resolve_name(owner), last), owner.split(".")
    shorter = (".".join(parts[: depth + 1]) for depth in range(len(parts)))
    return next((f"{one}.{last}" for one in shorter if getattr(resolve_name(one), last, None) is found), name)


def exists(name: str) -> bool:
    """Whether there is an object of this name, or a field of a class, which may have no value."""
    owner, _, last = name.rpartition(".")
    try:
        found = resolve_name(owner)
    except (ImportError, AttributeError, ValueError):
        return False
    return hasattr(found, last) or last in getattr(found, "__annotations__", {}) or last in vars(found)


def resolve(app: Sphinx, env: Any, node: pending_xref, text: nodes.Element) -> nodes.Element | None:
    """Names in docstrings and annotations. One that exists in the package but is not in the reference has no link; one
    that does not exist is left to be warned about."""
    if node["refdomain"] != "py":
        return None
    around = ".".join(part for part in (node.get("py:module"), node.get("py:class")) if part)
    home = getattr(resolve_name(around), "__module__", around) if around else ""
    names = [node["reftarget"], *(f"{place}.{node['reftarget']}" for place in (around, home) if place)]
    found = next((name for name in names if exists(name)), None)
    if found is None:
        return None
    node["reftarget"] = public_name(found)
    if (entry := env.get_domain("py").objects.get(node["reftarget"])) is not None:
        return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, [text])
    return text if found.startswith("pggnn.") else None


def plain_bars(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """|𝔊| is the size of a group, not a substitution."""
    lines[:] = [re.sub(r"\|(𝔊)\|", r"\\|\1\\|", line) for line in lines]


CONTENTS = {
    root_doc: (HERE / "contents.md").read_text(),
    "results/README": "\n```{toctree}\n:glob:\n:hidden:\n\n[a-z]*\n```\n",
}
"""The tree of pages, which a code host does not need: added to these pages when they are read."""
OPEN = '```{raw} html\n<p><a href="../explore.html"><strong>Open the page</strong></a></p>\n```'


def with_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """Adds what a page has on the site alone, and keeps figures and their deviations on one line."""
    source[0] += CONTENTS.get(docname, "")
    source[0] = re.sub(
        r"^\|.* ± .*$", lambda row: row[0].replace(" ± ", "\u00a0±\u00a0"), source[0], flags=re.MULTILINE
    )
    if docname == "docs/explore":
        title, rest = source[0].split("\n", 1)
        source[0] = f"{title}\n\n{OPEN}\n{rest}"


def add_files(app: Sphinx, error: Exception | None) -> None:
    """What Sphinx does not make: ``index.html``, which a folder is opened by, and the page of ``pggnn explore``."""
    if error is not None or app.builder.format != "html":
        return
    (Path(app.outdir) / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>pggnn</title>'
        f'<meta http-equiv="refresh" content="0; url={root_doc}.html"><a href="{root_doc}.html">pggnn</a></html>\n'
    )
    from pggnn.cli import main

    if main(["explore", "--out", str(Path(app.outdir) / "explore.html")]) != 0:
        raise RuntimeError("pggnn explore has failed")


def setup(app: Sphinx) -> None:
    app.add_lexer("csv", TextLexer)
    app.connect("missing-reference", resolve, priority=400)
    app.connect("autodoc-process-docstring", plain_bars)
    app.add_html_math_renderer("mathml", inline_renderers=(mathml, None), block_renderers=(mathml, None))
    app.connect("builder-inited", run_notebooks)
    app.connect("source-read", with_contents)
    app.connect("build-finished", add_files)
