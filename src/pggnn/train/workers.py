"""Trainings side by side, in processes that take one after another.

A sweep may have a hundred short ones, and importing PyTorch, PyG and Lightning takes seconds of a core, as does a GPU's
start.
"""

import json
import select
import subprocess
import sys
from pathlib import Path

Worker = subprocess.Popen[bytes]


class Workers:
    """Trainings by number, each given to a process that has nothing to do, or to a new one."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._given: list[Worker] = []
        self._codes: dict[int, int] = {}

    def start(self, arguments: list[str], errors: Path) -> int:
        """Has :func:`pggnn.train.worker.run` run with these arguments; what it says goes to a file. Returns its
        number."""
        errors.write_text("")
        self._idle = [worker for worker in self._idle if worker.poll() is None]
        worker = self._idle.pop() if self._idle else _new()
        self._given.append(worker)
        assert worker.stdin is not None
        worker.stdin.write(json.dumps([str(errors), *arguments]).encode() + b"\n")
        return len(self._given) - 1

    def code(self, number: int) -> int | None:
        """Its exit code, negative for a signal, or None while it runs."""
        if number not in self._codes:
            worker = self._given[number]
            ended = worker.poll()  # asked first: what it said before its end is there by now
            assert worker.stdout is not None
            said = worker.stdout.readline() if select.select([worker.stdout], [], [], 0)[0] else b""
            if said:
                self._codes[number] = int(said)
                self._idle.append(worker)
            elif ended is not None:
                self._codes[number] = ended
        return self._codes.get(number)

    def close(self) -> None:
        """Ends all of them, also those that still train."""
        workers = set(self._given)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                assert pipe is not None
                pipe.close()


def _new() -> Worker:
    command = [sys.executable, "-m", "pggnn.train.worker"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
