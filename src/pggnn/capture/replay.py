"""Training steps on a GPU as one recorded CUDA graph: Python takes no part in them.

Recording needs batches of one shape (:mod:`pggnn.data.batching.padding`) and steps that neither ask the device anything
nor copy anything to it. The recorded step reads its batch from tables that hold the whole epoch, at a row that it
counts up itself; random numbers are new each time. What layers derive from a batch's plan is in the tables too, made
for all batches at once: where many trainings share a GPU, launches are scarce.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torch_geometric.data import Data

from pggnn.capture.graphs import WARM_UP, record, side_stream
from pggnn.capture.linear_maps import LinearMaps
from pggnn.lists import ListPlan
from pggnn.plan import PaddedPlan, Plan

MOST_DERIVED = 2**28
"""Bytes up to which what layers derive from plans is made ahead, for a whole epoch."""
EDGES = "edges"
"""What the plan of the edges is called among all."""
Tables = dict[str, Tensor]
Plans = dict[str, Plan | ListPlan]


class Padded(Protocol):
    """Batches of one shape."""

    def extend(self, chosen: Sequence[Tensor]) -> bool:
        """Grows to hold batches of these graphs; returns whether it had to."""

    def epoch(self, chosen: Sequence[Tensor]) -> Tables:
        """These batches as tables with one row for each."""

    def plan(self, row: Tables) -> Plan:
        """The plan of the batch in one row."""

    def batch(self, row: Tables, plan: Plan) -> Data:
        """The batch in one row."""


class Rows:
    """Tables with a row for each step of an epoch, side by side in one tensor: one operation then reads a step's."""

    def __init__(self, tables: Tables) -> None:
        self.shapes = {name: (table.dtype, table.shape) for name, table in tables.items()}
        self.places: dict[str, int] = {}
        words = 0
        for name, table in tables.items():
            self.places[name] = words
            words += -(-table[0].nbytes // 16) * 2  # addresses that are divisible by 16 are read fastest
        self.memory = torch.empty(0, 0, dtype=torch.long)
        if tables:
            first = next(iter(tables.values()))
            self.memory = torch.zeros(first.size(0), words, dtype=torch.long, device=first.device)

    def fits(self, tables: Tables) -> bool:
        """Whether these tables have the shapes of those here."""
        return self.shapes == {name: (table.dtype, table.shape) for name, table in tables.items()}

    def write(self, tables: Tables) -> None:
        """Fills all rows."""
        for name, table in tables.items():
            self._part(self.memory, name).copy_(table.flatten(1) if table.dim() > 1 else table.unsqueeze(1))

    def tables(self) -> Tables:
        """What has been written."""
        return {name: self._part(self.memory, name).view(shape) for name, (_, shape) in self.shapes.items()}

    def read(self, row: Tensor) -> Tables:
        """One row of each table; ``row`` is a tensor of one number on the device."""
        found = self.memory.index_select(0, row)
        return {name: self._part(found, name).view(shape[1:]) for name, (_, shape) in self.shapes.items()}

    def _part(self, memory: Tensor, name: str) -> Tensor:
        """The columns of a table."""
        dtype, shape = self.shapes[name]
        first = self.places[name] * memory.itemsize // dtype.itemsize
        return memory.view(dtype)[:, first : first + shape[1:].numel()]


class Replay:
    """The steps of a training, recorded once and played for every batch.

    Args:
        update: One training step: takes a batch and its number of targets, returns the summed loss.
        padded: The batches.
        optimizer: Whose learning rate is kept on the device, where it can change between plays.
        device: The GPU.
    """

    def __init__(
        self,
        update: Callable[[Data, Tensor], Tensor],
        padded: Padded,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
    ) -> None:
        self.update, self.padded, self.optimizer, self.device = update, padded, optimizer, device
        self.row = torch.zeros(1, dtype=torch.long, device=device)
        self.lr = torch.zeros((), device=device)
        self.summed = torch.zeros((), device=device)
        self._linear = LinearMaps(device)
        self._rows = Rows({})
        self._forget()

    def _forget(self) -> None:
        """Drops the recording."""
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken = 0
        self._derived: dict[str, dict[Any, Any]] = {}
        """What layers derive from plans that is in the tables, by plan, and its structure."""

    def epoch(
        self,
        chosen: Sequence[Tensor],
        totals: list[float],
        lr: float,
        after: Callable[[int, int, Tensor, float], None],
    ) -> float:
        """Takes the steps of an epoch; returns the mean loss.

        Args:
            chosen: Numbers of the graphs in each batch.
            totals: Number of targets in each batch.
            lr: The learning rate.
            after: Called after each step with its number, the number of steps, the loss so far and its targets.
        """
        self.begin(chosen, totals, lr)
        for step, seen in enumerate(accumulate(totals), start=1):
            self.step()
            after(step, len(totals), self.summed, seen)
        if self.device.type == "cuda":  # asleep, and not asking all the time: others may need the core
            end = torch.cuda.Event(blocking=True)
            end.record()
            end.synchronize()
        return float(self.summed) / sum(totals)

    def begin(self, chosen: Sequence[Tensor], totals: list[float], lr: float) -> None:
        """Makes the tables of an epoch; drops the recording where they have another shape."""
        if self.padded.extend(chosen):
            self._forget()
        tables = self.padded.epoch(chosen)
        tables["total"] = torch.tensor(totals, dtype=torch.float, device=self.device)
        every = tables | self._derived_tables(tables)
        if not self._rows.fits(every):
            self._forget()
            every = tables
            self._rows = Rows(every)
        self._rows.write(every)
        self.row.zero_()
        self.summed.zero_()
        self.lr.fill_(lr)

    def derive_ahead(self, plans: Plans) -> None:
        """From now on, what layers have derived from these plans is made for all batches of an epoch at once, if it is
        nothing but tensors that do not take too much memory."""
        derived = {name: plan.known for name, plan in plans.items()}
        leaves = tree_leaves(derived)
        if not isinstance(plans[EDGES], PaddedPlan) or not all(isinstance(leaf, Tensor) for leaf in leaves):
            return
        tables = self._rows.tables()
        if sum(leaf.nbytes for leaf in leaves) * len(tables["total"]) <= MOST_DERIVED:
            self._derived = {
                name: {key: tree_flatten(value)[1] for key, value in known.items()} for name, known in derived.items()
            }
            tables |= self._derived_tables(tables)
            self._rows = Rows(tables)
            self._rows.write(tables)

    def _derived_tables(self, tables: Tables) -> Tables:
        def derive(row: Tables) -> list[Tensor]:
            _, plans = self._batch(row)
            return tree_leaves(
                [plans[name].derived(build, *args) for name, known in self._derived.items() for build, args in known]
            )

        if not any(self._derived.values()):
            return {}
        rows = {name: table for name, table in tables.items() if name != "total"}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.searchsorted")  # is given views of what all rows share
            derived = torch.vmap(derive)(rows)
        return {f"derived {number}": table for number, table in enumerate(derived)}

    def _batch(self, row: Tables) -> tuple[Data, Plans]:
        """The batch in one row, and all plans that its layers read."""
        plan = self.padded.plan(row)
        batch, plans = self.padded.batch(row, plan), Plans({EDGES: plan})
        for kind, lists in (batch.lists if "lists" in batch else {}).items():
            plans |= {kind: lists.plan, f"{kind} themselves": lists}
        return batch, plans

    def step(self) -> None:
        """The next batch of the epoch."""
        if self._graph is None and self._taken < WARM_UP:
            with side_stream():
                self._plans = self.take_step()
            self._taken += 1
            return
        if self._graph is None:
            self.derive_ahead(self._plans)
            del self._plans
            self._graph, _ = record(self.take_step)
        self._graph.replay()

    def take_step(self) -> Plans:
        """What is recorded: reads the batch and takes a step. Returns the batch's plans."""
        row = self._rows.read(self.row)
        total = row.pop("total")
        derived = [row.pop(name) for name in list(row) if name.startswith("derived ")]
        batch, plans = self._batch(row)
        for name, known in self._derived.items():
            for key, form in known.items():
                plans[name].known[key] = tree_unflatten(derived[: form.num_leaves], form)
                del derived[: form.num_leaves]
        with self._rate_on_device(), self._linear:
            self.summed += self.update(batch, total)
        self.row += 1
        return plans

    @contextmanager
    def _rate_on_device(self) -> Iterator[None]:
        """The learning rate as a tensor, which can change between plays."""
        groups = self.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = self.lr
        yield
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
