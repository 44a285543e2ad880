"""Figures of a file as Markdown and as pictures, so that a page says what was measured."""

import re
from pathlib import Path

from benchmarks import record
from benchmarks.roofline import FLOP
from pggnn.files import write_text

GRIDS: dict[str, list[list[str]]] = {
    "layer": [
        ["forward, ms", "forward, TFLOP/s", "cuDNN forward, ms", "cuDNN / ours, forward"],
        ["training, ms", "training, TFLOP/s", "cuDNN training, ms", "cuDNN / ours, training"],
    ],
    "epochs": [
        ["steps", "ours, s"],
        ["steps of GIN measured", "GIN with PyG's DataLoader, s", "GIN with PyG's DataLoader / ours",
         "GIN with batches on the GPU, s", "GIN with batches on the GPU / ours"],
    ],
    "linear": [["steps", "largest degree", *(f"{name}, {unit}" for name in FLOP for unit in ("ms", "TFLOP/s"))]],
}  # fmt: skip
"""Quantities that are columns of a table with a row for each case."""


def digits(value: float) -> str:
    """Three significant digits, as in 0.866, 23.9 and 12,600; all digits of a whole number."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def cell(part: str, case: str, what: str, value: float | None) -> str:
    """A figure; bold if it reaches its goal, empty if it was not measured."""
    if value is None:
        return ""
    aim = record.goal(part, case, what)
    return f"**{digits(value)}**" if aim and record.is_met(aim, value) else digits(value)


def table(rows: list[list[str]]) -> str:
    """Rows of cells as Markdown, the first one as its head."""
    return "".join("| " + " | ".join(row) + " |\n" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


def grid(part: str, columns: list[str], cases: dict[str, dict[str, float]]) -> str:
    """A row for each case that has the first quantity; goals follow their quantity if there are any."""
    cases = {case: values for case, values in cases.items() if columns[0] in values}
    head, *body = [[part], *([case] for case in cases)]
    for what in columns:
        goals = [record.goal(part, case, what) for case in cases]
        head += [what, "goal"] if any(goals) else [what]
        for row, case, aim in zip(body, cases, goals, strict=True):
            row += [cell(part, case, what, cases[case].get(what)), *([aim] if any(goals) else [])]
    return table([head, *body])


def listing(part: str, cases: dict[str, dict[str, float]]) -> str:
    """A row for each figure that is in no grid."""
    shown = set().union(*GRIDS.get(part, []))
    rows = [
        [case, what, cell(part, case, what, value), record.goal(part, case, what)]
        for case, values in cases.items() for what, value in values.items() if what not in shown
    ]  # fmt: skip
    width = 4 if any(row[3] for row in rows) else 3
    return table([row[:width] for row in ([part, "quantity", "measured", "goal"], *rows)]) if rows else ""


def tables(path: Path) -> str:
    """All tables of a file, and links to its pictures."""
    machine, figures = record.load(path)
    made = [f"Measured in one run on {machine}. Bold: the goal is reached; not bold beside a goal: it is missed.\n"]
    for part, cases in figures.items():
        made += [grid(part, columns, cases) for columns in GRIDS.get(part, [])]
        made += filter(None, [listing(part, cases)])
    made += [
        f"![{what}]({path.stem}-{name}.svg)\n" for name, (part, what) in record.PICTURES.items() if part in figures
    ]
    return "\n".join(made)


def marks(path: Path) -> tuple[str, str]:
    """The lines of a page between which the tables of a file stand."""
    return f"<!-- tables of {path.name} -->\n", f"<!-- end of {path.name} -->\n"


def insert(path: Path, page: Path) -> str:
    """Puts the tables of a file between its marks in a page, and draws its pictures beside the page."""
    from benchmarks import plots

    begin, end = marks(path)
    between = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
    text = page.read_text(encoding="utf-8")
    if not between.search(text):
        raise ValueError(f"{page} must have the lines {begin.strip()} and {end.strip()}, between which the tables go")
    made = f"\n{tables(path)}\n"
    pictures = plots.draw(path, page.parent)
    write_text(page, between.sub(lambda _: made, text))
    return "".join(f"Written: {file}\n" for file in (page, *pictures))
