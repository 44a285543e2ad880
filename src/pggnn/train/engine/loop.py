"""The training loop: epochs, evaluation, log and checkpoints of one network on one split."""

import copy
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.fabric import Fabric
from torch import Tensor
from torch.utils.data import DataLoader
from torch_geometric.data import Batch, Data

from pggnn.capture.graphs import takes_padded_plans, work_of
from pggnn.capture.replay import Replay
from pggnn.data.batching.batches import Batches
from pggnn.data.batching.collate import Collater
from pggnn.data.batching.nodes import NodeBatches
from pggnn.data.batching.padding import Padding
from pggnn.seeds import derived_seed
from pggnn.train.config import Config
from pggnn.train.engine import checkpoint
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.engine.distributed import share_norms
from pggnn.train.engine.evaluate import compute_outputs, ordered_batches
from pggnn.train.engine.log import Log, Record
from pggnn.train.engine.memory import peak_memory
from pggnn.train.engine.models import Scorer, allot_workspace, build, clip_gradients, guess_first, lists_for, unit_of
from pggnn.train.engine.schedule import Schedule
from pggnn.train.engine.task import NONFINITE, Task, is_finite

LAST, PREVIOUS, BEST = (f"{name}.safetensors" for name in ("last", "previous", "best"))
MOST_KEPT = 2**22
"""Nodes and edges up to which the batches of validation and test are kept from epoch to epoch."""
MOST_STEPS = 2**20
"""Steps of sequences up to which a padded batch is recorded, however little of it is real."""
MOST_PADDED = 4
"""Times the steps of a batch that a larger padded one may have, where padding takes no time, but memory."""
TABLES = 8
"""Times the tables of an epoch that a GPU must have memory for: making them takes about half of that."""


class Diverged(ValueError):
    """Loss or weights are no longer numbers."""


class Callback:
    """Methods that a training calls as it goes; these do nothing."""

    def step(self, step: int, steps: int, summed: Tensor, targets: float) -> None:
        """After each batch: the sum of the epoch's losses so far, still on its device, and the number of targets."""

    def epoch(self, record: Record) -> None:
        """After each epoch, when its checkpoint has been written."""


@dataclass(frozen=True)
class Split:
    """Numbers of the graphs to train on, to choose the epoch by, and to test on."""

    train: Tensor
    val: Tensor | None
    test: Tensor
    by_node: bool = field(default=False, kw_only=True)
    """Whether they are numbers of nodes, counted over all graphs."""


