"""``pggnn tune``: options that may help on a data set of your own, ranked by validation."""

import math
import shlex
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from pggnn.console import tell
from pggnn.data.cost import RINGS_COST, Aggregation, count_list_steps, measure_work
from pggnn.data.features.lists import find_lists
from pggnn.data.features.walks import MOST_NODES
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.search import TooMany
from pggnn.train.config import Config
from pggnn.train.options import parse
from pggnn.train.runs import protocol
from pggnn.train.runs.run import load_graphs
from pggnn.train.sweeps.candidates import Candidate, Search, rank, write, write_config
from pggnn.train.sweeps.keys import Arguments
from pggnn.train.sweeps.sweep import Sweep

GIVEN, CONTROL = "as given", "GIN"
RINGS = ("rings", "sum and rings")
"""Candidates for graphs that have rings."""
BEST = "best.yaml"


def tune(options: Arguments, out: Path | None, sweep: Sweep) -> tuple[list[Candidate], Path]:
    """Changes one option at a time, then combines those that helped. Returns the candidates, the best first, and the
    folder of their runs, of a table, and of the best one's config.

    Args:
        options: Options of ``pggnn train``: the data, and whatever all candidates share.
        out: Folder; by default ``runs/DATA-tune``.
        sweep: Which candidates to run, and how.
    """
    if any(option.partition("=")[0] == "--run.out" for option in options):
        raise ValueError("each candidate has a folder of its own: give one for all of them by --out, not by --run.out")
    config = parse(options)[0]
    if config.model.name != "pggnn":
        raise ValueError(
            f"options of PG-GNN are tried, beside {CONTROL}: leave model.name out, got {config.model.name}"
        )
    graphs = load_graphs(config)
    if protocol.kind(config, graphs) == "folds":
        raise ValueError("candidates are chosen by validation, and protocol.kind folds has none: choose nested")
    data = Path(config.data.name).name
    out = out or Path(f"runs/{Path(data).stem.lower()}-tune")
    tried = changes(config, graphs.schema)
    if int(graphs.nodes.max()) > MOST_NODES:
        tried.pop("walks", None)
    if not tried.keys().isdisjoint(RINGS) and not _has_rings(config, graphs, sweep.console):
        tried = {name: options for name, options in tried.items() if name not in RINGS}
    search = Search(options, tried)
    ranked = rank("tune", {data: search}, out, sweep)
    found = {one.name: one.loss for one in ranked}
    helped = [one for one in tried if one != CONTROL and found.get(one, math.inf) < found.get(GIVEN, -math.inf)]
    helped = [
        one for one in helped if not any(found[other] < found[one] for other in helped if _clash(tried, one, other))
    ]
    if len(helped) > 1 and found.keys() == tried.keys():
        together = " + ".join(helped)
        every = tuple(option for one in helped for option in tried[one])
        search = replace(search, candidates=tried | {together: every})
        ranked = rank("tune", {data: search}, out, replace(sweep, only=[together]))
    if ranked:
        write(ranked, out / "tune.md")
        command = shlex.join(["pggnn", "tune", *options])
        write_config(ranked[0], search, len(ranked), command, out / BEST)
    return ranked, out


def _has_rings(config: Config, graphs: Graphs, console: Console) -> bool:
    """Whether graphs have rings, and few enough to read them all."""
    try:
        steps = count_list_steps("rings", find_lists(graphs, "rings", config.data.rings, console)).sum()
    except TooMany as error:
        tell(console, f"Reading rings is not tried: {error.found}.")
        return False
    return 0 < int(steps) <= RINGS_COST * int(measure_work(graphs, Aggregation()).steps.sum())


def _clash(tried: dict[str, Arguments], one: str, other: str) -> bool:
    """Whether two candidates set the same option; only the better one is combined with others."""
    return not {word for word in tried[one] if word.startswith("--")}.isdisjoint(tried[other])


def changes(config: Config, schema: Schema) -> dict[str, Arguments]:
    """The candidates, each with one change; a change that the options already make is left out."""
    model = config.model
    single, mean = model.orderings == "single", model.readout == "mean"
    arranged, orderings = model.aggregation == "arrangements", ("--model.orderings", "group" if single else "single")
    summed = arranged and model.orderings not in ("single", "random") and model.reduce == "sum"
    renumbered = {"given": "random", "labels": "both"}.get(model.numbering, model.numbering)
    found = {
        GIVEN: (),
        "walks": ("--data.walks", "16") if config.data.walks == 0 else None,
        "renumbered": ("--model.numbering", renumbered, "--model.numberings", "8")
        if (renumbered, model.numberings > 1) != (model.numbering, True)
        else None,
        "structure": ("--model.structure", "1") if arranged and model.structure == 0 else None,
        "rings": ("--model.reads", *model.reads, "rings") if "rings" not in model.reads else None,
        "sum and rings": ("--model.reads", "sum", "rings")
        if arranged and set(model.reads) != {"sum", "rings"}
        else None,
        "edge features": ("--model.edge_features", "true") if schema.edge_dim and not model.edge_features else None,
        "whole group" if single else "single ordering": orderings if arranged else None,
        "mean over orderings": ("--model.reduce", "mean") if summed else None,
        "sum" if mean else "mean": ("--model.readout", "sum" if mean else "mean") if schema.level == "graph" else None,
        "sum and mean": ("--model.readout", "both") if schema.level == "graph" and model.readout != "both" else None,
        "log of sum": ("--model.readout", "log") if schema.level == "graph" and model.readout != "log" else None,
        "normalised by graph": ("--model.norm", "graph") if schema.level == "graph" and model.norm != "graph" else None,
        "not normalised": ("--model.norm", "none") if schema.task == "regression" and model.norm != "none" else None,
        "dropout": ("--model.dropout", "0.5" if model.block == "plain" else "0.1") if model.dropout == 0 else None,
        "twice as wide": ("--model.hidden", str(2 * model.hidden)),
        "cosine": ("--optim.schedule", "cosine") if config.optim.schedule != "cosine" else None,
        "averaged": ("--optim.average", "0.9") if config.optim.average == 0 else None,
        "committee": ("--model.committee", "3") if model.committee == 1 else None,
        CONTROL: ("--model.name", "gin"),
    }
    return {name: options for name, options in found.items() if options is not None}
