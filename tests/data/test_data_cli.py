import shutil
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from torch_geometric.datasets import TUDataset

from pggnn.cli import main
from pggnn.data import stats
from pggnn.data.catalogue import CATALOGUE
from pggnn.data.features.motifs import triangles
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.data.sets.tu import TU
from pggnn.data.stats import PAPER, PROPERTIES, differences, statistics


def test_list_names_every_set_and_fits_80_columns(capsys, tmp_path):
    assert main(["data", "list", "--data-root", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for name, entry in CATALOGUE.items():
        assert name in out
        assert entry.file in out
        assert entry.source in out
    assert "missing" in out
    assert "there" not in out.replace("there are", "")
    rows = [line for line in out.splitlines() if "http" not in line][1:]
    assert max(map(len, rows)) <= 80


def test_every_cell_of_table_7(data_root, collab, capsys, monkeypatch):
    expected = {"COLLAB": ["triangles_avg"], "MNIST": ["triangles_avg", "triangles_max"]}
    for name, row in PAPER.items():
        found = statistics(name, data_root)
        assert set(PROPERTIES) <= set(found)
        assert differences(name, found) == expected.get(name, []), name
        assert len(row) == (10 if name == "MNIST" else 8)
    read = []
    monkeypatch.setattr(stats, "load", lambda name, root: read.append(name) or load(name, root))
    assert main(["data", "stats", "--all", "--data-root", str(data_root)]) == 0
    assert not set(read) & set(PAPER), "statistics are cached"
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    lines = {line.split()[0]: line for line in out.splitlines() if line and line.split()[0] in CATALOGUE}
    assert set(lines) >= set(PAPER)
    assert lines["COLLAB"].split()[-2:] == ["124551.35*1", "2574680"]
    assert lines["MNIST"].split()[-2:] == ["626.08*2", "701*2"]
    assert "As in the paper to two decimals, in all properties: PROTEINS, NCI1" in out


def test_the_reason_given_for_collabs_triangles(collab):
    """The paper's average comes from adding in single precision, one graph after the other."""
    graphs = Graphs.of(collab)
    per_graph = []
    for first in range(0, 5000, 200):
        part = graphs.chunk(first, first + 200)
        edge_index, ptr = part.batched_edges()
        at_nodes = np.append(0, triangles(edge_index, ptr).numpy().cumsum())
        per_graph.append(np.diff(at_nodes[ptr.numpy()]) // 3)
    found = np.concatenate(per_graph)
    assert found.sum() == 622_756_747
    assert f"{np.cumsum(found, dtype=np.float32)[-1] / np.float32(5000):.2f}" == "124551.40"


def test_stats_of_ones_own_file(write, capsys):
    ring = {"num_nodes": 4, "edges": [[0, 1], [1, 2], [2, 0], [2, 2]], "y": "a"}
    path = write(ring, {"num_nodes": 2, "edges": [], "y": "b"})
    assert main(["data", "stats", str(path)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "graphs.jsonl" in line)
    assert row.split()[1:] == ["2", "2", "3.00", "4", "1.00", "2", "0.50", "1"]
    assert main(["data", "stats", str(write(ring | {"directed": True, "edges": [[0, 1], [1, 2], [3, 2]]}))]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "graphs.jsonl" in line)
    assert row.split()[1:] == ["1", "1", "4.00", "4", "0.75/0.75", "2/1", "0.00", "0"]


def test_verify(data_root, tmp_path, capsys):
    assert main(["data", "verify", "--data-root", str(data_root)]) == 0
    assert capsys.readouterr().out.count("ok ") == len(CATALOGUE)
    (tmp_path / "tu").mkdir()
    shutil.copy(data_root / "tu" / "MUTAG.zip", tmp_path / "tu")
    (tmp_path / "tu" / "NCI1.zip").write_bytes(b"something else")
    assert main(["data", "verify", "--data-root", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "ok      MUTAG" in captured.out
    assert "DIFFERS NCI1" in captured.out
    assert "not the known content: tu/NCI1.zip" in captured.err


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A real HTTP server in the place of TU's."""
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *args: None)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        monkeypatch.setattr(TUDataset, "url", f"http://127.0.0.1:{running.server_port}")
        yield folder
        running.shutdown()


def test_get(server, tmp_path, capsys):
    with zipfile.ZipFile(server / "IMDB-BINARY.zip", "w") as archive:
        for kind, text in {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n2\n", "graph_labels": "0\n1\n"}.items():
            archive.writestr(f"IMDB-BINARY/IMDB-BINARY_{kind}.txt", text)
    (server / "NCI1.zip").write_bytes(b"<html>not a zip</html>")
    root = tmp_path / "root"
    assert main(["data", "get", "imdb-b", "--data-root", str(root)]) == 0
    assert "2 graphs, in TU's own format. Cite: Morris" in capsys.readouterr().out
    assert len(TU("IMDBBINARY", root)) == 2
    assert main(["data", "get", "IMDBBINARY", "--data-root", str(root)]) == 0
    assert "is there already" in capsys.readouterr().out
    for name, message in (
        ("NCI1", "NCI1.zip is not a data set that can be read ("),
        ("MUTAG", "cannot be reached (File not found); on a machine with no network, put the file at"),
        ("ZINC", "ZINC cannot be downloaded: the copy that PyTorch Geometric offers is a pickle"),
        ("BREC", "PyTorch Geometric has no data set class for it; put its file at"),
    ):
        assert main(["data", "get", name, "--data-root", str(root)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
    assert [file.name for file in (root / "tu").iterdir() if file.is_file()] == ["IMDBBINARY.zip"]


def test_without_a_network_one_sentence_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(TUDataset, "url", "http://127.0.0.1:1")
    assert main(["data", "get", "MUTAG", "--data-root", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "cannot be reached" in error
    assert f"put the file at {tmp_path / 'tu' / 'MUTAG.zip'}" in error
    assert not list((tmp_path / "tu").iterdir())


def test_mistakes_are_one_line(capsys, tmp_path):
    for arguments, message in (
        (["stats"], "name the data sets, or ask for --all of them"),
        (["stats", "ZINC", "--all"], "name the data sets, or ask for --all of them"),
        (["stats", "CORA"], "no data set or file is named 'CORA'"),
        (["stats", "ZINC"], "zinc12k.npz is not there; put the file there"),
        (["stats", "--all"], "no data set has its file under"),
        (["verify"], "no data set has its file under"),
    ):
        assert main(["data", *arguments, "--data-root", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1


def test_works_without_rich(data_root, capsys, monkeypatch):
    for module in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, module, None)
    assert main(["data", "stats", "MUTAG", "--data-root", str(data_root)]) == 0
    assert "MUTAG" in capsys.readouterr().out
