"""Writes the explorer: one HTML file with its style, its scripts and its data in it."""

import json
import re
from pathlib import Path
from typing import Any

import pggnn
from pggnn.explore.bundled import FILE
from pggnn.files import to_json, write_text

HERE = Path(__file__).parent
SCRIPTS = (
    "group", "linear", "rings", "dom", "arrangements", "arcs", "picture", "verdicts", "graphs", "answers", "main",
)  # fmt: skip
"""JavaScript modules, each after those that it imports."""
IMPORT = re.compile(r'^import \{(.*?)\} from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|class|function) (\w+))", re.MULTILINE)
UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""What could end a script, or begin markup: in JSON all of it can be written as an escape."""


def write(out: Path, run: dict[str, Any] | None = None) -> None:
    """Writes the page.

    Args:
        out: The HTML file.
        run: What :func:`pggnn.explore.answers.collect` has found in a run.
    """
    from jinja2 import Environment, FileSystemLoader

    jinja = Environment(loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    bundled = json.loads(FILE.read_text(encoding="utf-8"))
    styles = (HERE.parent / "report" / "page.css", HERE / "page.css")
    text = jinja.get_template("page.html").render(
        version=pggnn.__version__,
        style="\n".join(path.read_text(encoding="utf-8") for path in styles),
        script=bundle(),
        data=as_script({"bundled": bundled, "run": run}),
    )
    write_text(out, text)


def as_script(value: Any) -> str:
    """A value as JSON that may stand inside a ``<script>``, whatever its texts are."""
    return to_json(value).translate(UNSAFE)


def bundle() -> str:
    """All modules as one script: each becomes a function that returns what it exports."""
    parts = []
    for name in SCRIPTS:
        text = (HERE / "js" / f"{name}.js").read_text(encoding="utf-8")
        exported = ", ".join(EXPORT.findall(text))
        text = EXPORT.sub("", IMPORT.sub(r"const {\1} = $\2;", text))
        parts.append(f"const ${name} = (() => {{\n{text}return {{ {exported} }};\n}})();")
    return "\n".join(parts)
