import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from pggnn import Plan
from pggnn.cli import main
from pggnn.data.batching.batches import Batches
from pggnn.data.catalogue import CATALOGUE, lookup
from pggnn.data.loading import load
from pggnn.data.schema import Schema
from pggnn.data.sets.brec import BREC, FAMILIES, read_brec
from pggnn.data.sets.counting import Counting
from pggnn.data.sets.mnist import MNIST
from pggnn.data.sets.ogb import OGBMolecules
from pggnn.data.sets.zinc import ZINC


def test_zinc(data_root):
    sizes = {split: len(ZINC(data_root, split)) for split in ("train", "val", "test")}
    assert sizes == {"train": 10_000, "val": 1_000, "test": 1_000}
    dataset = ZINC(data_root, "val")
    assert (dataset.num_features, dataset.num_edge_features, len(ZINC(data_root))) == (28, 3, 12_000)
    with np.load(data_root / "zinc" / "zinc12k.npz", allow_pickle=False) as arrays:
        n, m, y = (arrays[f"val_{name}"] for name in "nmy")
        atoms, bonds = arrays["val_x"], arrays["val_bond"]
        src, dst = arrays["val_src"], arrays["val_dst"]
    graph = dataset[5]
    nodes, edges = (slice(*(int(c[:i].astype(int).sum()) for i in (5, 6))) for c in (n, m))
    assert graph.x.argmax(1).tolist() == atoms[nodes].tolist()
    assert graph.edge_attr.argmax(1).tolist() == (bonds[edges] - 1).tolist()
    assert graph.edge_index.tolist() == [src[edges].tolist(), dst[edges].tolist()]
    assert graph.y.item() == y[5]


def test_mnist(data_root):
    sizes = {split: len(MNIST(data_root, split)) for split in ("train", "val", "test")}
    assert sizes == {"train": 55_000, "val": 5_000, "test": 10_000}
    whole = MNIST(data_root)
    with np.load(data_root / "mnist" / "mnist75sp.npz", allow_pickle=False) as arrays:
        n, neighbours, x, y = (arrays[name] for name in ("n", "nbr", "x", "y"))
    assert torch.equal(whole._data.edge_index[1], torch.from_numpy(neighbours.reshape(-1)))
    assert torch.equal(whole._data.y, torch.from_numpy(y.astype(np.int64)))
    graph = MNIST(data_root, "train")[0]
    rows = slice(*(int(n[:i].astype(int).sum()) for i in (5000, 5001)))
    assert torch.equal(graph.x, torch.from_numpy(x[rows].astype(np.float32)))
    plan = Plan.build(graph.edge_index, graph.num_nodes, whole.schema.flow)
    assert (plan.degree == 8).all(), "a node's neighbours are the heads of its outgoing edges"
    assert torch.equal(plan.neighbor.view(-1, 8), torch.from_numpy(neighbours[rows].astype(np.int64)))


def test_molecules_with_ogbs_features(data_root):
    """The file has each bond once, and features as whole numbers."""
    dataset = OGBMolecules("peptides", data_root)
    assert {name: len(index) for name, index in dataset.splits.items()} == {
        "train": 10_873,
        "val": 2_331,
        "test": 2_331,
    }
    with np.load(data_root / "more" / "peptides_func.npz", allow_pickle=False) as arrays:
        n, m, x, bond, src, y = (arrays[name] for name in ("n", "m", "x", "bond", "src", "y"))
    graph = dataset[3]
    nodes, edges = (slice(*(int(c[:i].astype(int).sum()) for i in (3, 4))) for c in (n, m))
    assert graph.edge_index[:, ::2].equal(graph.edge_index[:, 1::2].flip(0)), "there and back"
    assert graph.edge_index[0, ::2].tolist() == src[edges].tolist()
    assert graph.y.tolist() == [y[3].tolist()]
    for rows, columns, stored in ((graph.x, x, x[nodes]), (graph.edge_attr[::2], bond, bond[edges])):
        values = [np.unique(column) for column in columns.T]
        blocks = rows.split([len(one) for one in values], dim=1)
        read = [one[block.argmax(1)] for one, block in zip(values, blocks, strict=True)]
        assert (np.stack(read, 1) == stored).all() and (rows.sum(1) == len(values)).all()
    with pytest.raises(ValueError, match=r"name must be one of 'molhiv', 'peptides', got 'qm9'"):
        OGBMolecules("qm9", data_root)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.array([2])}, "y must be 0 or 1, got 2 to 2"),
        ({"src": np.array([0, 1])}, "2 sources, 1 targets and 1 bonds"),
        ({"dst": np.array([2])}, "has 2 nodes, but an edge from 0 to 2"),
    ],
)
def test_damaged_molecules_are_refused(change, message, tmp_path):
    arrays = {"x": np.zeros((2, 9)), "n": [2], "m": [1], "src": [0], "dst": [1], "bond": np.zeros((1, 3)), "y": [1]}
    arrays |= {"split_train": [0], "split_val": [], "split_test": []} | change
    (tmp_path / "more").mkdir()
    np.savez(tmp_path / "more" / "ogbg_molhiv.npz", **{k: np.asarray(v).astype(np.int64) for k, v in arrays.items()})
    with pytest.raises(ValueError, match=message):
        OGBMolecules("molhiv", tmp_path)


