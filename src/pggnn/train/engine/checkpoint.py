"""Checkpoints: weights, optimizer and progress in one safetensors file, written whole or not at all.

Tensors are named ``model.…``, ``optimizer.…`` and ``average.…``; everything else is JSON in the file's header, under
``pggnn``, with a checksum. ``last`` is that of the latest epoch, ``previous`` the one before, ``best`` that of the best
epoch.
"""

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor

from pggnn.files import checked, parse_json, replacing

FORMAT = 1
NAMES = re.compile(r"(model|average)\..+|optimizer\.[0-9]+\..+")


class BadCheckpoint(ValueError):
    """A checkpoint that training cannot resume from."""


@dataclass
class Checkpoint:
    """What is needed to resume after an epoch."""

    weights: dict[str, Tensor]
    """The network's state dict."""
    state: dict[str, Any]
    """Epoch, best value, schedule: values that JSON can hold."""
    optimizer: dict[str, Any] = field(default_factory=dict)
    """The optimizer's state dict."""
    average: dict[str, Tensor] = field(default_factory=dict)
    """The state dict of the moving average, if there is one."""

    def save(self, path: Path, keep: Path | None = None) -> None:
        """Writes the file; the one that was there moves to ``keep``."""
        from safetensors.torch import save

        tensors = {f"model.{name}": value for name, value in self.weights.items()}
        tensors |= {f"average.{name}": value for name, value in self.average.items()}
        tensors = _on_the_cpu(tensors | _flat(self.optimizer.get("state", {})))
        said = {"format": FORMAT, "state": self.state, "groups": self.optimizer.get("param_groups")}
        text = json.dumps(said | {"plain": {}})  # which earlier versions expect
        content = save(tensors, {"pggnn": text, "checksum": _checksum(text, tensors)})
        with replacing(path) as unfinished:
            try:
                with open(unfinished, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:  # a full disk, for instance
                before = "; the checkpoint before it is intact" if path.exists() else ""
                raise OSError(f"{path} could not be written ({error.strerror}){before}") from None
            if keep is not None and path.exists():
                keep_as(path, keep)

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Reads a file; one that is missing, truncated, damaged or of another program is refused."""
        from safetensors import SafetensorError, safe_open

        if not path.is_file():
            raise BadCheckpoint(f"there is no checkpoint at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise BadCheckpoint(f"{path} is truncated or no checkpoint ({error})") from None
        if "pggnn" not in header:
            raise BadCheckpoint(f"{path} was not written by pggnn: its header says nothing of a run")
        if header.get("checksum") != _checksum(header["pggnn"], tensors):
            raise BadCheckpoint(f"{path} is damaged: its checksum does not match its contents")
        try:
            said = parse_json(header["pggnn"], Header, path)
            if said["format"] != FORMAT:
                raise BadCheckpoint(f"{path} has format {said['format']}, this version of pggnn reads {FORMAT}")
        except ValueError as error:
            raise error if isinstance(error, BadCheckpoint) else BadCheckpoint(str(error)) from None
        if strange := [name for name in tensors if not NAMES.fullmatch(name)]:
            raise BadCheckpoint(f"{path} has something by the strange name {strange[0]!r}")
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "average": {}}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            parts[kind][rest] = value
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in parts["optimizer"].items():
            number, _, key = name.partition(".")
            state.setdefault(int(number), {})[key] = value
        optimizer = {"state": state, "param_groups": said["groups"]} if said["groups"] is not None else {}
        return cls(parts["model"], said["state"], optimizer, parts["average"])


class Header(TypedDict):
    """Everything but the tensors."""

    format: int
    state: dict[str, Any]
    groups: list[dict[str, Any]] | None


class Unit(TypedDict):
    """What the scores of a regression are multiplied by, and what is added to them, for each column."""

    deviation: list[float]
    mean: list[float]


class Progress(TypedDict):
    """The state of a training."""

    epoch: int
    best_epoch: int
    val: float | None
    test: float | None
    seconds: float
    schedule: dict[str, Any]
    scaler: NotRequired[dict[str, Any] | None]
    unit: NotRequired[Unit]


def progress(state: dict[str, Any], path: Path) -> dict[str, Any]:
    """The state in the checkpoint at ``path``, checked."""
    try:
        found: dict[str, Any] = checked(state, Progress, f"{path}, state")
    except ValueError as error:
        raise BadCheckpoint(str(error)) from None
    if found["epoch"] < 0:
        raise BadCheckpoint(f"{path}, state, epoch: expected 0 or more, got {found['epoch']}")
    return found


def stored_unit(state: dict[str, Any], columns: int, path: Path) -> Unit | None:
    """The unit of the answers in the checkpoint at ``path``, checked, if there is one."""
    if "unit" not in state:
        return None
    try:
        found: Unit = checked(state["unit"], Unit, f"{path}, unit")
    except ValueError as error:
        raise BadCheckpoint(str(error)) from None
    if not len(found["mean"]) == len(found["deviation"]) == columns:
        raise BadCheckpoint(f"{path}, unit: expected {columns} numbers each, got {found}")
    return found


def load_weights(model: torch.nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Loads weights of the checkpoint at ``path``, or says which of them differs."""
    _compare(weights, model.state_dict(), path)
    model.load_state_dict(weights)


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any], path: Path) -> None:
    """Loads the optimizer's state of the checkpoint at ``path``. Shapes are checked here: PyTorch does not, and its
    fused kernels would write beyond tensors that are too small."""
    own = optimizer.state_dict()["param_groups"]
    groups = state.get("param_groups") or []
    if [group.get("params") for group in groups] != [group["params"] for group in own]:
        raise BadCheckpoint(f"{path} has no state of this optimizer, for this many weights")
    options = [mine | known(group, mine, path) for group, mine in zip(groups, own, strict=True)]
    for option, mine in zip(options, own, strict=True):
        option["capturable"] = mine.get("capturable")  # it may be of a training on another device
    weights = dict(enumerate(weight for group in optimizer.param_groups for weight in group["params"]))
    one = torch.zeros(())
    moments = {i: {"step": one, "exp_avg": weight, "exp_avg_sq": weight} for i, weight in weights.items()}
    kept: dict[int, Any] = state["state"]
    _compare(_flat(kept), _flat({i: moments.get(i, {}) for i in kept}), path)
    optimizer.load_state_dict({"state": kept, "param_groups": options})


