"""What the page says of a run: answers for its test graphs, errors, and what renumbering neighbours does to them."""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from pggnn.console import tracked
from pggnn.data.batching.collate import Collater
from pggnn.data.dataset import GraphDataset
from pggnn.data.graphs import Graphs, expand, is_known, starts
from pggnn.train.engine.evaluate import compute_outputs, ordered_batches
from pggnn.train.engine.loop import Split
from pggnn.train.runs import protocol
from pggnn.train.runs.folder import check_same
from pggnn.train.runs.predict import Trained
from pggnn.train.runs.protocol import Trial
from pggnn.train.runs.stored import Run

MOST_ROWS, MOST_DRAWN, NUMBERINGS = 2000, 20, 8
"""Answers on the page; of each training, those that are drawn and renumbered: as many with the largest errors as of the
rest, evenly spaced; how often."""
MOST_NODES, MOST_EDGES, MOST_ALL_EDGES = 100, 1000, 200_000
"""A graph that is drawn and renumbered has at most so many nodes and edges, and one graph with targets at its nodes so
many edges."""
MOST_COLUMNS = 4
"""Targets of one graph that are written out."""
Row = dict[str, Any]


def collect(folder: Path) -> dict[str, Any]:
    """What ``js/answers.js`` shows of the run in a folder."""
    run = Run.read(folder)
    trained = Trained.load(folder, run.which)
    dataset = trained.read(run.config.data.name)
    graphs = Graphs.of(dataset)
    check_same(trained.config, graphs)
    collater = trained.collater(graphs)
    drawings: list[dict[str, Any]] = []
    rows: list[Row] = []
    for trial in tracked(trained.scorers, "Answers and renumberings", len(trained.scorers), after=1):
        part = _Part(trained, dataset, collater, trial, protocol.split(run.config, graphs, trial))
        rows += part.rows(drawings, several=len(trained.scorers) > 1)
    total, rows = len(rows), sorted(rows, key=_by_error)[:MOST_ROWS]
    kept = f", of which the page has the {MOST_ROWS:,} with the largest errors" if total > MOST_ROWS else ""
    return {
        "name": run.name,
        "about": f"{run.model} on {Path(run.data).name}; test {run.metric} {run.figures or 'not known'}. "
        f"{total:,} answers{kept}. {_explain(trained)}",
        "strip": _strip(trained),
        "numberings": NUMBERINGS,
        "rows": rows,
        "drawings": drawings,
    }


