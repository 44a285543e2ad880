"""BREC's reliable paired comparison: which of its pairs a network learns to tell apart, each with a network of its own.

The protocol is that of Wang and Zhang, "An Empirical Study of Realized GNN Expressiveness" (2023), and of their
program. Each graph of a pair is relabelled at random 32 times. A fresh network is trained to point the 16 outputs of
the two graphs in different directions; then Hotelling's T² of the 32 differences says whether they differ by more than
relabelling makes them differ. The same T² between relabellings of one and the same graph has to stay below the
threshold: that is the reliability check.
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_embedding_loss
from torch_geometric.data import Data

from pggnn.console import say
from pggnn.data.graphs import starts
from pggnn.data.schema import Schema
from pggnn.data.sets.brec import BREC, FAMILIES
from pggnn.data.sets.classic import adjacency_matrix
from pggnn.files import parse_json, read_bytes, read_json, write_text
from pggnn.lab.refinement.readings import Readings, count_readings, share_readings
from pggnn.lists import LISTS, ListPlan, expand_lists
from pggnn.nn.blocks import ListPlans
from pggnn.nn.conv import SequenceConv
from pggnn.nn.lists import ListConv
from pggnn.nn.model import Network
from pggnn.orderings import Reading
from pggnn.plan import Plan
from pggnn.search import find_rings
from pggnn.train.config import ModelConfig
from pggnn.train.engine.models import MOST_CELLS, Committee, allot_workspace, build_network, lists_read

THRESHOLD = 72.34
"""31 · 16 / 16 · F(16, 16) at 5 %. Their program compares it with T² / 32, which asks far more of a network, both to
tell a pair apart and to fail the reliability check; so do we."""
ROUNDING = 25
"""What sums over a graph lose, in roundings of one number, relative to the outputs (3e-6 in float32). Its square is
added to the variances: outputs that relabelling does not change at all, as those of many pairs, would have none."""

EMPTY = torch.zeros(0, dtype=torch.long)


@dataclass(frozen=True)
class Protocol:
    """What is trained, and how. The defaults of the training are those of BREC's program."""

    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=16, structure=1))
    seed: int = 0
    copies: int = 32
    outputs: int = 16
    epochs: int = 20
    batch_size: int = 16
    lr: float = 1e-4
    weight_decay: float = 1e-4
    margin: float = 0.0
    """Cosine below which the outputs of two graphs cost nothing more."""
    enough: float = 0.2
    """Training stops when the mean loss of an epoch is below this."""
    numberings: int = 1
    """Each layer takes the mean over this many random numberings of the neighbours, see :class:`~pggnn.PGConv`."""
    most_steps: int = 2**25
    """Steps of a batch's sequences that a layer may read, or rings of a graph that are counted; there are fewer
    numberings, or smaller rings, where there are more."""
    rings: int = 6
    """Members of the largest ring, where the network reads them: every simple cycle, or CIN's chordless ones."""
    precision: Literal["float32", "float64"] = "float32"
    """What the network computes in. Differences that float32 rounds away are there in float64."""
    graphs: tuple[str, ...] = ()
    """Names of the graphs of which all pairs are compared; none for the pairs of BREC."""

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.precision == "float64" else torch.float32

    @property
    def counted(self) -> bool:
        """Whether rings that the network cannot tell apart are read once and counted. In its only layer, where all
        nodes have the same features, these are the rings with the same chords."""
        return "rings" in self.model.reads and self.model.layers == 1


class RingGraph(NamedTuple):
    """A graph, and what is read of it beside its edges."""

    edge_index: Tensor
    nodes: int
    ring_index: Tensor = EMPTY
    ring_size: Tensor = EMPTY
    readings: Readings | None = None

    def relabelled(self, generator: torch.Generator) -> "RingGraph":
        """The graph under random labels, with sorted edges: a random numbering of each node's neighbours. Rings come in
        a random order too, so that rounding is not the same in all copies of a graph."""
        label = torch.randperm(self.nodes, generator=generator)
        edges = label[self.edge_index]
        edges = edges[:, (edges[0] * self.nodes + edges[1]).argsort()]
        order = torch.randperm(len(self.ring_size), generator=generator)
        size = self.ring_size[order]
        shift = starts(self.ring_size)[:-1][order] - starts(size)[:-1]
        place = torch.arange(len(self.ring_index)) + shift.repeat_interleave(size)
        readings = self.readings and self.readings.relabelled(label)
        return RingGraph(edges, self.nodes, label[self.ring_index[place]], size, readings)


