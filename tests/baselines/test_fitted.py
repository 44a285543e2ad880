import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from pggnn.baselines.fitted.colours import see_neighbours
from pggnn.baselines.fitted.wegl import WEGL
from pggnn.baselines.fitted.wl import WLKernel
from pggnn.data.formats.export import save_jsonl
from pggnn.data.sets.classic import cycle
from pggnn.train.options import parse
from pggnn.train.runs.predict import Trained
from pggnn.train.runs.run import train


def together(graphs):
    one = Batch.from_data_list(graphs)
    return Data(x=one.x, edge_index=one.edge_index, batch=one.batch, num_graphs=len(graphs), num_nodes=len(one.batch))


def ring(n):
    return Data(x=torch.zeros(n, dtype=torch.long), edge_index=cycle(n).edge_index)


def line(n, label=0):
    at = torch.arange(n - 1)
    edges = torch.stack([at, at + 1])
    return Data(x=torch.full((n,), label), edge_index=torch.cat([edges, edges.flip(0)], dim=1))


def two(a, b):
    return Data(x=torch.cat([a.x, b.x]), edge_index=torch.cat([a.edge_index, b.edge_index + len(a.x)], dim=1))


def test_the_kernel_counts_common_colours():
    """Paths of 3 and 4 nodes: by hand, before and after one and two rounds of refinement."""
    kernel = WLKernel(iterations=2)
    kernel.read(together([line(3), line(4)]))
    raw = [[9, 12, 16], [9 + 4 + 1, 12 + 4 + 2, 16 + 4 + 4], [14 + 4 + 1, 18 + 4, 24 + 4 + 4]]
    for found, (a, b, c) in zip(kernel.kernels, raw, strict=True):
        assert found[0, 1] == pytest.approx(b / np.sqrt(a * c))
        assert found.diagonal() == pytest.approx(1)


def test_the_kernel_sees_what_refinement_sees():
    kernel = WLKernel(iterations=4)
    kernel.read(together([two(ring(3), ring(3)), ring(6), line(6), line(6, 1)]))
    last = kernel.kernels[-1]
    assert last[0, 1] == pytest.approx(1), "two triangles and a hexagon"
    assert last[1, 2] < 0.6 and last[2, 3] == 0, "a path has ends, and labels count"


def test_neighbours_are_multisets():
    source, target = np.array([1, 2, 1, 1, 2]), np.array([0, 0, 3, 3, 3])
    seen = see_neighbours(np.array([0, 1, 2, 0]), source, target)
    assert seen[0] != seen[3], "1, 2 is not 1, 1, 2"
    assert see_neighbours(np.array([0, 2, 1, 0]), source, target)[0] == seen[0], "their order does not matter"


def test_transport_keeps_distances():
    """Of point clouds as large as the template: ‖φ(G) − φ(G′)‖ is the Wasserstein distance where both plans agree, and
    graphs with the same embedded nodes are at 0."""
    graphs = [ring(5), Data(x=ring(5).x, edge_index=ring(5).edge_index[:, torch.randperm(10)]), line(5), line(9)]
    found = WEGL(diffusions=2)
    found.read(together(graphs))
    mapped = found.embed(2, 0, np.arange(4))
    assert mapped.shape[0] == 4 and np.allclose(mapped[0], mapped[1]) and not np.allclose(mapped[0], mapped[2])
    size = mapped.shape[1] // 3
    shift = np.stack([one.reshape(size, 3).sum(0) for one in mapped]) / np.sqrt(size)
    means = np.stack([part.mean(0) for part in np.split(np.concatenate(found.states, 1), found.sizes.cumsum()[:-1])])
    assert np.allclose(shift - shift[0], means - means[0], atol=1e-5), "the transport moves means to means"


@pytest.mark.parametrize("model", [WLKernel(iterations=3), WEGL(diffusions=4, trees=20)])
def test_they_learn_without_the_test_classes(model):
    graphs = [ring(4 + i % 5) if i % 2 else line(4 + i % 5) for i in range(40)]
    model.read(together(graphs))
    y, train, test = np.arange(40) % 2, np.arange(30), np.arange(30, 40)
    hidden = np.where(np.arange(40) < 30, y, -1)
    (found,) = model.classify(hidden, train, [test])
    assert (found == y[test]).all() and model.chosen["accuracy"] > 0.9


@pytest.fixture
def file(tmp_path):
    graphs = [ring(4 + i % 5) if i % 2 else line(4 + i % 5) for i in range(40)]
    for number, graph in enumerate(graphs):
        graph.y = torch.tensor([number % 2])
    save_jsonl(graphs, tmp_path / "rings.jsonl")
    return tmp_path


@pytest.mark.parametrize(("name", "kind"), [("wl", "folds"), ("wl", "nested"), ("wegl", "folds")])
def test_a_run_on_the_folds_of_networks(name, kind, file):
    given = ["--data.name", str(file / "rings.jsonl"), "--model.name", name, "--protocol.folds", "3"]
    given += ["--protocol.kind", kind, "--run.jobs", "1", "--run.out", str(file / "run"), "--run.tensorboard", "false"]
    given += ["--model.trees", "10", "--model.iterations", "2", "--model.diffusions", "2"]
    config = parse(given)[0]
    assert train(config).mean > 0.9
    with pytest.raises(ValueError, match="keeps figures and no network"):
        Trained.load(file / "run")
    assert len(train(config, "last").each) == 3, "nothing is left to do"


def test_only_graphs_are_classified(file):
    given = [
        "--data.name",
        "ER",
        "--data.options",
        "{graphs: 10, seed: 0}",
        "--model.name",
        "wl",
        "--run.out",
        str(file / "no"),
    ]
    with pytest.raises(ValueError, match="WL classifies graphs, and these have targets for regression of nodes"):
        train(parse(given)[0])
    assert not (file / "no").exists()
