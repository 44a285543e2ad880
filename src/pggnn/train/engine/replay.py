"""Training steps on a GPU as one recorded CUDA graph: Python takes no part in them.

Recording needs batches of one shape, see :mod:`pggnn.data.batching.padding`, and networks that neither ask the device
anything nor copy anything to it, as all in the frame of :class:`~pggnn.nn.model.Network`. The recorded step reads its
batch from tables that hold the whole epoch, at a row that it counts up itself; random numbers are new each time. What
layers derive from a batch's plan is in the tables too, made for all batches at once: launches are what a GPU that many
trainings share has too few of.
"""

import warnings
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from pggnn.data.batching.padding import PaddedEpoch, Padding, plan_of
from pggnn.nn.recorded import WARM_UP, takes_room
from pggnn.plan import Plan, RoomyPlan
from pggnn.train.engine.loop import Training, Watch
from pggnn.train.engine.models import clip_gradients

MOST_STEPS = 2**20
"""Up to this many steps of sequences any padding is worth it; above, padding by at most a half."""
MOST_DERIVED = 2**28
"""Bytes up to which what layers derive from plans is made ahead, for a whole epoch."""
ROOM_FOR_TABLES = 8
"""Times the tables of an epoch that a GPU must have memory for: making them takes about half of that."""
MOST_ROOM = 4
"""Times the steps of a batch that a roomy one may have room for: it takes no time, but memory."""


def worthwhile(training: Training) -> Padding | None:
    """How to pad the batches of a training, if its steps can and should be recorded."""
    storage, fabric, config = training.storage, training.fabric, training.config
    possible = (
        config.run.record
        and fabric.device.type == storage.device.type == "cuda"
        and fabric.world_size == 1
        and config.run.precision != "16"
        and config.data.workers == 0
    )
    if not possible:
        return None
    roomy = config.run.precision != "64" and all(takes_room(conv) for conv in training.network.convs)
    padding = Padding(storage, training.parts.train, config.optim.batch_size, roomy)
    padded, drawn = padding.steps
    memory = torch.cuda.get_device_properties(fabric.device).total_memory
    if ROOM_FOR_TABLES * padding.nbytes * len(training.batches) > memory:
        return None
    return padding if padded <= max(MOST_STEPS, (MOST_ROOM if roomy else 1.5) * drawn) else None


class Rows:
    """Tables with a row for each step of an epoch, side by side in one tensor: one operation then reads a step's."""

    def __init__(self, tables: dict[str, Tensor]) -> None:
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

    def fits(self, tables: dict[str, Tensor]) -> bool:
        """Whether there is room for just these tables."""
        return self.shapes == {name: (table.dtype, table.shape) for name, table in tables.items()}

    def write(self, tables: dict[str, Tensor]) -> None:
        """Fills all rows."""
        for name, table in tables.items():
            self._part(self.memory, name).copy_(table.flatten(1) if table.dim() > 1 else table.unsqueeze(1))

    def tables(self) -> dict[str, Tensor]:
        """What has been written."""
        return {name: self._part(self.memory, name).view(shape) for name, (_, shape) in self.shapes.items()}

    def read(self, row: Tensor) -> dict[str, Tensor]:
        """One row of each table; ``row`` is a tensor of one number on the device."""
        found = self.memory.index_select(0, row)
        return {name: self._part(found, name).view(shape[1:]) for name, (_, shape) in self.shapes.items()}

    def _part(self, memory: Tensor, name: str) -> Tensor:
        """The columns of a table."""
        dtype, shape = self.shapes[name]
        first = self.places[name] * memory.itemsize // dtype.itemsize
        return memory.view(dtype)[:, first : first + shape[1:].numel()]


