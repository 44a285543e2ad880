"""What the whole group costs and gains: PG-GNN's runs that differ only in their orderings."""

from typing import Any

from pggnn.report.charts import draw_costs
from pggnn.report.comparison import count_digits
from pggnn.report.grid import Column, Grid
from pggnn.train.config import difference
from pggnn.train.runs.folder import MAY_CHANGE
from pggnn.train.runs.stored import Run

NAMES = {"group": "whole group", "single": "single ordering", "random": "a random one"}
ORDER = {"group": 0, "single": 2, "random": 3}
"""Their places in a list; K orderings of the group come between 0 and 2."""


def compare_orderings(grid: Grid) -> list[dict[str, Any]]:
    """For each column and set of runs that differ in their orderings alone: figures, times, a sentence, and a chart
    where times can be compared."""
    found = []
    for column in grid.columns:
        alike: list[list[tuple[str, Run]]] = []
        for row, label, run in grid.runs:
            if label != column.label or run.model != "PG-GNN" or run.figures is None or run.seconds is None:
                continue
            for others in alike:
                if not difference(run.config, others[0][1].config, (*MAY_CHANGE, "model.orderings")):
                    if not any(_is_same(run, other) for _, other in others):
                        others.append((row, run))
                    break
            else:
                alike.append([(row, run)])
        found += [_comparison(column, runs) for runs in alike if len({run.orderings for _, run in runs}) > 1]
    return found


def _comparison(column: Column, runs: list[tuple[str, Run]]) -> dict[str, Any]:
    runs = sorted(runs, key=lambda one: (ORDER.get(one[1].orderings, 1), -_many(one[1])))
    digits, scale = count_digits(column.published[0], column.run.metric), column.run.scale
    apart = len({run.hardware for _, run in runs}) > 1
    rows, points = [], []
    single = next((run for _, run in runs if run.orderings == "single"), None)
    for row, run in runs:
        figures, seconds = run.figures, run.seconds
        assert figures is not None and seconds is not None
        name = NAMES.get(run.orderings, f"{run.orderings} of the group")
        rows.append({
            "row": row, "orderings": name, "figure": figures.figure(scale, digits),
            "run": run,
            "ratio": f"{seconds / single.seconds:.2g} ×" if single and single.seconds and not apart else "—",
        })  # fmt: skip
        points.append((name, seconds, figures.mean * scale, figures.std * scale))
    return {
        "heading": column.label + (", nested" if runs[0][1].config.protocol.kind == "nested" else ""),
        "unit": column.run.unit, "rows": rows, "chart": "" if apart else draw_costs(points, column.run.unit),
        "summary": _summarise(column, {run.orderings: run for _, run in runs}, digits, apart), "apart": apart,
        "machines": " and ".join(dict.fromkeys(f"{run.hardware} ({row})" for row, run in runs)),
        "better": "Lower is better" if column.run.lower_is_better else "Higher is better",
    }  # fmt: skip


def _is_same(run: Run, other: Run) -> bool:
    """Whether a row's runs are those of another row, as where the best options are the paper's own."""
    return (run.orderings, run.figures) == (other.orderings, other.figures)


def _many(run: Run) -> int:
    return run.config.model.orderings if isinstance(run.config.model.orderings, int) else 0


def _summarise(column: Column, runs: dict[str, Run], digits: int, apart: bool) -> str:
    """Group against single, in a sentence."""
    if not {"group", "single"} <= runs.keys():
        return ""
    (group, times), (single, time) = ((runs[one].figures, runs[one].seconds) for one in ("group", "single"))
    assert group and single and times and time
    gain = (single.mean - group.mean if column.run.lower_is_better else group.mean - single.mean) * column.run.scale
    within = min(len(group.each), len(single.each)) > 1 and abs(gain) <= (group.std + single.std) * column.run.scale
    how = f"{'better' if gain > 0 else 'worse'} by {abs(gain):.{digits}f} than" if round(gain, digits) else "as good as"
    ratio = f"{times / time:.2g}"
    took = "" if apart else f"; an epoch takes {'' if ratio == '1' else f'{ratio} times '}as long"
    return f"The whole group is {how} a single ordering{', which is within their deviations' * within}{took}."