def known(theirs: dict[str, Any], own: dict[str, Any], path: Path) -> dict[str, Any]:
    """The values of a state in the checkpoint at ``path`` that our own has too, each of the same type."""
    for name, value in own.items():
        if name in theirs and not _is_alike(theirs[name], value):
            raise BadCheckpoint(f"{path} is of another training: {name} is {theirs[name]!r} there, not {value!r}")
    return {name: theirs[name] for name in own if name in theirs}


def _flat(state: dict[int, dict[str, Tensor]]) -> dict[str, Tensor]:
    return {f"optimizer.{i}.{name}": value for i, values in state.items() for name, value in values.items()}


def _is_alike(one: Any, other: Any) -> bool:
    """Whether two values are both numbers, or lists of equal length."""
    if isinstance(other, (list, tuple)):
        return isinstance(one, (list, tuple)) and len(one) == len(other) and all(map(_is_alike, one, other))
    kinds: Any = (int, float) if isinstance(other, float) else type(other)
    return one is None if other is None else isinstance(one, kinds)


def _compare(theirs: dict[str, Tensor], own: dict[str, Tensor], path: Path) -> None:
    """Refuses tensors whose names, shapes or types differ from our own."""
    for name in sorted(own.keys() | theirs.keys()):
        there, here = (_describe(tensors.get(name)) for tensors in (theirs, own))
        if there != here:
            raise BadCheckpoint(
                f"{path} is of another network: {name} has shape {there} there and {here} here (None: it is "
                "not there); use the model options that the run was made with, they are in its config.yaml"
            )


def _describe(value: Tensor | None) -> str:
    if value is None:
        return "None"
    return f"{list(value.shape)}" + ("" if value.dtype == torch.float else f" of {str(value.dtype)[6:]}")


def keep_as(path: Path, keep: Path) -> None:
    """Links or copies a file to another name."""
    with replacing(keep) as file:
        try:
            os.link(path, file)
        except OSError:  # a file system without links
            shutil.copyfile(path, file)


def _on_the_cpu(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies tensors from a GPU, all of one type at once: hundreds of small copies would take longer."""
    found = {name: value.detach().cpu().contiguous() for name, value in tensors.items() if not value.is_cuda}
    for dtype in {value.dtype for value in tensors.values() if value.is_cuda}:
        parts = {name: value.detach() for name, value in tensors.items() if value.is_cuda and value.dtype == dtype}
        flat = torch.cat([value.reshape(-1) for value in parts.values()]).cpu()
        pieces = flat.split([value.numel() for value in parts.values()])
        found |= {name: piece.view(parts[name].shape).clone() for name, piece in zip(parts, pieces, strict=True)}
    return found


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
