"""Worker processes that train, one trial after another.

A sweep may have a hundred short trainings. Importing PyTorch, PyG and Lightning takes seconds, and so does the start of
a GPU: each process pays for that once. :data:`SITES` says where else trainings may run.
"""

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

import torch

from pggnn.train.config import Config
from pggnn.train.runs import cluster


def last_error(output: str) -> str:
    """The first line of the message of the last traceback in a process's output, or its last line. (Messages of CUDA
    errors end with general advice.)"""
    lines = output.strip().splitlines()
    traceback = max((at for at, line in enumerate(lines) if line.startswith("Traceback ")), default=len(lines))
    return next((line for line in lines[traceback + 1 :] if not line.startswith(" ")), lines[-1] if lines else "")


class Worker:
    """A process of :mod:`pggnn.train.runs.worker`.

    Args:
        gpu: The GPU that it sees, of several.
    """

    code: int | None = None
    """The exit code of its last task once :meth:`poll` has seen it."""
    expected: float | None = None
    """Seconds that the batches of an epoch of its task will take, once it has said so."""

    def __init__(self, gpu: str | None = None) -> None:
        command = [sys.executable, "-m", "pggnn.train.runs.worker"]
        environment = None if gpu is None else os.environ | {"CUDA_VISIBLE_DEVICES": gpu}
        pipe = subprocess.PIPE
        with _control_c_blocked():
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, env=environment)
        self._codes: SimpleQueue[int] = SimpleQueue()
        self._listener = Thread(target=self._listen, daemon=True)  # the portable way to read a pipe without blocking
        self._listener.start()

    def start(self, arguments: list[str]) -> None:
        """Gives it a task."""
        assert self.process.stdin is not None
        self.code = self.expected = None
        self.process.stdin.write(json.dumps(arguments).encode() + b"\n")

    def poll(self) -> int | None:
        """The exit code of its task, or of the process if that has ended, negative for a signal; None while it runs."""
        if self.code is None:
            ended = self.process.poll()
            if ended is not None:
                self._listener.join()
            self.code = ended if self._codes.empty() else self._codes.get()
        return self.code

    def close(self) -> None:
        """Ends it, also in the middle of a task."""
        self.process.terminate()
        self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if isinstance(said := json.loads(line), float):
                self.expected = said
            else:
                self._codes.put(said)


@contextmanager
def _control_c_blocked() -> Iterator[None]:
    """Processes started meanwhile do not receive Control-C, which a terminal sends to all: their parent ends them, and
    their tracebacks would hide its message."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def visible_gpus() -> list[str]:
    """The GPUs for trainings, as ``CUDA_VISIBLE_DEVICES`` names them."""
    named, count = os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count()
    return [*map(str, range(count))] if named is None else named.split(",")[:count]


class WorkerPool:
    """Workers that are started as needed; they take turns on the GPUs where there are several."""

    def __init__(self) -> None:
        gpus = visible_gpus()
        self._gpus: Iterator[str | None] = cycle(gpus if len(gpus) > 1 else [None])
        self._workers: list[Worker] = []

    def start(self, arguments: list[str], errors: Path) -> Worker:
        """Runs :func:`pggnn.train.runs.worker.run` with these arguments in an idle or a new worker. A worker is idle
        once :meth:`Worker.poll` has returned an exit code. Its output goes to the file ``errors``."""
        errors.write_text("")
        idle = (one for one in self._workers if one.code is not None and one.process.poll() is None)
        worker = next(idle, None)
        if worker is None:
            worker = Worker(next(self._gpus))
            self._workers.append(worker)
        worker.start([str(errors), *arguments])
        return worker

    def close(self) -> None:
        """Ends all of them, also those that still train."""
        for worker in self._workers:
            worker.close()


def uses_gpu(config: Config) -> bool:
    """Whether a run is trained on a GPU: if there is one, unless the config says otherwise."""
    return config.run.device == "cuda" or (config.run.device == "auto" and torch.cuda.is_available())


def room(config: Config) -> int:
    """How many trainings this machine takes at once: 4 on each GPU, or one on each core."""
    return (4 * len(visible_gpus()) if uses_gpu(config) else os.cpu_count()) or 1


def hardware(config: Config) -> dict[str, Any]:
    """What they run on."""
    gpu = torch.cuda.get_device_name() if uses_gpu(config) else None
    return {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "gpu": gpu}


class Running(Protocol):
    """A training elsewhere."""

    expected: float | None
    """Seconds that the batches of an epoch will take, once known."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""


class TrialPool(Protocol):
    """What starts trainings elsewhere."""

    def start(self, arguments: list[str], errors: Path) -> Running:
        """Runs :func:`pggnn.train.runs.worker.run` with these arguments; its output goes to the file ``errors``."""

    def close(self) -> None:
        """Ends all trainings."""


@dataclass(frozen=True)
class Site:
    """Where trainings run."""

    pool: Callable[[Config], TrialPool]
    room: Callable[[Config], int]
    """How many trainings there are at once where the config does not say."""
    hardware: Callable[[Config], dict[str, Any]]
    """``processor``, ``cores`` and ``gpu``, as a run remembers them."""


SITES = {
    "local": Site(lambda config: WorkerPool(), room, hardware),
    "ray": Site(cluster.RayPool, cluster.room, cluster.hardware),
}
"""The values of ``run.on``."""
