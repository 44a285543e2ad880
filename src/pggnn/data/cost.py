"""How many RNN steps an aggregation takes on some graphs, and which options take fewer."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from pggnn.data.features.lists import GraphLists
from pggnn.data.graphs import Graphs, starts
from pggnn.lists import LISTS
from pggnn.ops.linear.arcs import takes_linear_time
from pggnn.orderings import Reading

FEWER = (16, 4)
"""Numbers of orderings that may be recommended, the first of them that saves enough."""
SAVING = 2
"""How many times fewer steps a recommended option takes at least."""
RINGS_COST = 8
"""Times the steps of the stars up to which reading rings is recommended."""
EDGES_AT_ONCE = 2**20


@dataclass(frozen=True)
class Aggregation:
    """The options of a layer that decide how many steps it takes."""

    reading: Reading = field(default_factory=Reading)
    cell: str = "lstm"
    structure: int = 0
    max_degree: int | None = None

    @property
    def is_linear(self) -> bool:
        """Whether the whole group takes as many steps as a single ordering."""
        return takes_linear_time(self.reading, self.cell, self.structure)

    @property
    def takes_orderings(self) -> bool:
        """Whether it reads arrangements, of which there may be fewer."""
        return self.reading.group == "pairs" and self.reading.frame != "chain"

    def limited(self, orderings: int | None) -> "Aggregation":
        """The same with this many orderings, None for the whole group. What reads no arrangements becomes the paper's
        layer, to be compared with."""
        reading = self.reading if self.takes_orderings else Reading()
        return replace(self, reading=replace(reading, limit=orderings))

    def work(self, degree: Tensor) -> Tensor:
        """Steps at nodes of these degrees."""
        read = degree if self.max_degree is None else degree.clamp(max=self.max_degree)
        steps: Tensor = (self.limited(1) if self.is_linear else self).reading.work(read)
        return steps


@dataclass(frozen=True)
class Work:
    """Steps of an aggregation on each of some graphs."""

    steps: Tensor
    """``[G]`` as it is."""
    group: Tensor
    """``[G]`` with the whole group."""
    single: Tensor
    """``[G]`` with a single ordering."""
    cheaper: dict[tuple[str, str | int], Tensor]
    """``[G]`` with another option, ``("cell", "linear")`` or ``("orderings", 16)``; only those that save steps."""

    @property
    def ratio(self) -> float:
        """How many times the steps of a single ordering it takes."""
        return int(self.steps.sum()) / max(1, int(self.single.sum()))


def measure_work(graphs: Graphs, aggregation: Aggregation, chosen: Tensor | None = None) -> Work:
    """The steps of an aggregation on all graphs, or on those with the ``chosen`` numbers."""
    options: dict[tuple[str, str | int], Aggregation] = {("cell", "linear"): replace(aggregation, cell="linear")}
    if aggregation.takes_orderings:
        options |= {("orderings", number): aggregation.limited(number) for number in FEWER}
    read = [aggregation, aggregation.limited(None), aggregation.limited(1), *options.values()]
    steps, group, single, *others = _count_steps(graphs, read, chosen)
    enough = int(steps.sum()) / SAVING
    saving = {option: other for option, other in zip(options, others, strict=True) if int(other.sum()) <= enough}
    orderings = [option for option in saving if option[0] == "orderings"]
    cheaper = {option: other for option, other in saving.items() if option not in orderings[1:]}
    return Work(steps, group, single, cheaper)


def count_list_steps(kind: str, lists: GraphLists, aggregation: Aggregation | None = None) -> Tensor:
    """``[G]`` steps to read the lists of each graph, by default each sequence once."""
    how = LISTS[kind]
    number, length, *_ = how.sequences(lists.size.long())
    work = (aggregation or Aggregation(Reading("trivial", "open"))).work(length - int(how.apart))
    graph = torch.arange(len(lists.counts)).repeat_interleave(lists.counts)
    return work.new_zeros(len(lists.counts)).index_add(0, graph[number], work)


def _count_steps(graphs: Graphs, read: list[Aggregation], chosen: Tensor | None) -> Tensor:
    """``[R, G]`` steps of each aggregation on each graph."""
    center, found = 1 if graphs.schema.flow == "source_to_target" else 0, []
    for part in graphs.chunks(EDGES_AT_ONCE):
        ptr = starts(part.nodes)
        nodes = part.edge_index[center] + ptr[:-1].repeat_interleave(part.edges)
        degree = torch.bincount(nodes, minlength=int(ptr[-1]))
        graph = torch.arange(len(part)).repeat_interleave(part.nodes)
        work = torch.stack([one.work(degree) for one in read])
        found.append(work.new_zeros(len(read), len(part)).index_add(1, graph, work))
    steps = torch.cat(found, dim=1) if found else torch.zeros(len(read), 0, dtype=torch.long)
    return steps if chosen is None else steps.index_select(1, chosen)
