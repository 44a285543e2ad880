"""One training of a run in a process of its own.

``python -m pggnn.train.worker FOLDER SEED FOLD RESUME PARENT UNTIL``
"""

import os
import sys
import time
from typing import Any

from pggnn.train.log import Record
from pggnn.train.options import load
from pggnn.train.progress import Silence
from pggnn.train.protocol import Member
from pggnn.train.run import STOPPED, load_graphs, make_fabric, make_storage, train_member


class Limits(Silence):
    """Ends the training when the process that started it is no more, or when there is no time for another epoch."""

    def __init__(self, parent: int, until: float) -> None:
        self.parent, self.until = parent, until

    def step(self, *args: Any) -> None:
        """After each batch."""
        if os.getppid() != self.parent:
            sys.exit("the process that started this training is no more")

    def epoch(self, record: Record) -> None:
        """After each epoch, when its checkpoint has been written."""
        if time.time() + record["seconds"] > self.until:
            sys.exit(STOPPED)


def main(folder: str, seed: str, fold: str, resume: str, parent: str, until: str) -> None:
    """Trains one member of the run in ``folder``."""
    config = load(folder)
    fabric = make_fabric(config)
    storage = make_storage(config, load_graphs(config), fabric)
    member = Member(int(seed), None if fold == "None" else int(fold))
    limits = Limits(int(parent), float(until))
    train_member(config, member, storage, fabric, None if resume == "new" else resume, limits)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