class Part(NamedTuple):
    """A batch: copies of both graphs by turns."""

    plan: Plan
    batch: Tensor
    graphs: int
    lists: ListPlans | None = None


@dataclass(frozen=True)
class PairResult:
    """The result for one pair."""

    pair: int
    family: str
    distance: float
    """T² / 32 between the two graphs."""
    reliability: float
    """The same between relabellings of one graph."""
    loss: float
    """Mean loss of the last epoch."""
    epochs: int
    seconds: float
    rings: int = 0
    """Members of the largest ring that was read."""
    names: str = ""
    """Of the two graphs, where they are not BREC's."""

    @property
    def reliable(self) -> bool:
        return self.reliability < THRESHOLD

    @property
    def apart(self) -> bool:
        """Whether the network told the two graphs apart."""
        return self.distance > THRESHOLD and abs(self.distance - self.reliability) > 1e-6


def with_rings(graphs: Sequence[RingGraph], protocol: Protocol) -> tuple[list[RingGraph], int]:
    """The graphs with all their simple cycles up to one size, and that size: the protocol's, or less where a batch of
    either graph would have too many steps."""
    for size in range(protocol.rings, 2, -1):
        try:
            return [_with_rings(graph, size, protocol) for graph in graphs], size
        except ValueError:
            continue
    raise ValueError(f"a graph has too many triangles for batches of {protocol.most_steps:,} steps: raise --most-steps")


def cells_read(protocol: Protocol) -> list[str]:
    """The kind of cells that the network has features of, such as rings without chords; at most one."""
    return [kind for kind in lists_read(protocol.model) if kind.endswith("-cells")]


def with_cells(graph: RingGraph, protocol: Protocol) -> RingGraph:
    """The graph with its rings, or its triangles, where the network has features of them."""
    for kind in cells_read(protocol):
        most = protocol.rings if LISTS[kind].search == "rings" else 3
        index, size = find_rings(graph.edge_index, graph.nodes, most, limit=MOST_CELLS)
        return graph._replace(ring_index=index, ring_size=size)
    return graph


