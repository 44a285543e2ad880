"""All nine figures of the paper from code, and a page that shows them."""

from importlib import import_module
from pathlib import Path

from pggnn.console import tracked
from pggnn.files import write_text
from pggnn.reproduce import FIGURES, SUMMARIES

PAGE = "gallery.md"


def draw_gallery(out: Path, form: str = "svg") -> Path:
    """Draws every figure to ``gallery/`` in a folder, and writes the page beside it.

    Args:
        out: The folder.
        form: ``"svg"`` or ``"png"``.
    """
    for name in tracked(FIGURES, "drawing", len(FIGURES), lambda name: 1):
        import_module(f"pggnn.reproduce.figures.{name}").draw(out / "gallery" / f"{name}.{form}")
    write_text(out / PAGE, page(form))
    return out / PAGE


def page(form: str) -> str:
    """The page, in Markdown."""
    lines = [
        "# The paper's figures",
        "",
        "Each is drawn by code from the objects that the library works with, not from the paper's pictures:",
        "`pggnn reproduce figure1` to `figure9`. This page and all of them: `pggnn reproduce gallery --out docs`.",
    ]
    for name in FIGURES:
        caption = SUMMARIES[name].partition(" (about")[0]
        lines += ["", f"## Figure {name.removeprefix('figure')}", "", f"{caption}.", ""]
        lines.append(f"![{caption}](gallery/{name}.{form})")
    return "\n".join([*lines, ""])