def test_brec(data_root):
    dataset = BREC(data_root)
    assert len(dataset) == 800
    families = torch.bincount(dataset._data.family) // 2
    assert dict(zip(FAMILIES, families.tolist(), strict=True)) == {
        "Basic": 60, "Regular": 50, "StronglyRegular": 50, "Extension": 100, "CFI": 100, "4-Vertex_Condition": 20,
        "Distance_Regular": 20,
    }  # fmt: skip
    lines = (data_root / "brec" / "brec_pairs.tsv").read_bytes().split(b"\n")
    for pair in (0, 150, 399):
        for side in (0, 1):
            graph = nx.from_graph6_bytes(lines[pair].split(b"\t")[2 + side])
            ours = dataset[2 * pair + side]
            assert ours.num_nodes == graph.number_of_nodes()
            assert {(u, v) for u, v in ours.edge_index.t().tolist() if u < v} == {(*sorted(e),) for e in graph.edges}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0\tBasic\tC~", "line 1: expected id, family and two graphs"),
        ("0\tNew\tC~\tC~", "line 1: 'New' is not a family"),
        ("0\tCFI\tC~\tC~~", "line 1: graph b'C~~': not graph6: Expected 6 bits but got 12"),
    ],
)
def test_damaged_brec_is_refused(line, message, tmp_path):
    (tmp_path / "a.tsv").write_text(line)
    with pytest.raises(ValueError, match=message):
        read_brec(tmp_path / "a.tsv")


def test_the_catalogue_says_what_the_sets_are(data_root):
    for name, entry in CATALOGUE.items():
        if name in ("COLLAB", "MOLHIV"):  # large; see test_tu.py, and the other set of the same class
            continue
        dataset = load(name, data_root, split=None)
        graph, schema = dataset[0], dataset.schema
        assert dataset.file == entry.file
        if entry.features[0].isdigit():
            assert int(entry.features.split()[0]) == schema.in_channels
        assert graph.x.size(1) == dataset.num_features == schema.in_channels
        assert dataset.num_edge_features == schema.edge_dim
        assert schema.flow == ("target_to_source" if name == "MNIST" else "source_to_target")
        assert len(schema.classes) == (entry.classes or 0)
        assert dataset.num_classes == schema.out_channels == (entry.classes or schema.width or 1)
        if entry.task == "comparison":
            assert (schema.task, schema.level, graph.y) == (None, None, None)
        else:
            assert (schema.task, schema.level) == (entry.task, entry.level)
            assert graph.y.size(0) == (1 if entry.level == "graph" else graph.num_nodes)
            assert graph.y.is_floating_point() == (entry.task == "regression")


def test_names_of_labels_and_classes(data_root):
    assert load("ZINC", data_root).schema.edge_labels == (1, 2, 3)
    mutag = load("MUTAG", data_root)
    assert mutag.schema.node_labels == (0, 1, 2, 3, 4, 5, 6)
    assert mutag.schema.classes == (0, 2), "as the file calls them"
    with pytest.raises(ValueError, match=r"split must be \"fold0\", .*, \"fold9\" or None, got 'train'"):
        load("MUTAG", data_root, split="train")
    assert Schema.from_json(mutag.schema.to_json()) == mutag.schema
    strange = Schema("node", "multilabel", 3, 2, 1, (), ("é", "\0"), (10**30, -1), flow="target_to_source")
    assert Schema.from_json(strange.to_json()) == strange


