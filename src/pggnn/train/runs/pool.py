"""Trainings side by side, in processes that take one after another.

A sweep may have a hundred short ones, and importing PyTorch, PyG and Lightning takes seconds of a core, as does a GPU's
start.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import torch


def last_error(output: str) -> str:
    """What a process that failed says it failed of: the message of its last traceback, or its last line; its first line
    if it has several. PyTorch's of CUDA end with advice that is the same for all of them."""
    lines = output.strip().splitlines()
    traceback = max((at for at, line in enumerate(lines) if line.startswith("Traceback ")), default=len(lines))
    return next((line for line in lines[traceback + 1 :] if not line.startswith(" ")), lines[-1] if lines else "")


class Worker:
    """A process of :mod:`pggnn.train.runs.worker` that sees one of several GPUs, and what it has answered."""

    def __init__(self, gpu: str | None = None) -> None:
        command = [sys.executable, "-m", "pggnn.train.runs.worker"]
        around = None if gpu is None else os.environ | {"CUDA_VISIBLE_DEVICES": gpu}
        pipe = subprocess.PIPE
        with _control_c_held():
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, env=around)
        self._answers: SimpleQueue[int] = SimpleQueue()
        self._listener = Thread(target=self._listen, daemon=True)  # pipes can be waited for in this way everywhere
        self._listener.start()

    def give(self, words: list[str]) -> None:
        """Has it train."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")

    def answer(self) -> int | None:
        """The exit code of what it was given, or its own if it has ended; None while it trains."""
        ended = self.process.poll()
        if ended is not None:
            self._listener.join()
        return ended if self._answers.empty() else self._answers.get()

    def close(self) -> None:
        """Kills it."""
        self.process.terminate()
        self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(int(line))


@contextmanager
def _control_c_held() -> Iterator[None]:
    """What is started meanwhile never hears of Control-C, which a terminal sends to all: its parent ends it, and a
    traceback for each would hide what that has to say."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def visible_gpus() -> list[str]:
    """The GPUs that there are for trainings, as ``CUDA_VISIBLE_DEVICES`` calls them."""
    named, count = os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count()
    return [*map(str, range(count))] if named is None else named.split(",")[:count]


class Workers:
    """Trainings by number, each given to a process that has nothing to do, or to a new one. Where there are several
    GPUs, they have as many processes each."""

    def __init__(self) -> None:
        gpus = visible_gpus()
        self._gpus: Iterator[str | None] = cycle(gpus if len(gpus) > 1 else [None])
        self._idle: list[Worker] = []
        self._given: list[Worker] = []
        self._codes: dict[int, int] = {}

    def start(self, arguments: list[str], errors: Path) -> int:
        """Has :func:`pggnn.train.runs.worker.run` run with these arguments; what it says goes to a file. Returns its
        number."""
        errors.write_text("")
        self._idle = [worker for worker in self._idle if worker.process.poll() is None]
        worker = self._idle.pop() if self._idle else Worker(next(self._gpus))
        self._given.append(worker)
        worker.give([str(errors), *arguments])
        return len(self._given) - 1

    def code(self, number: int) -> int | None:
        """Its exit code, negative for a signal, or None while it runs."""
        if number not in self._codes:
            worker = self._given[number]
            answer = worker.answer()
            if answer is not None:
                self._codes[number] = answer
                self._idle.append(worker)
        return self._codes.get(number)

    def close(self) -> None:
        """Ends all of them, also those that still train."""
        for worker in set(self._given):
            worker.close()
