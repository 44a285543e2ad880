"""Training steps, answers and the forward rate of the packed operation on a CPU."""

import shutil
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence
from torch_geometric.data import Batch, Data

from benchmarks.timing import Figures, in_turns
from pggnn.baselines import GIN
from pggnn.data.sets.counting import Counting, erdos_renyi
from pggnn.groups import group
from pggnn.nn import PGGNN, PGConv
from pggnn.plan import Plan

HIDDEN, BATCH = 64, 16
PYTORCH = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "srn": torch.nn.RNN}


def cpu(rounds: int = 8, nodes: int = 1024) -> Figures:
    """Batch 16, hidden 64, 2-layer RNNs, 4 aggregations, whole group; then one forward pass of the LSTM beside a matrix
    product, and the answer for one small graph beside GIN's."""
    for name, graphs in (("ER", erdos_renyi(BATCH)), ("regular", [*Counting("regular", seed=0, graphs=BATCH)])):
        for cell in PYTORCH:
            case, times = f"{name}, {cell}", training_step(graphs, rounds, cell)
            yield case, "straightforward, ms", times["straightforward"]
            yield case, "ours, ms", times["ours"]
            yield case, "straightforward / ours", times["straightforward"] / times["ours"]
            yield case, "plan / step", times["plan"] / times["ours"]
    sequences = 8 * nodes
    center = torch.arange(nodes).repeat_interleave(8)
    plan = Plan.build(torch.stack([torch.randint(nodes, center.shape), center]), nodes)
    conv, x = PGConv(HIDDEN, HIDDEN), torch.randn(nodes, HIDDEN)
    h, weight = torch.randn(sequences, HIDDEN), torch.randn(HIDDEN, 4 * HIDDEN)
    gates = torch.empty(sequences, 4 * HIDDEN)
    with torch.no_grad():
        times = in_turns({"ours": lambda: conv(x, plan), "product": lambda: torch.mm(h, weight, out=gates)}, rounds)
    case = f"{sequences:,} sequences of degree 8"
    ours, product = (
        sequences * 10 * 24 * HIDDEN**2 / times["ours"] / 1e6,
        gates.numel() * 2 * HIDDEN / times["product"] / 1e6,
    )
    yield case, "forward, GFLOP/s", ours
    yield case, "matrix product of its shape, GFLOP/s", product
    yield case, "forward / matrix product", ours / product
    yield from answer(10 * rounds)


def answer(rounds: int) -> Figures:
    """The answer for one ER graph of 10 nodes, given its plan, and the features as they are; where there is a C++
    compiler, by compiled networks too."""
    graph = erdos_renyi(1)[0]
    plan = Plan.build(graph.edge_index, graph.num_nodes)
    networks: dict[str, torch.nn.Module] = {f"PG-GNN, {cell}": PGGNN(10, HIDDEN, 1, cell=cell) for cell in PYTORCH}
    networks |= {"PG-GNN, linear": PGGNN(10, HIDDEN, 1, cell="linear", rnn_layers=1), "GIN": GIN(10, HIDDEN, 1)}
    for network in networks.values():
        network.eval()
    calls: dict[str, Callable[..., Tensor]] = {**networks}
    if shutil.which("c++"):
        names = ("PG-GNN, linear", "GIN")
        calls |= {f"{name}, compiled": torch.compile(networks[name], fullgraph=True) for name in names}
    with torch.inference_mode():
        times = in_turns({name: partial(call, graph.x, plan) for name, call in calls.items()}, rounds)
    for name, time in times.items():
        yield "answer for one graph", f"{name}, ms", time


class StraightforwardConv(torch.nn.Module):
    """What one would write first: a packed call of PyTorch's RNN for each arrangement, over all nodes that have it."""

    def __init__(self, conv: PGConv) -> None:
        super().__init__()
        self.rnn = PYTORCH[conv.cell](conv.rnn.input_size, conv.out_channels, conv.num_layers)
        self.rnn.load_state_dict(conv.rnn.state_dict())

    def forward(self, x: Tensor, arrangements: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        out = x.new_zeros(x.size(0), self.rnn.hidden_size)
        for nodes, index, lengths in arrangements:
            packed = pack_padded_sequence(x[index], lengths, enforce_sorted=False)
            last = self.rnn(packed)[1]
            out = out.index_add(0, nodes, (last[0] if isinstance(last, tuple) else last)[-1])
        return out


def index_arrangements(edge_index: Tensor, num_nodes: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each k: the nodes with a k-th arrangement, what they read (``[steps, nodes]``, padded), and the lengths."""
    neighbors: list[list[int]] = [[] for _ in range(num_nodes)]
    for source, target in edge_index.t().tolist():
        neighbors[target].append(source)
    sequences: dict[int, list[tuple[int, list[int]]]] = {}
    for v, around in enumerate(neighbors):
        for k, arrangement in enumerate(group(len(around)).arrangements):
            sequences.setdefault(k, []).append((v, [v, *(around[i] for i in arrangement), v]))
    indexed = []
    for rows in sequences.values():
        lengths = [len(sequence) for _, sequence in rows]
        padded = [sequence + [0] * (max(lengths) - len(sequence)) for _, sequence in rows]
        indexed.append((torch.tensor([v for v, _ in rows]), torch.tensor(padded).t(), torch.tensor(lengths)))
    return indexed


def training_step(graphs: list[Data], rounds: int, cell: str = "lstm") -> dict[str, float]:
    """A training step of counting, beside the straightforward implementation with equal weights."""
    batch = Batch.from_data_list(graphs)
    ours, theirs = (PGGNN(batch.x.size(1), HIDDEN, 1, level="node", cell=cell) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    theirs.convs = torch.nn.ModuleList(StraightforwardConv(conv) for conv in ours.convs)  # type: ignore[arg-type]

    def plan() -> Plan:
        return Plan.build(batch.edge_index, batch.num_nodes)

    def forward_theirs() -> Tensor:
        arrangements = index_arrangements(batch.edge_index, batch.num_nodes)
        total, x = theirs.scores[0](batch.x), batch.x
        for conv, norm, score in zip(theirs.convs, theirs.norms, theirs.scores[1:], strict=True):
            x = norm(conv(x, arrangements)).relu()
            total = total + score(x)
        return total

    def forward_ours() -> Tensor:
        return ours(batch.x, plan())

    torch.testing.assert_close(forward_ours(), forward_theirs(), rtol=1e-3, atol=1e-3)

    def train(model: torch.nn.Module, forward: Callable[[], Tensor]) -> Callable[[], None]:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(forward().squeeze(-1), batch.y).backward()
            optimizer.step()

        return step

    tasks = {"ours": train(ours, forward_ours), "straightforward": train(theirs, forward_theirs), "plan": plan}
    return in_turns(tasks, rounds)