@dataclass(frozen=True)
class _Part:
    """What one training is tested on."""

    trained: Trained
    dataset: GraphDataset
    collater: Collater
    trial: Trial
    split: Split

    @property
    def of_graphs(self) -> bool:
        """Whether an answer is a graph's, or one graph has an answer for each of its nodes."""
        return not self.split.by_node

    def rows(self, drawings: list[dict[str, Any]], several: bool) -> Iterator[Row]:
        """A row for each graph, or node."""
        index, by_node = self.split.test, self.split.by_node
        outputs, targets = self.trained.answers(self.collater, index, [self.trial], by_node=by_node)
        counts = self.collater.counts[0][index] if self._has_nodes else torch.ones(len(index), dtype=torch.long)
        ends = starts(counts).tolist()
        wrong = _mean(errors(self.trained, outputs, targets), ends)
        chosen = self._choose(wrong)
        moved = dict(zip(chosen, self._renumber(outputs, targets, ends, chosen), strict=True))
        for unit, number in enumerate(index.tolist()):
            part = slice(ends[unit], ends[unit + 1])
            row: Row = {"graph": self._name(number), "training": self.trial.name if several else None}
            row |= {"truth": None, "answer": None, "nodes": None, "error": wrong[unit]}
            row |= {"moved": None, "largest": None, "values": [], "value": None, "target": None} | moved.get(unit, {})
            words = [
                self._say(*pair)
                for pair in zip(outputs[part], targets[part], strict=True)
                if unit in moved or not self._has_nodes
            ]
            if not self._has_nodes:
                row["truth"], row["answer"] = words[0]
            elif words:
                row["nodes"] = {"truth": [truth for truth, _ in words], "answer": [answer for _, answer in words]}
            row["drawing"] = row["centre"] = None
            if unit in moved:
                row["drawing"] = len(drawings)
                drawing, row["centre"] = self._draw(number)
                drawings.append(drawing)
            yield row

    @property
    def _has_nodes(self) -> bool:
        return self.trained.schema.level == "node" and self.of_graphs

    def _name(self, number: int) -> Any:
        graph = number if self.of_graphs else int(self.collater.graph_of_node[number])
        name = self.dataset.ids[graph] if self.dataset.ids else graph
        return name if self.of_graphs else f"node {number - int(self.collater.counts[0][:graph].sum())} of {name}"

    def _choose(self, wrong: list[float]) -> list[int]:
        """Which are drawn and renumbered."""
        nodes, edges = (row.tolist() for row in self.collater.counts)
        order = sorted(range(len(wrong)), key=lambda unit: _by_error({"error": wrong[unit]}))
        if self.of_graphs:
            index = self.split.test.tolist()
            order = [u for u in order if nodes[index[u]] <= MOST_NODES and edges[index[u]] <= 2 * MOST_EDGES]
        elif sum(edges) > MOST_ALL_EDGES and not self.trained.config.fan:
            return []
        rest = order[MOST_DRAWN:]
        return order[:MOST_DRAWN] + rest[:: max(1, -(-len(rest) // MOST_DRAWN))]

    def _renumber(self, outputs: Tensor, targets: Tensor, ends: list[int], chosen: list[int]) -> Iterator[Row]:
        """How the answers for the chosen graphs move, one by one."""
        if not chosen:
            return
        scorer, fan = self.trained.scorers[self.trial], self.trained.config.fan
        size, by_node, place = self.trained.config.optim.batch_size, self.split.by_node, next(iter(self._weights))
        index = self.split.test[torch.tensor(chosen)]
        batches = (
            ordered_batches(self.collater, size, index, by_node=by_node, neighbours=fan) for _ in range(NUMBERINGS)
        )
        found, _ = compute_outputs(
            [scorer], self.trained.task, _renumbered(chain(*batches)), place.device, targets=False
        )
        again = found[0].cpu().view(NUMBERINGS, -1, outputs.size(1))
        done = 0
        for unit in chosen:
            part = slice(ends[unit], ends[unit + 1])
            before, truth = outputs[part], targets[part]
            after = again[:, done : done + len(before)]
            done += len(before)
            change = (after - before).abs().mean((1, 2)) if before.numel() else torch.zeros(1)
            value, target = self._score(before, truth)
            values = [self._score(one, truth)[0] for one in after]
            yield {
                "moved": _rounded(change.mean()), "largest": _rounded(change.max()),
                "value": value, "target": target, "values": values,
            }  # fmt: skip

    @property
    def _weights(self) -> Iterable[Tensor]:
        return self.trained.scorers[self.trial].parameters()

    def _score(self, outputs: Tensor, targets: Tensor) -> tuple[float | None, float | None]:
        """One number for an answer, as :func:`_strip` calls it, and what it should be where that is known."""
        if _strip(self.trained) == "answer":
            return _rounded(outputs.mean()), _rounded(targets.mean())
        return _mean(errors(self.trained, outputs, targets), [0, len(outputs)])[0], None

    def _say(self, output: Tensor, target: Tensor) -> tuple[Any, Any]:
        """Truth and answer, as they are shown."""
        schema = self.trained.schema
        if schema.task == "classification":
            known = bool(is_known(target))
            best = int(output.nan_to_num(-1).argmax())
            said = f"{schema.classes[best]} ({float(output[best]):.2f})" if output.isfinite().all() else None
            return str(schema.classes[int(target)]) if known else None, said
        pair = [[_rounded(value) for value in one.view(-1)[:MOST_COLUMNS]] for one in (target, output)]
        if len(pair[0]) == 1:
            return pair[0][0], pair[1][0]
        more = " …" if target.numel() > MOST_COLUMNS else ""
        truth, answer = (", ".join("–" if value is None else f"{value:g}" for value in one) + more for one in pair)
        return truth, answer

    def _draw(self, number: int) -> tuple[dict[str, Any], int | None]:
        """The graph; of one node, the node with its neighbours."""
        graphs, centre = self.collater.graphs, None
        if self.of_graphs:
            part = graphs.chunk(number, number + 1)
            index, names = part.edge_index.cpu().long(), torch.arange(int(part.nodes[0]))
            x = part.node.get("x")
        else:
            index, _ = (one.cpu() for one in graphs.batched_edges())
            near = torch.cat([index[1, index[0] == number], index[0, index[1] == number]]).unique()
            names = torch.cat([torch.tensor([number]), near[near != number][: MOST_NODES - 1]])
            inside = torch.full((len(self.collater.graph_of_node),), -1)
            inside[names] = torch.arange(len(names))
            index = inside[index]
            index, centre = index[:, (index >= 0).all(0)], 0
            names = names - int(self.collater.counts[0][: int(self.collater.graph_of_node[number])].sum())
            x = graphs.node["x"][names] if "x" in graphs.node else None
        pairs = np.unique(np.sort(index[:, index[0] != index[1]].numpy(), axis=0), axis=1).T
        return {"n": len(names), "edges": pairs.tolist(), "names": names.tolist(), "labels": self._labels(x)}, centre

    def _labels(self, x: Tensor | None) -> list[str] | None:
        schema = self.trained.schema
        if x is None or not schema.node_labels or schema.degrees:
            return None
        columns = expand("x", x.cpu(), schema.widths)[:, schema.features :][:, : len(schema.node_labels)]
        return [str(schema.node_labels[label])[:12] for label in columns.argmax(1).tolist()]


def errors(trained: Trained, outputs: Tensor, targets: Tensor) -> Tensor:
    """``[N]`` how wrong each answer is: 1 less the probability of the true class, or the mean absolute error of values
    and of probabilities; NaN where the truth is not known, infinite where the answer is not finite."""
    known = is_known(targets)
    if trained.task.kind == "classification":
        wrong = 1 - outputs.gather(1, targets.where(known, 0).view(-1, 1)).view(-1)
        return wrong.nan_to_num(torch.inf).where(known, torch.nan)
    wrong = (outputs - targets.view_as(outputs)).abs().nan_to_num(torch.inf, posinf=torch.inf)
    return wrong.where(known.view_as(outputs), torch.nan).nanmean(1)


def _renumbered(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches with each node's neighbours in a random order."""
    for batch in batches:
        changed = copy(batch)
        changed.plan = batch.plan.renumbered()
        yield changed


def _mean(wrong: Tensor, ends: list[int]) -> list[Any]:
    """The mean error of each stretch; None where nothing in it is known, or not finite."""
    return [_rounded(wrong[first:last].nanmean()) for first, last in pairwise(ends)]


def _rounded(value: Tensor) -> float | None:
    """A number with six digits, or None."""
    return float(f"{float(value):.6g}") if bool(value.isfinite()) else None


def _by_error(row: Row) -> float:
    """Sorts by falling error, with answers that are not finite first."""
    return -row["error"] if row["error"] is not None else -float("inf")


def _strip(trained: Trained) -> str:
    """What is compared between numberings: the answer itself where it is one number for each graph."""
    return "answer" if trained.schema.task == "regression" and trained.schema.out_channels == 1 and (
        trained.schema.level == "graph") else "error"  # fmt: skip


def _explain(trained: Trained) -> str:
    """What an error is."""
    kind = {
        "classification": "1 less the probability of the true class",
        "regression": "the absolute difference from the truth, as a mean where there are several targets",
        "multilabel": "the mean difference between probabilities and truth",
    }[trained.task.kind]
    each = "" if trained.schema.level == "graph" else ", as a mean over the nodes of a graph"
    return f"An error is {kind}{each}."