class Replay:
    """The steps of a training, recorded once and played for every batch."""

    def __init__(self, training: Training, padding: Padding) -> None:
        self.training, self.padding = training, padding
        self.device = training.fabric.device
        self.row = torch.zeros(1, dtype=torch.long, device=self.device)
        self.lr = torch.zeros((), device=self.device)
        self.summed = torch.zeros((), device=self.device)
        self._rows = Rows({})
        self._forget()

    def _forget(self) -> None:
        """Nothing has been recorded."""
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken = 0
        self._derived: dict[Any, Any] = {}
        """What is in the tables of what layers derive from plans, and its form."""

    def epoch(self, totals: list[int], watch: Watch) -> float:
        """Takes the steps of an epoch; returns the mean loss."""
        self.begin(totals)
        seen = list(accumulate(totals))
        for step in range(1, len(totals) + 1):
            self.step()
            watch.step(step, len(totals), self.summed, seen[step - 1])
        if self.device.type == "cuda":  # asleep, and not asking all the time: others may need the core
            end = torch.cuda.Event(blocking=True)
            end.record()
            end.synchronize()
        return float(self.summed) / seen[-1]

    def begin(self, totals: list[int]) -> None:
        """Makes the tables of an epoch, and room for it where a batch is larger than any before."""
        chosen = self.training.batches.chosen()
        if self.padding.extend(chosen):
            self._forget()
        tables = self.padding.epoch(chosen).tensors()
        tables["total"] = torch.tensor(totals, dtype=torch.float, device=self.device)
        every = tables | self._derived_tables(tables)
        if not self._rows.fits(every):
            self._forget()
            every = tables
            self._rows = Rows(every)
        self._rows.write(every)
        self.row.zero_()
        self.summed.zero_()
        self.lr.fill_(self.training.schedule.lr)

    def derive_ahead(self, plan: Plan) -> None:
        """From now on, what layers have derived from this plan is made for all batches of an epoch at once, if it is
        nothing but tensors that do not take too much memory."""
        if not isinstance(plan, RoomyPlan) or any(isinstance(value, Plan) for value in plan.known.values()):
            return
        tables = self._rows.tables()
        if sum(leaf.nbytes for leaf in tree_leaves(plan.known)) * len(tables["total"]) <= MOST_DERIVED:
            self._derived = {key: tree_flatten(value)[1] for key, value in plan.known.items()}
            tables |= self._derived_tables(tables)
            self._rows = Rows(tables)
            self._rows.write(tables)

    def _derived_tables(self, tables: dict[str, Tensor]) -> dict[str, Tensor]:
        def derive(row: dict[str, Tensor]) -> list[Tensor]:
            plan = plan_of(PaddedEpoch(**row), self.padding)
            return tree_leaves([build(plan, *args) for build, args in self._derived])

        if not self._derived:
            return {}
        rows = {name: table for name, table in tables.items() if name != "total"}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.searchsorted")  # is given views of what all rows share
            derived = torch.vmap(derive)(rows)
        return {f"derived {number}": table for number, table in enumerate(derived)}

    def step(self) -> None:
        """The next batch of the epoch."""
        if self._graph is not None:
            self._graph.replay()
        elif self._taken < WARM_UP:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._plan = self.take_step()
            torch.cuda.current_stream().wait_stream(stream)
            self._taken += 1
        else:
            self.derive_ahead(self._plan)
            del self._plan
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self.take_step()
            self._graph.replay()

    def take_step(self) -> Plan:
        """What is recorded: gather the batch, forward, backward, optimizer. Returns the batch's plan."""
        training, task = self.training, self.training.task
        now = self._rows.read(self.row)
        total = now.pop("total")
        derived = [now.pop(name) for name in list(now) if name.startswith("derived ")]
        batch = PaddedEpoch(**now)
        plan, graphs = plan_of(batch, self.padding), self.padding.batch_size + 1
        for key, form in self._derived.items():
            plan.known[key] = tree_unflatten(derived[: form.num_leaves], form)
            del derived[: form.num_leaves]
        dtype = next(training.network.parameters()).dtype
        edge_attr = batch.edge_attr.to(dtype) if training.config.model.edge_features else None  # type: ignore[union-attr]
        training.network.zero_grad()
        with training.fabric.autocast():
            scores = training.network(batch.x.to(dtype), plan, batch.member, edge_attr, graphs, batch.real)
        loss = task.loss(scores, task.targets(batch.y), batch.counts)
        (loss / total).backward()
        if training.config.optim.clip is not None:
            clip_gradients(training.network, training.config.optim.clip)
        self._update()
        self.summed += loss.detach() / training.config.model.committee
        self.row += 1
        return plan

    def _update(self) -> None:
        """The optimizer, with a learning rate that can be changed in a recorded step."""
        groups = self.training.adam.param_groups
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = self.lr
        self.training.adam.step()
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
