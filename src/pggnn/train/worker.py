"""One training of a run in a process of its own.

``python -m pggnn.train.worker FOLDER SEED FOLD RESUME UNTIL``
"""

import os
import sys
import time
from typing import Any

from pggnn.train.log import Record
from pggnn.train.options import load
from pggnn.train.progress import Silence
from pggnn.train.protocol import Member
from pggnn.train.run import ORPHANED, STOPPED, load_graphs, make_fabric, make_storage, train_member


class Ended(Exception):
    """Training ends before its end, with this exit code."""


class Limits(Silence):
    """Ends the training when the process that started it is no more, or when there is no time for another epoch."""

    def __init__(self, until: float, epochs: int) -> None:
        self.parent, self.until, self.epochs = os.getppid(), until, epochs

    def step(self, *args: Any) -> None:
        """After each batch."""
        if os.getppid() != self.parent:
            raise Ended(ORPHANED)

    def epoch(self, record: Record) -> None:
        """After each epoch, when its checkpoint has been written."""
        if time.time() + record["seconds"] > self.until and record["epoch"] < self.epochs:
            raise Ended(STOPPED)


def main(folder: str, seed: str, fold: str, resume: str, until: str) -> None:
    """Trains one member of the run in ``folder``."""
    config = load(folder)
    limits = Limits(float(until), config.optim.epochs)
    fabric = make_fabric(config)
    storage = make_storage(config, load_graphs(config), fabric)
    member = Member(int(seed), None if fold == "None" else int(fold))
    train_member(config, member, storage, fabric, None if resume == "new" else resume, limits)


def run(arguments: list[str]) -> int:
    """:func:`main`; returns an exit code, and says in one line what is wrong with the data or the machine."""
    try:
        main(*arguments)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Ended as end:
        return end.args[0]
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