def _with_rings(graph: RingGraph, size: int, protocol: Protocol) -> RingGraph:
    if protocol.counted:
        adjacency = adjacency_matrix(Data(edge_index=graph.edge_index, num_nodes=graph.nodes)).numpy()
        readings = count_readings(adjacency, size, protocol.most_steps, protocol.model.ring_structure)
        return graph._replace(readings=readings)
    limit = max(1, protocol.most_steps // (protocol.batch_size * 2 * size * (size + 1)))
    index, sizes = find_rings(graph.edge_index, graph.nodes, size, True, limit)
    return graph._replace(ring_index=index, ring_size=sizes)


def parts(
    graphs: Sequence[RingGraph], protocol: Protocol, generator: torch.Generator, device: torch.device
) -> list[Part]:
    """Batches of relabelled copies of two graphs, by turns."""
    made = []
    for first in range(0, 2 * protocol.copies, protocol.batch_size):
        count = min(protocol.batch_size, 2 * protocol.copies - first)
        chosen = [graphs[number % 2].relabelled(generator) for number in range(count)]
        sizes = torch.tensor([graph.nodes for graph in chosen])
        offsets, nodes = (sizes.cumsum(0) - sizes).tolist(), int(sizes.sum())
        edges = torch.cat([graph.edge_index + offset for graph, offset in zip(chosen, offsets, strict=True)], 1)
        batch = torch.arange(len(chosen)).repeat_interleave(sizes)
        lists: dict[str, ListPlan] | None = None
        if protocol.counted:
            readings = [graph.readings for graph in chosen if graph.readings]
            lists = {"rings": share_readings(readings, offsets, edges, nodes).to(device)}
        elif "rings" in protocol.model.reads:
            index = torch.cat([graph.ring_index + offset for graph, offset in zip(chosen, offsets, strict=True)])
            size = torch.cat([graph.ring_size for graph in chosen])
            lists = {"rings": expand_lists("rings", index, size, edges, nodes).to(device)}
        for kind in cells_read(protocol):
            index = torch.cat([graph.ring_index + offset for graph, offset in zip(chosen, offsets, strict=True)])
            size = torch.cat([graph.ring_size for graph in chosen])
            lists = {kind: expand_lists(kind, index, size, edges, nodes).to(device)}
        made.append(Part(Plan.build(edges, nodes).to(device), batch.to(device), count, lists))
    return made


def outputs(network: Network, part: Part) -> tuple[Tensor, Tensor]:
    """The network's outputs for the graphs of the first and of the second kind, given constant features."""
    x = next(network.parameters()).new_ones(part.plan.num_nodes, 1)
    out = network(x, part.plan, part.batch, batch_size=part.graphs, lists=part.lists)
    return out[0::2], out[1::2]


def distance(network: Network, batches: Iterable[Part]) -> float:
    """T² / 32: the mean difference of the outputs, in units of its own spread."""
    with torch.no_grad():
        found = [torch.cat(each).cpu() for each in zip(*(outputs(network, part) for part in batches), strict=True)]
    first, second = (each.double() for each in found)
    mean, spread = (first - second).mean(0), torch.cov((first - second).t())
    rounding = ROUNDING * torch.finfo(found[0].dtype).eps
    spread += rounding**2 * torch.cat([first, second]).square().mean() * torch.eye(len(mean))
    return float(mean @ torch.linalg.pinv(spread, hermitian=True) @ mean)


def settle(network: Network, batches: Iterable[Part]) -> None:
    """Has batch normalisation take the statistics of these batches as they are, for evaluation: a few steps of training
    leave those it keeps far from them, and with them the bend of each ReLU."""
    norms = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    network.train()
    with torch.no_grad():
        for part in batches:
            outputs(network, part)
    network.eval()


def fresh_network(protocol: Protocol, steps: int = 1) -> Network:
    """What is trained on a pair whose batches have ``steps`` steps in one numbering."""
    network = build_network(protocol.model, Schema("graph", "regression", protocol.outputs, 1))
    if protocol.numberings > 1:
        set_numberings(network, max(1, min(protocol.numberings, protocol.most_steps // steps)))
    return network


def set_numberings(network: Network | Committee, numberings: int) -> None:
    """Has each layer take the mean over this many random numberings of the neighbours."""
    for module in network.modules():
        if isinstance(module, SequenceConv) and not isinstance(module, ListConv):
            module.numberings = numberings


class Pair(NamedTuple):
    """Two graphs to be told apart."""

    number: int
    graphs: tuple[Data, Data]
    family: str
    names: str = ""


def brec_pairs(dataset: BREC) -> list[Pair]:
    """BREC's pairs."""
    pairs = [(dataset[first], dataset[first + 1]) for first in range(0, len(dataset), 2)]
    return [Pair(number, pair, FAMILIES[int(pair[0].family)]) for number, pair in enumerate(pairs)]


def all_pairs(named: Sequence[tuple[str, Data]]) -> list[Pair]:
    """Each of the graphs with each other."""
    coloured = [name for name, graph in named if graph.x is not None and len(graph.x.unique(dim=0)) > 1]
    if coloured:
        raise ValueError(
            f"{coloured[0]} has nodes of different features, and networks are given constant ones here: "
            "compare it with pggnn lab ladder"
        )
    pairs = enumerate(combinations(named, 2))
    return [Pair(number, (a, b), "given", f"{one}, {other}") for number, ((one, a), (other, b)) in pairs]


def compare(pair: Pair, protocol: Protocol, device: str = "cpu") -> PairResult:
    """Trains a network on the two graphs of a pair, and tests it."""
    began, place = time.perf_counter(), torch.device(device)
    generator = torch.Generator().manual_seed(protocol.seed * 400 + pair.number)
    torch.manual_seed(protocol.seed * 400 + pair.number)
    two = [with_cells(RingGraph(data.edge_index, int(data.num_nodes or 0)), protocol) for data in pair.graphs]
    (first, second), rings = with_rings(two, protocol) if "rings" in protocol.model.reads else (two, 0)
    alike = (first, second)[int(torch.randint(2, (), generator=generator))]
    training, checking = (parts(both, protocol, generator, place) for both in ((first, second), (alike, alike)))
    steps = max(Reading().steps(part.plan.profile) for part in (*training, *checking))
    network = fresh_network(protocol, steps).to(place, protocol.dtype)
    allot_workspace(network, place)
    optimizer = torch.optim.Adam(network.parameters(), lr=protocol.lr, weight_decay=protocol.weight_decay)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    history: list[float] = []
    while len(history) < protocol.epochs and (not history or history[-1] >= protocol.enough):
        losses = []
        for part in training:
            optimizer.zero_grad()
            here, there = outputs(network, part)
            cost = cosine_embedding_loss(here, there, here.new_full((len(here),), -1.0), protocol.margin)
            cost.backward()
            optimizer.step()
            losses.append(cost.detach() * part.graphs)
        history.append(float(torch.stack(losses).sum()) / (2 * protocol.copies))
        scheduler.step(history[-1])
    settle(network, training)
    found = distance(network, training), distance(network, checking)
    seconds = round(time.perf_counter() - began, 2)
    loss = history[-1] if history else float("nan")
    return PairResult(pair.number, pair.family, *found, loss, len(history), seconds, rings, pair.names)


class Results:
    """A folder with the protocol and a line for each pair that is done: what a run continues from."""

    def __init__(self, folder: Path, protocol: Protocol) -> None:
        fresh_network(protocol)  # refuses what cannot be made before anything is written
        self.protocol, self.known, self.file = protocol, folder / "protocol.json", folder / "pairs.jsonl"
        if read_json(self.known, Protocol) not in (None, protocol):
            raise ValueError(f"{self.known} is of another run; give --out another folder, or the options that it names")

    def read(self) -> dict[int, PairResult]:
        """The pairs that are done. A last line that was cut off does not count."""
        lines = read_bytes(self.file).split(b"\n")[:-1] if self.file.exists() else []
        done = [parse_json(line, PairResult, f"{self.file}, line {i}") for i, line in enumerate(lines, 1)]
        return {outcome.pair: outcome for outcome in done}

    def run(self, pairs: Iterable[Pair], device: str, jobs: int) -> None:
        """Compares the pairs that are not done, ``jobs`` at a time, and writes each result as soon as it is there."""
        done = self.read()
        left = [pair for pair in pairs if pair.number not in done]
        if left and device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(f"--device is {device}, but PyTorch finds no GPU here: choose cpu")
        if not self.known.exists():
            write_text(self.known, json.dumps(asdict(self.protocol), indent=2))
        write_text(self.file, "".join(_line(outcome) for outcome in done.values()))
        for number, outcome in enumerate(_outcomes(left, self.protocol, device, jobs), 1):
            with self.file.open("a") as file:
                file.write(_line(outcome))
            verdict = "apart" if outcome.apart else "alike"
            say(
                f"{number}/{len(left)}  pair {outcome.pair} ({outcome.names or outcome.family}): {verdict}, T²/32 = "
                f"{outcome.distance:.4g}, reliability {outcome.reliability:.4g}, {outcome.seconds:.1f} s"
            )


def _line(outcome: PairResult) -> str:
    said = {name: value for name, value in asdict(outcome).items() if value or name not in ("rings", "names")}
    return json.dumps(said) + "\n"


def _outcomes(pairs: list[Pair], protocol: Protocol, device: str, jobs: int) -> Iterator[PairResult]:
    from joblib import Parallel, delayed, parallel_config

    work = (delayed(compare)(pair, protocol, device) for pair in pairs)
    with parallel_config("loky", inner_max_num_threads=1):
        yield from Parallel(min(jobs, len(pairs) or 1), return_as="generator_unordered")(work)
