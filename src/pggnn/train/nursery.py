"""Trainings in processes of their own that start at once: copies of one that has imported everything.

Importing PyTorch, PyG and Lightning takes seconds of a core for each training, and a sweep may have a hundred. On Linux
``python -m pggnn.train.nursery`` imports them once and forks for each line on its standard input. When its input ends,
because its parent has closed it or is no more, it ends them too. Where there is a GPU each training has a process with
imports of its own: on an H200 the copies failed to start.
"""

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path

IMPORTED = ("lightning.fabric", "torchmetrics", "pggnn.train.loop", "pggnn.train.worker")
POLL = 0.1
"""Seconds between two looks at the copies."""


class Processes:
    """Trainings by number, each in a process with its own imports, where there is no safe fork."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, arguments: list[str], errors: Path) -> int:
        """Starts :mod:`pggnn.train.worker` with these arguments; what it says goes to a file. Returns its number."""
        with open(errors, "w") as file:
            command = [sys.executable, "-m", "pggnn.train.worker", *arguments]
            self._running.append(subprocess.Popen(command, stdout=file, stderr=file))
        return len(self._running) - 1

    def code(self, number: int) -> int | None:
        """Its exit code, negative for a signal, or None while it runs."""
        return self._running[number].poll()

    def close(self) -> None:
        """Ends all that still run."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait()


class Nursery(Processes):
    """The same with copies of one process."""

    def __init__(self) -> None:
        super().__init__()
        command = [sys.executable, "-m", "pggnn.train.nursery"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._codes: dict[int, int | None] = {}

    def start(self, arguments: list[str], errors: Path) -> int:
        errors.write_text("")
        number = len(self._codes)
        self._codes[number] = None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([number, str(errors), *arguments]).encode() + b"\n")
        except BrokenPipeError:
            raise self._gone() from None
        return number

    def code(self, number: int) -> int | None:
        assert self._process.stdout is not None
        while select.select([self._process.stdout], [], [], 0)[0]:
            line = self._process.stdout.readline()
            if not line:
                raise self._gone()
            ended, code = line.split()
            self._codes[int(ended)] = int(code)
        return self._codes[number]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _gone(self) -> ValueError:
        return ValueError(f"the process that starts trainings has ended, with code {self._process.wait()}")


def make_processes() -> Processes:
    """The fastest kind that works here."""
    import torch

    return Nursery() if sys.platform == "linux" and not torch.cuda.is_available() else Processes()


def serve() -> None:
    """Forks for each line of standard input, a JSON list of number, file and arguments; writes number and exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and closes the input
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for name in IMPORTED:
        import_module(name)
    asked, running = os.fdopen(0, "rb", buffering=0), dict[int, int]()
    try:
        while True:
            if select.select([asked], [], [], POLL if running else None)[0]:
                line = asked.readline()
                if not line:
                    break
                number, errors, *arguments = json.loads(line)
                child = os.fork()
                if child == 0:
                    _work(errors, arguments)
                running[child] = number
            for child in list(running):
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    print(running.pop(child), os.waitstatus_to_exitcode(status), file=report)
    except BrokenPipeError:  # the parent is no more
        pass
    finally:
        for child in running:
            os.kill(child, signal.SIGTERM)
        for child in running:
            os.waitpid(child, 0)


def _work(errors: str, arguments: list[str]) -> None:
    """In the copy: trains, and ends it."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (os.open(errors, os.O_WRONLY | os.O_APPEND), 1)):
            os.dup2(source, target)
        os.dup2(1, 2)
        from pggnn.train.worker import run

        code = run(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
