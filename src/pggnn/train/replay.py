"""Training steps on a GPU as one recorded CUDA graph: Python takes no part in them.

Recording needs batches of one shape, which :mod:`pggnn.data.padding` sees to, and networks that neither ask the device
anything nor copy anything to it, as all in the frame of :class:`~pggnn.nn.model.Network`. The recorded step reads its
batch from tables that hold the whole epoch, at a row that it counts up itself; random numbers are new each time.
"""

from itertools import accumulate

import torch
from torch import Tensor

from pggnn.data.padding import PaddedEpoch, Padding, plan_of
from pggnn.nn.conv import SequenceConv
from pggnn.ops import HAS_TRITON
from pggnn.train.loop import Training, Watch

WARM_UP = 3
"""Steps that are taken one by one before the recording, so that everything that is made once is there."""
MOST_STEPS = 2**20
"""Steps of sequences up to which a padded batch is worth it whatever it holds in vain; beyond, at most a half more."""
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
    return padding if padded <= max(MOST_STEPS, (MOST_ROOM if roomy else 1.5) * drawn) else None


def takes_room(conv: torch.nn.Module) -> bool:
    """Whether a layer on the GPU reads roomy plans: if the fused kernels run it, and no structural bits."""
    if not isinstance(conv, SequenceConv) or conv.structure or not HAS_TRITON:
        return False
    from pggnn.ops.fused import refusal

    return refusal(next(conv.parameters()), conv.out_channels) is None


class Replay:
    """The steps of a training, recorded once and played for every batch."""

    def __init__(self, training: Training, padding: Padding) -> None:
        self.training, self.padding = training, padding
        self.device = training.fabric.device
        self.row = torch.zeros(1, dtype=torch.long, device=self.device)
        self.lr = torch.zeros((), device=self.device)
        self.summed = torch.zeros((), device=self.device)
        self._tables: dict[str, Tensor] = {}
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken = 0

    def epoch(self, totals: list[int], watch: Watch) -> float:
        """Takes the steps of an epoch; returns the mean loss."""
        self.begin(totals)
        seen = list(accumulate(totals))
        for step in range(1, len(totals) + 1):
            self.step()
            watch.step(step, len(totals), self.summed, seen[step - 1])
        return float(self.summed) / seen[-1]

    def begin(self, totals: list[int]) -> None:
        """Makes the tables of an epoch, and room for it where a batch is larger than any before."""
        chosen = self.training.batches.chosen()
        if self.padding.extend(chosen):
            self._graph = None
        tables = self.padding.epoch(chosen).tensors()
        tables["total"] = torch.tensor(totals, dtype=torch.float, device=self.device)
        if self._graph is None or any(self._tables[name].shape != table.shape for name, table in tables.items()):
            self._tables, self._graph, self._taken = tables, None, 0
        for name, table in tables.items():
            self._tables[name].copy_(table)
        self.row.zero_()
        self.summed.zero_()
        self.lr.fill_(self.training.schedule.lr)

    def step(self) -> None:
        """The next batch of the epoch."""
        if self._graph is not None:
            self._graph.replay()
        elif self._taken < WARM_UP:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.take_step()
            torch.cuda.current_stream().wait_stream(stream)
            self._taken += 1
        else:
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self.take_step()
            self._graph.replay()

    def take_step(self) -> None:
        """What is recorded: gather the batch, forward, backward, optimizer."""
        training, task = self.training, self.training.task
        now = {name: table.index_select(0, self.row).squeeze(0) for name, table in self._tables.items()}
        total = now.pop("total")
        batch = PaddedEpoch(**now)
        plan, graphs = plan_of(batch, self.padding), self.padding.batch_size + 1
        dtype = next(training.network.parameters()).dtype
        edge_attr = batch.edge_attr.to(dtype) if training.config.model.edge_features else None  # type: ignore[union-attr]
        training.network.zero_grad()
        with training.fabric.autocast():
            scores = training.network(batch.x.to(dtype), plan, batch.member, edge_attr, graphs, batch.real)
        loss = task.loss(scores, task.targets(batch.y), batch.counts)
        (loss / total).backward()
        if training.config.optim.clip is not None:
            torch.nn.utils.clip_grad_norm_(training.network.parameters(), training.config.optim.clip)
        self._update()
        self.summed += loss.detach()
        self.row += 1

    def _update(self) -> None:
        """The optimizer, with a learning rate that can be changed in a recorded step."""
        groups = self.training.adam.param_groups
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = self.lr
        self.training.adam.step()
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
