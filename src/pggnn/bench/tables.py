"""The figures of ``pggnn bench kernel`` as Markdown, so that a page cannot say anything else."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pggnn.bench import record
from pggnn.files import write_text

BEGIN, END = "<!-- pggnn bench table -->\n", "<!-- end of the table -->\n"
PRECISIONS = {"bf16": "bfloat16", "float32": "float32", "tf32": "TF32"}


class Part:
    """The figures of one part, as they are written in cells; what was not measured is an empty cell."""

    def __init__(self, figures: record.Record, name: str) -> None:
        self.name, self.cases = name, figures.get(name, {})

    def value(self, case: str, what: str) -> float | None:
        """A figure, if it was measured."""
        return self.cases.get(case, {}).get(what)

    def cell(self, case: str, what: str, unit: str = "") -> str:
        """A figure to three digits; bold where it reaches its goal."""
        value = self.value(case, what)
        if value is None:
            return ""
        text = f"{digits(value)} {unit}".strip()
        return f"**{text}**" if record.is_met(self.name, case, what, value) else text

    def goal(self, case: str, what: str) -> str:
        """A figure's goal, and whether it is missed."""
        goal, value = record.GOALS.get((self.name, case, what)), self.value(case, what)
        if goal is None or value is None:
            return ""
        return f"{goal:g}" + ("" if record.is_met(self.name, case, what, value) else ", **missed**")


def digits(value: float) -> str:
    """Three digits that count, none of them invented: 0.866, 23.9, 12,600."""
    if abs(value) >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:#.3g}".rstrip(".")


def tables(path: Path) -> str:
    """All tables that the file has figures for, and links to the pictures that :mod:`pggnn.bench.plots` draws of it."""
    machine, figures = record.load(path)
    made = [f"Measured in one run of `pggnn bench kernel` on {machine}; figures that reach their goal are bold.\n"]
    for make in (layer, layer_costs, training, epochs, linear, exponents):
        header, *rows = make(figures)
        if rows:
            made.append("".join("| " + " | ".join(row) + " |\n" for row in (header, ["---"] * len(header), *rows)))
    for name, (part, what) in record.PICTURES.items():
        if part in figures:
            made.append(f"![{what}]({path.stem}-{name}.svg)\n")
    return "\n".join(made)


def insert(path: Path, page: Path) -> None:
    """Puts the tables between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    between = re.compile(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", re.DOTALL)
    if not between.search(text):
        raise ValueError(f"{page} must have the lines {BEGIN.strip()} and {END.strip()}, between which the tables go")
    write_text(page, between.sub(lambda _: "\n" + tables(path) + "\n", text))


def layer(figures: record.Record) -> Iterator[Sequence[str]]:
    """Times and rates of one aggregation."""
    part = Part(figures, "layer")
    yield "hidden, precision", "pass", "ours, ms", "goal", "TFLOP/s", "cuDNN, ms", "cuDNN / ours"
    for case in part.cases:
        hidden, _, precision = case.partition(", ")
        if not precision:
            continue
        for name in ("forward", "training"):
            yield (
                f"{hidden.removeprefix('hidden ')}, {PRECISIONS[precision]}", name, part.cell(case, f"{name}, ms"),
                part.goal(case, f"{name}, ms"), part.cell(case, f"{name}, TFLOP/s"),
                part.cell(case, f"cuDNN {name}, ms"), part.cell(case, f"cuDNN / ours, {name}"),
            )  # fmt: skip


def layer_costs(figures: record.Record) -> Iterator[Sequence[str]]:
    """What the aggregation costs besides, and what it could reach."""
    part = Part(figures, "layer")
    rows = {
        "extra memory in training, MiB": "extra memory, MiB",
        "the same, cuDNN": "cuDNN extra memory, MiB",
        "bitwise repeatable, times slower": "deterministic / default, training",
        "reference loop / ours, forward": "reference loop / ours, forward",
        "plain matrix product of the same shape, TFLOP/s": "matrix product of its shape, TFLOP/s",
        "forward rate / that product's": "forward rate / that product's",
    }
    cases = [case for case in part.cases if ", " in case]
    yield "hidden, precision", *(case.removeprefix("hidden ") for case in cases)
    for name, what in rows.items():
        cells = [", goal ".join(filter(None, [part.cell(case, what), part.goal(case, what)])) for case in cases]
        if any(cells):
            yield name, *cells
    for what, value in part.cases.get("ceilings", {}).items():
        yield f"{what}, for comparison", digits(value), *[""] * (len(cases) - 1)


def training(figures: record.Record) -> Iterator[Sequence[str]]:
    """Training steps."""
    yield "a training step, optimizer included", "measured", "goal"
    for name in ("step", "collab"):
        part = Part(figures, name)
        for case, quantities in part.cases.items():
            for what in quantities:
                yield f"{case}: {what}", part.cell(case, what), part.goal(case, what)


def epochs(figures: record.Record) -> Iterator[Sequence[str]]:
    """Training epochs."""
    part = Part(figures, "epochs")
    yield (
        "a training epoch", "steps", "ours, s", "goal", "GIN, PyG's DataLoader, s", "GIN / ours",
        "GIN, batches on the GPU, s", "GIN / ours",
    )  # fmt: skip
    for case, quantities in part.cases.items():
        steps, taken = quantities.get("steps"), quantities.get("steps of GIN measured")
        scaled = "" if taken is None or taken == steps else f" (GIN from its first {taken:.0f} steps)"
        gin = [
            part.cell(case, f"GIN with {name}{end}")
            for name in ("PyG's DataLoader", "batches on the GPU")
            for end in (", s", " / ours")
        ]
        yield f"{case}{scaled}", f"{steps:.0f}", part.cell(case, "ours, s"), part.goal(case, "ours, s"), *gin


def linear(figures: record.Record) -> Iterator[Sequence[str]]:
    """Time against work."""
    part = Part(figures, "linear")
    yield "hidden 64, bfloat16", "steps", "largest degree", "forward, ms", "TFLOP/s", "training, ms", "TFLOP/s"
    for case, quantities in part.cases.items():
        if "steps" in quantities:
            times = [
                part.cell(case, f"{name}, {unit}") for name in ("forward", "training") for unit in ("ms", "TFLOP/s")
            ]
            name = re.sub(r", 10\^\d+ steps", "", case)
            yield name, f"{quantities['steps']:,.0f}", f"{quantities['largest degree']:,.0f}", *times


def exponents(figures: record.Record) -> Iterator[Sequence[str]]:
    """Time as a power of work."""
    part = Part(figures, "linear")
    yield "time is work to the power of, from 10⁶ steps on", "forward", "training"
    for case, quantities in part.cases.items():
        if "steps" not in quantities:
            yield case, *(part.cell(case, f"exponent of {name} from 10^6 steps on") for name in ("forward", "training"))