def test_ones_own_files_load_by_path(write, tmp_path, monkeypatch):
    path = write(
        {"x": [[1]], "edges": [], "y": "a", "split": "val"}, {"x": [[2]], "edges": [], "y": "b", "split": "test"}
    )
    assert load(str(path)).schema.classes == load(path).schema.classes == ("a", "b")
    assert load(str(path), split="test")[0].x.tolist() == [[2]]
    with pytest.raises(ValueError, match='split must be "val", "test" or None, got \'train\''):
        load(str(path), split="train")
    (tmp_path / "MINE").mkdir()
    (tmp_path / "MINE" / "MINE.txt").write_text("2\n1 4\n0 0\n2 7\n0 1 1\n1 1 0\n")
    monkeypatch.chdir(tmp_path)
    mine = load("MINE")
    assert (len(mine), mine.schema.classes, mine.schema.node_labels) == (2, (4, 7), (0, 1))
    (tmp_path / "zinc").mkdir()
    with pytest.raises(FileNotFoundError, match=r"zinc12k.npz is not there"):
        load("zinc", tmp_path)  # a folder of the same name does not hide the data set


def test_a_name_that_is_a_data_set_and_a_folder_here_is_refused_everywhere(tmp_path, monkeypatch, capsys):
    (tmp_path / "mutag").mkdir()
    (tmp_path / "mutag" / "mutag.txt").write_text("20\n" + 10 * "1 4\n0 0\n2 7\n0 1 1\n1 1 0\n")
    monkeypatch.chdir(tmp_path)
    train = ["train", "--optim.epochs", "1", "--model.hidden", "4", "--model.layers", "1", "--data.name"]
    for command in (["data", "check"], ["data", "stats"], train):
        assert main([*command, "mutag"]) == 2
        assert "'mutag' is a data set and a folder here: write ./mutag for the folder" in capsys.readouterr().err
        assert main([*command, "./mutag"]) == 0
    with pytest.raises(ValueError, match=r"write \./mutag for the folder"):
        load("mutag")
    assert len(load("./mutag")) == len(load(Path("mutag"))) == len(load(tmp_path / "mutag")) == 20


def test_names_are_forgiving():
    assert lookup("imdb-b")[0] == lookup("IMDB-BINARY")[0] == "IMDBBINARY"
    with pytest.raises(
        ValueError, match="no data set or file is named 'CORA'; the data sets are ER, REGULAR, PROTEINS"
    ):
        lookup("CORA")


def test_transforms(data_root):
    def halve(data):
        data.x = data.x / 2
        data.extra = data.x[:, :1]
        return data

    plain = load("MUTAG", data_root)
    assert torch.equal(load("MUTAG", data_root, transform=halve)[4].x, plain[4].x / 2)
    before = load("MUTAG", data_root, pre_transform=halve)
    assert torch.equal(before[4].x, plain[4].x / 2)
    assert torch.equal(before[4].extra, plain[4].x[:, :1] / 2)
    assert before.schema == plain.schema, "columns and targets are as they were"
    assert torch.equal(plain.x.sum(1), torch.ones(plain.x.size(0))), "stacked attributes are expanded too"
    part = plain[10:20].copy()
    assert torch.equal(part[3].x, plain[13].x)
    assert part[3].edge_index.dtype == torch.long


def test_the_schema_follows_a_pre_transform():
    def to_ids(data):
        data.x, data.y = data.x.sum(1).long(), (data.y > 0).long()
        return data

    plain, changed = (Counting("er", seed=0, graphs=20, pre_transform=change) for change in (None, to_ids))
    assert (plain.schema.task, plain.schema.in_channels, plain.schema.out_channels) == ("regression", 10, 1)
    assert (changed.schema.task, changed.schema.in_channels, changed.schema.out_channels) == ("classification", 1, 2)
    assert changed[3].x.tolist() == plain[3].x.sum(1).tolist(), "not expanded to one-hot columns"
    (batch,) = Batches(changed, 20)
    assert torch.equal(batch.x, Batch.from_data_list(list(changed)).x)


def test_a_data_set_can_be_pickled_and_sent_to_workers(data_root):
    dataset = load("MUTAG", data_root)
    again = pickle.loads(pickle.dumps(dataset))
    assert (again.schema, len(again)) == (dataset.schema, 188)
    assert torch.equal(again[7].x, dataset[7].x)
    batch = next(iter(DataLoader(dataset, batch_size=4, num_workers=1)))
    assert torch.equal(batch.x, Batch.from_data_list(list(dataset[:4])).x)