class Training:
    """One network, trained from a seed on part of the graphs, in a folder from which it can go on at any time.

    Each epoch's randomness depends on seed and epoch alone, so a training that was cut off and goes on from its last
    checkpoint ends with the same weights as one left alone.
    """

    def __init__(
        self, config: Config, collater: Collater, split: Split, seed: int, folder: Path, fabric: Fabric
    ) -> None:
        self.config, self.split, self.seed, self.folder, self.fabric = config, split, seed, folder, fabric
        self.collater, optim = collater, config.optim
        schema = collater.graphs.schema
        self.task, unit = Task(schema, optim.loss, tuple(config.protocol.metric)), None
        if optim.standardize and self.task.kind == "regression":
            unit = unit_of(self._targets_of(split.train))
            self.task = replace(self.task, deviation=torch.tensor(unit["deviation"], device=fabric.device))
        torch.manual_seed(derived_seed(seed, 0))
        self.network = build(config.model, schema)
        allot_workspace(self.network, fabric.device)
        share_norms(self.network)
        scorer = Scorer(self.network, config.model.edge_features, unit)
        self.adam = torch.optim.AdamW(
            scorer.parameters(), optim.lr, weight_decay=optim.weight_decay,
            fused=config.run.precision != "16" or optim.clip is None,  # or gradients are unscaled too late to clip them
            capturable=fabric.device.type == "cuda",
        )  # fmt: skip
        self.scorer, self.optimizer = fabric.setup(scorer, self.adam)
        self._precision = fabric.strategy.precision
        self._precision.load_state_dict(torch.amp.GradScaler("cpu").state_dict())  # not that of the training before
        self.average = copy.deepcopy(self.network) if optim.average else None
        self.judge = self.scorer
        """What is evaluated: the network, or its moving average."""
        if self.average is not None:
            self.judge = fabric.setup(Scorer(self.average, config.model.edge_features, unit))
        self.schedule = Schedule(self.adam, optim, self.task.maximise and split.val is not None)
        self._shard = fabric.global_rank, fabric.world_size
        self._known = collater.graphs.known_targets(split.by_node)
        self.batches = self._training_batches()
        self._evaluated: dict[str, list[Batch]] = {}
        self.state: dict[str, Any] = {"epoch": 0, "best_epoch": 0, "val": None, "test": None, "seconds": 0.0}
        self.state |= {"unit": unit} if unit else {}

    def _training_batches(self) -> Batches:
        """The batches to train on: graphs, or nodes. Inductive training sees no other nodes than those."""
        config, split, collater = self.config, self.split, self.collater
        optim, index = config.optim, split.train
        options: dict[str, Any] = {"sampling": optim.sampling, "seed": self.seed, "steps": optim.steps}
        options["shard"] = self._shard
        if not split.by_node:
            return Batches(collater, optim.batch_size, index=index, **options)
        if config.protocol.inductive:
            graphs = collater.graphs.induced(index)
            collater = Collater(graphs, collater.device, lists_for(config, graphs))
            self._known, index = self._known[index], torch.arange(len(index))
        return NodeBatches(collater, optim.batch_size, config.fan, index, **options)

    @cached_property
    def _replay(self) -> Replay | None:
        """The steps as a CUDA graph, if they can and should be recorded."""
        collater, fabric, config = self.collater, self.fabric, self.config
        possible = (
            config.run.record
            and self.network.recordable
            and fabric.device.type == collater.device.type == "cuda"
            and fabric.world_size == 1
            and config.run.precision != "16"
            and config.data.workers == 0
            and not self.split.by_node
        )
        if not possible:
            return None
        exact = config.run.precision == "64" or not all(map(takes_padded_plans, self.network.convs))
        if exact and collater.lists:
            return None
        padding = Padding(collater, self.split.train, config.optim.batch_size, exact)
        memory = torch.cuda.get_device_properties(fabric.device).total_memory
        reading = work_of(self.network.convs)
        most_steps = max(MOST_STEPS, (1.5 if exact else MOST_PADDED) * padding.mean.steps(reading))
        if TABLES * padding.nbytes * len(self.batches) > memory or padding.capacity.steps(reading) > most_steps:
            return None
        return Replay(self.step, padding, self.adam, fabric.device)

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def resume(self, path: Path) -> None:
        """Goes on from a checkpoint."""
        loaded = Checkpoint.load(path)
        state = checkpoint.progress(loaded.state, path)
        checkpoint.load_weights(self.network, loaded.weights, path)
        if self.average is not None:
            checkpoint.load_weights(self.average, loaded.average, path)
        checkpoint.load_optimizer(self.optimizer, loaded.optimizer, path)
        self.schedule.load_state_dict(checkpoint.known(state.pop("schedule"), self.schedule.state_dict(), path))
        if scaler := state.pop("scaler", None):
            own = self._precision.state_dict()
            self._precision.load_state_dict(own | checkpoint.known(scaler, own, path))
        self.state = state

    def run(self, callback: Callback) -> dict[str, Any]:
        """Trains to the end; returns what came out."""
        state, main = self.state, self.fabric.is_global_zero
        run = self.config.run
        log = Log(self.folder, state["epoch"], run.tensorboard, run.logger) if main else None
        guess, unit = self.task.guess(self._targets_of(self.split.train)), state.get("unit")
        if state["epoch"] == 0 and self.config.model.init == "guess":
            first = copy.copy(self.batches)
            first.shard, first.epoch = (0, 1), 1  # the same in all processes
            some = first[0].to(self.fabric.device)
            start = guess
            if unit is not None:
                start = (guess - guess.new_tensor(unit["mean"])) / guess.new_tensor(unit["deviation"])
            guess_first(Scorer(self.network, self.config.model.edge_features), start, some)
        while state["epoch"] < self.config.optim.epochs and not self.schedule.ended:
            begin = time.perf_counter()
            state["epoch"] += 1
            record = {"epoch": state["epoch"], "lr": self.schedule.lr, "loss": self.train_epoch(callback)}
            self._update_average()
            improved = self._evaluate_epoch(record)
            self.schedule.step(record["val"] if self.split.val is not None else record["loss"])
            record["seconds"] = round(time.perf_counter() - begin, 4)
            state["seconds"] += record["seconds"]
            if log is not None:
                log.write(record)
                self.save(improved)
            callback.epoch(record)
        if self.split.val is not None and self.config.protocol.report == "last":
            state["test"] = self.measure("test")[self.task.metric]
        if log is not None:
            log.close()
        ended = "learning rate" if self.schedule.ended else "epochs"
        figures = {"metric": self.task.metric, "ended": ended, "parameters": self.parameters}
        parts = {part: getattr(self.split, part) for part in ("val", "test")}
        baseline = {part: self.task.baseline(guess, self._targets_of(index))[self.task.metric]
                    for part, index in parts.items() if index is not None}  # fmt: skip
        return {**figures, "baseline": baseline, "memory": peak_memory(), **state}

    def _targets_of(self, index: Tensor) -> Tensor:
        """The targets of the given graphs, or of their nodes; or of the given nodes."""
        return self.task.targets(self.collater.graphs.targets(index.to(self.collater.device), self.split.by_node))

    def train_epoch(self, callback: Callback) -> float:
        """One epoch; returns the mean loss."""
        fabric = self.fabric
        torch.manual_seed(derived_seed(self.seed, self.state["epoch"], fabric.global_rank))
        self.batches.epoch = self.state["epoch"]
        totals = [self._targets(numbers) for numbers in self.batches.chosen()]
        self.scorer.train()
        if self._replay is not None:
            return self._checked(self._replay.epoch(self.batches.chosen(), totals, self.schedule.lr, callback.step))
        summed, seen = torch.zeros((), device=fabric.device), 0.0
        for step, (batch, total) in enumerate(zip(self._loader(), totals, strict=True), start=1):
            summed += self.step(batch, total)
            seen += total
            callback.step(step, len(totals), summed, seen)
        everywhere: Any = fabric.all_reduce(summed, reduce_op="sum")
        return self._checked(float(everywhere) / seen)

    def step(self, batch: Data, total: float | Tensor) -> Tensor:
        """Forward, backward and an update for a batch with ``total`` targets; returns the sum of their losses. It can
        be recorded: it asks the device nothing."""
        loss = self.task.loss(self.scorer(batch), self.task.targets(batch.y), getattr(batch, "counts", None))
        self.fabric.backward(loss * self.fabric.world_size / total)
        if self.config.optim.clip is not None:
            self._precision.unscale_gradients(self.adam)
            clip_gradients(self.network, self.config.optim.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach() / self.config.model.committee

    @torch.no_grad()
    def _update_average(self) -> None:
        """Adds this epoch's weights to the average, which keeps less of those before while there are few."""
        if self.average is not None:
            epoch = self.state["epoch"]
            keep = min(self.config.optim.average, (epoch - 1) / (epoch + 9))
            weights = self.network.state_dict()
            for name, mean in self.average.state_dict().items():
                mean.copy_(mean.lerp(weights[name], 1 - keep) if mean.is_floating_point() else weights[name])

    def _checked(self, mean: float) -> float:
        """The loss of an epoch, if it is one to go on from."""
        floating = [value for value in self.network.state_dict().values() if value.is_floating_point()]
        finite = math.isfinite(float(torch.nn.utils.get_total_norm(floating)))
        if not math.isfinite(mean) or not finite:
            done = self.state["epoch"] - 1
            what = "weights are no longer finite" if math.isfinite(mean) else f"loss became {mean}"
            kept = f"the checkpoint of epoch {done} is {self.folder / LAST}" if done else "nothing was saved"
            raise Diverged(f"the {what} in epoch {done + 1}; {kept}; try a lower --optim.lr, or --optim.clip 1")
        return mean

    def _evaluate_epoch(self, record: Record) -> bool:
        """Adds validation and test to the record of an epoch; returns whether it is the best one so far."""
        state = self.state
        if self.split.val is None:  # the paper's cross-validation
            self._record("test", record)
            improved = self.task.better(record["test"], state["test"])
        else:
            self._record("val", record)
            improved = self.task.better(record["val"], state["val"])
            if improved and self.config.protocol.report == "best":
                self._record("test", record)
        if improved:
            state |= {"best_epoch": state["epoch"], "val": record.get("val"), "test": record.get("test")}
        return improved

    def _record(self, part: Literal["val", "test"], record: Record) -> None:
        """Adds the metric over a part to the record of an epoch, and how many answers are not finite if there are."""
        figures = self.measure(part)
        record[part] = figures[self.task.metric]
        if figures[NONFINITE]:
            record[f"{part} {NONFINITE}"] = figures[NONFINITE]

    def measure(self, part: Literal["train", "val", "test"]) -> dict[str, float]:
        """The task's metrics over a part of the graphs or nodes, and how many answers are not finite, over all
        processes."""
        batches = self._evaluated.get(part) or self._evaluation_batches(part)
        (outputs,), targets = compute_outputs([self.judge], self.task, batches, self.fabric.device)
        lost: Any = self.fabric.all_reduce((~is_finite(outputs)).sum(), reduce_op="sum")
        return self.task.measure(outputs, targets) | {NONFINITE: int(lost)}

    def answers(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and targets for the given graphs or nodes, or for this process's share of them."""
        (outputs,), targets = compute_outputs([self.judge], self.task, self._ordered(index), self.fabric.device)
        return outputs, targets

    def _evaluation_batches(self, part: str) -> Iterable[Batch]:
        """The batches of a part that is evaluated, kept for the next epoch unless they are many."""
        index: Tensor = getattr(self.split, part)
        if self.split.by_node:
            size = len(index) * sum(accumulate(self.config.fan, mul))
        else:
            size = int(self.collater.counts[:, index].sum())
        if size > MOST_KEPT:
            return self._ordered(index)
        return self._evaluated.setdefault(part, list(self._ordered(index)))

    def _ordered(self, index: Tensor) -> Batches:
        config = self.config
        return ordered_batches(
            self.collater, config.optim.batch_size, index, self._shard, self.split.by_node, config.fan
        )

    def save(self, improved: bool) -> None:
        """Writes the checkpoints of this epoch."""
        state = {**self.state, "schedule": self.schedule.state_dict(), "scaler": self._precision.state_dict()}
        weights, average = self.network.state_dict(), {} if self.average is None else self.average.state_dict()
        if improved:
            Checkpoint(average or weights, self.state).save(self.folder / BEST)
        last = Checkpoint(weights, state, self.optimizer.state_dict(), average)
        last.save(self.folder / LAST, self.folder / PREVIOUS)

    def _loader(self) -> Iterable[Batch]:
        """The batches of the epoch, assembled by other processes if asked for."""
        if not self.config.data.workers:
            return self._moved(self.batches)
        pin, workers = self.fabric.device.type == "cuda", self.config.data.workers
        return self._moved(DataLoader(self.batches, batch_size=None, num_workers=workers, pin_memory=pin))  # type: ignore[arg-type]

    def _moved(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Batches on the device of the network, if the graphs are kept elsewhere."""
        if self.collater.device == self.fabric.device:
            return batches
        return (batch.to(self.fabric.device, non_blocking=True) for batch in batches)

    def _targets(self, numbers: Tensor) -> float:
        """Known targets of the given graphs or nodes; a row with gaps counts in part."""
        return max(1, int(self._known.index_select(0, numbers).sum())) / self.task.columns
