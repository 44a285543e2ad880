"""Reading data sets into batches with plans, on a CPU."""

import resource
import sys
from functools import partial

from benchmarks.timing import Figures, in_turns
from pggnn.data.batching.batches import Batches
from pggnn.data.cache import data_root
from pggnn.data.catalogue import CATALOGUE
from pggnn.data.loading import load
from pggnn.data.sets import mnist


def data(rounds: int = 3) -> Figures:
    """Training sets, from the cache to shuffled batches; then the memory for reading MNIST's file and one such pass."""
    for name, batch_size in (("ER", 16), ("ZINC", 64)):
        if is_there(name):
            times = in_turns({name: partial(batch_all, name, batch_size)}, rounds)
            yield name, "graphs/s", 1e3 * len(load(name, split="train")) / times[name]
    if is_there("MNIST"):
        path = data_root() / mnist.FILE
        mnist.read_mnist(path).checked(str(path))
        batch_all("MNIST", 64)
        yield "MNIST", "peak of the process, MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def batch_all(name: str, batch_size: int) -> None:
    """One pass over a training set."""
    for _ in Batches(load(name, split="train"), batch_size, "shuffle"):
        pass


def is_there(name: str) -> bool:
    """Whether the file of a data set exists; prints where it is expected if not."""
    path = data_root() / CATALOGUE[name].file
    if not path.exists():
        print(f"{name} is left out: {path} does not exist (set PGGNN_DATA to the folder of the data)", file=sys.stderr)
    return path.exists()
