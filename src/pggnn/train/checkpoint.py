"""Checkpoints: weights, optimizer and progress in one safetensors file, written whole or not at all.

Tensors are named ``model.…``, ``optimizer.…`` and ``average.…``; everything else is JSON in the file's header, under
``pggnn``, with a checksum. ``last`` is that of the latest epoch, ``previous`` the one before, ``best`` that of the best
epoch.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pggnn.files import replacing

FORMAT = 1


class BadCheckpoint(ValueError):
    """A file that cannot be gone on from."""


@dataclass
class Checkpoint:
    """What is needed to go on after an epoch."""

    weights: dict[str, Tensor]
    """The network's state dict."""
    state: dict[str, Any]
    """Epoch, best value, schedule: whatever JSON holds."""
    optimizer: dict[str, Any] = field(default_factory=dict)
    """The optimizer's state dict."""
    average: dict[str, Tensor] = field(default_factory=dict)
    """The state dict of the network's moving average, if that is what answers."""

    def save(self, path: Path, keep: Path | None = None) -> None:
        """Writes the file; the one that was there moves to ``keep``."""
        from safetensors.torch import save

        tensors = {f"model.{name}": value for name, value in self.weights.items()}
        tensors |= {f"average.{name}": value for name, value in self.average.items()}
        plain: dict[str, Any] = {}
        for number, values in self.optimizer.get("state", {}).items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{number}.{name}"] = value
                else:
                    plain.setdefault(str(number), {})[name] = value
        tensors = _on_the_cpu(tensors)
        said = {"format": FORMAT, "state": self.state, "groups": self.optimizer.get("param_groups"), "plain": plain}
        text = json.dumps(said)
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
        """Reads a file back; one that is missing, truncated, damaged or another program's is refused."""
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
        said = json.loads(header["pggnn"])
        if said["format"] != FORMAT:
            raise BadCheckpoint(f"{path} has format {said['format']}, this version of pggnn reads {FORMAT}")
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "average": {}}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            parts.setdefault(kind, {})[rest] = value
        state: dict[int, dict[str, Any]] = {int(number): dict(values) for number, values in said["plain"].items()}
        for name, value in parts["optimizer"].items():
            number, _, key = name.partition(".")
            state.setdefault(int(number), {})[key] = value
        optimizer = {"state": state, "param_groups": said["groups"]} if said["groups"] is not None else {}
        return cls(parts["model"], said["state"], optimizer, parts["average"])


def load_weights(model: torch.nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Gives the network weights of the checkpoint at ``path``, or says in which it differs."""
    own = model.state_dict()
    for name in sorted(own.keys() | weights.keys()):
        mine, theirs = own.get(name), weights.get(name)
        if mine is None or theirs is None or mine.shape != theirs.shape:
            shapes = [None if one is None else list(one.shape) for one in (theirs, mine)]
            raise BadCheckpoint(
                f"{path} is of another network: {name} has shape {shapes[0]} there and {shapes[1]} here (None: it is "
                "not there); use the model options that the run was made with, they are in its config.yaml"
            )
    model.load_state_dict(weights)


def keep_as(path: Path, keep: Path) -> None:
    """Lets a file be found under another name too, whatever becomes of the first."""
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
