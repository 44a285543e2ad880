"""Damaged input: an error that names the file, or the graphs that are really written there. 2,000 cases."""

import io
import random
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pggnn.data.formats.archives import read_npz
from pggnn.data.sets.brec import read_brec
from pggnn.data.sets.counting import read_counting
from pggnn.data.sets.mnist import read_mnist
from pggnn.data.sets.tu import read_tu
from pggnn.data.sets.zinc import read_zinc

WORDS = [
    "-1",
    "0",
    "1",
    "3",
    "99",
    "1000000000",
    "99999999999999999999",
    "0.5",
    "nan",
    "inf",
    "x",
    "",
    "1e3",
    "-",
    "\0",
    "٣",
]


def gin_text(graphs):
    lines = [str(len(graphs))]
    for label, adjacency in graphs:
        lines.append(f"{len(adjacency)} {label}")
        lines += [" ".join(map(str, [v % 3, len(around), *around])) for v, around in enumerate(adjacency)]
    return "\n".join(lines) + "\n"


def parse_slowly(text):
    """The graphs of a text in GIN's format with no attributes, by the letter; ValueError for anything else."""
    lines = [[int(word) for word in line.split()] for line in text.encode().rstrip().split(b"\n")]
    if any(abs(number) >= 2**53 for line in lines for number in line):
        raise ValueError
    graphs, line = [], 1
    (count,) = lines[0]
    for _ in range(count):
        nodes, label = lines[line]
        if nodes < 0 or line + nodes >= len(lines):
            raise ValueError
        adjacency = []
        for tag, degree, *around in lines[line + 1 : line + 1 + nodes]:
            if degree != len(around) or any(not 0 <= u < nodes for u in around):
                raise ValueError
            adjacency.append((tag, around))
        graphs.append((label, adjacency))
        line += 1 + nodes
    if count < 0 or line != len(lines) or not any(adjacency for _, adjacency in graphs):
        raise ValueError
    return graphs


def assert_same(graphs, expected):
    assert graphs.nodes.tolist() == [len(adjacency) for _, adjacency in expected]
    edges = [[u, v] for _, adjacency in expected for v, (_, around) in enumerate(adjacency) for u in around if u != v]
    assert graphs.edge_index.t().tolist() == edges
    classes = sorted({label for label, _ in expected})
    assert graphs.graph["y"].tolist() == [classes.index(label) for label, _ in expected]
    tags = [tag for _, adjacency in expected for tag, _ in adjacency]
    if len(set(tags)) > 1:
        assert graphs.node["x"].tolist() == [sorted(set(tags)).index(tag) for tag in tags]


def mutate(text, rng):
    lines = text.split("\n")
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(lines))
        words = lines[at].split(" ")
        match rng.randrange(6):
            case 0:
                del lines[at]
                lines = lines or [""]
            case 1:
                lines.insert(at, lines[rng.randrange(len(lines))])
            case 2:
                words[rng.randrange(len(words))] = rng.choice(WORDS)
                lines[at] = " ".join(words)
            case 3:
                words.insert(rng.randrange(len(words) + 1), rng.choice(WORDS))
                lines[at] = " ".join(words)
            case 4:
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
            case 5:
                cut = rng.randrange(len("\n".join(lines)) + 1)
                lines = "\n".join(lines)[:cut].split("\n")
    return "\n".join(lines)


def random_graphs(rng):
    graphs = []
    for _ in range(rng.randint(1, 4)):
        nodes = rng.randint(0, 5)
        adjacency = [[u for u in range(nodes) if rng.random() < 0.5] for _ in range(nodes)]
        graphs.append((rng.randint(-1, 2), adjacency))
    return graphs


def write_zip(path, name, text):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, text)
    return path


def test_mutated_gin_texts(tmp_path):
    rng, outcomes = random.Random(0), {"loaded": 0, "refused": 0}
    for _ in range(600):
        text = mutate(gin_text(random_graphs(rng)), rng)
        path = write_zip(tmp_path / "SET.zip", "SET/SET.txt", text.encode())
        try:
            graphs = read_tu(path).checked(str(path))
        except ValueError as error:
            assert "SET.zip" in str(error)
            with pytest.raises((ValueError, IndexError)):
                parse_slowly(text)
            outcomes["refused"] += 1
            continue
        try:
            expected = parse_slowly(text)
        except (ValueError, IndexError):
            floats = "e" in text or "." in text
            assert floats or graphs.node["x"].dim() == 2, (
                "only numbers after the neighbours, attributes, are more than that"
            )
        else:
            assert_same(graphs, expected)
        outcomes["loaded"] += 1
    assert min(outcomes.values()) > 30, outcomes


OWN = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n", "graph_indicator": "1\n1\n1\n2\n2\n", "graph_labels": "1\n-1\n",
    "node_labels": "0\n1\n2\n0\n1\n", "node_attributes": "0.5, 1\n1, 2\n1, 2\n0, 1\n2, 2\n",
    "edge_labels": "0\n0\n1\n1\n0\n0\n",
    "edge_attributes": "1\n2\n3\n4\n5\n6\n", "graph_attributes": "0.5\n1\n",
}  # fmt: skip


def test_mutated_texts_in_tus_own_format(tmp_path):
    rng, refused = random.Random(1), 0
    for _ in range(500):
        files = dict(OWN)
        kind = rng.choice([*files])
        if rng.random() < 0.1:
            del files[kind]
        else:
            files[kind] = mutate(files[kind], rng)
        with zipfile.ZipFile(tmp_path / "SET.zip", "w") as archive:
            for name, text in files.items():
                archive.writestr(f"SET/SET_{name}.txt", text)
        try:
            graphs = read_tu(tmp_path / "SET.zip").checked("SET.zip")
        except ValueError as error:
            assert "SET" in str(error)
            refused += 1
            continue
        rows = {name: text.rstrip().split("\n") for name, text in files.items()}
        indicator = [int(float(row)) for row in rows["graph_indicator"]]
        assert graphs.nodes.tolist() == [indicator.count(graph + 1) for graph in range(len(graphs))]
        pairs = [[int(float(word)) for word in row.replace(",", " ").split()] for row in rows["A"] if row.strip()]
        pairs = sorted(((u, v) for u, v in pairs if u != v), key=lambda pair: indicator[pair[0] - 1])
        first = [indicator.index(indicator[u - 1]) + 1 for u, _ in pairs]
        assert graphs.edge_index.t().tolist() == [[u - f, v - f] for (u, v), f in zip(pairs, first, strict=True)]
    assert 200 < refused < 480


def test_mutated_zip_bytes(tmp_path):
    rng, refused = random.Random(2), 0
    text = gin_text(random_graphs(random.Random(7)))
    good = write_zip(tmp_path / "SET.zip", "SET/SET.txt", text).read_bytes()
    for case in range(400):
        bad = bytearray(good)
        if case % 4 == 0:
            del bad[rng.randrange(len(bad)) :]
        else:
            for _ in range(rng.randint(1, 4)):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
        (tmp_path / "SET.zip").write_bytes(bad)
        try:
            assert_same(read_tu(tmp_path / "SET.zip"), parse_slowly(text))
        except ValueError as error:
            assert "SET.zip" in str(error)
            refused += 1
    assert refused > 200


def arrays_of(kind):
    split = {f"split_{name}": np.array([i], np.int16) for i, name in enumerate(("train", "val", "test"))}
    ends = {"src": np.array([0, 1, 0], np.uint8), "dst": np.array([1, 2, 1], np.uint8)}
    sizes = {"n": np.array([3, 2], np.uint8), "m": np.array([2, 1], np.uint8)}
    if kind == "counting":
        return {key: np.append(value, np.uint8(0)) for key, value in sizes.items()} | ends | split
    if kind == "mnist":
        x = np.zeros((5, 3), np.float16)
        return {"n": sizes["n"], "x": x, "nbr": np.array([[1, 2]] * 3 + [[0, 1]] * 2, np.uint8), "y": np.array([3, 4])}
    part = sizes | ends | {"x": np.array([0, 1, 27, 0, 5]), "bond": np.array([1, 2, 3]), "y": np.array([0.5, -1])}
    return {f"{name}_{key}": value for name in ("train", "val", "test") for key, value in part.items()}


READERS = {"counting": read_counting, "mnist": read_mnist, "zinc": read_zinc}


@pytest.mark.parametrize("kind", READERS)
def test_mutated_arrays(kind, tmp_path):
    rng, outcomes = random.Random(3), {"loaded": 0, "refused": 0}
    extremes = [-1, 0, 1, 2, 4, 255, 2**31, 2**62, -(2**63), float("nan"), 1e30]
    for _ in range(120):
        arrays = arrays_of(kind)
        key = rng.choice([*arrays])
        value = arrays[key]
        match rng.randrange(6):
            case 0:
                del arrays[key]
            case 1:
                arrays[key] = value[:-1]
            case 2:
                arrays[key] = np.concatenate([value, value])
            case 3:
                arrays[key] = rng.choice([value[None], value.astype(str), value.astype(complex), value.reshape(-1)[0]])
            case _:
                changed = value.astype(np.float64 if isinstance(extreme := rng.choice(extremes), float) else np.int64)
                changed.reshape(-1)[rng.randrange(changed.size)] = extreme
                with np.errstate(invalid="ignore"):
                    arrays[key] = changed if rng.random() < 0.7 else changed.astype(value.dtype)
        np.savez(tmp_path / "a.npz", **arrays)
        try:
            graphs = READERS[kind](tmp_path / "a.npz").checked("a.npz")
        except ValueError as error:
            assert "a.npz" in str(error)
            outcomes["refused"] += 1
        else:
            outcomes["loaded"] += 1
            sizes = np.concatenate([v for k, v in arrays.items() if k.split("_")[-1] == "n"])
            assert graphs.nodes.tolist() == sizes.tolist()
    assert min(outcomes.values()) > 5, outcomes


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_text_zip_or_array(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "SET.txt"
        path.write_bytes(content)
        archive = write_zip(Path(folder) / "SET.zip", "SET.txt", content)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as arrays:
            arrays.writestr("a.npy", b"\x93NUMPY\x01\x00" + content)
        (Path(folder) / "a.npz").write_bytes(stream.getvalue())
        for read, file in ((read_tu, Path(folder)), (read_tu, archive), (read_tu, path), (read_brec, path),
                           (read_npz, path), (read_npz, Path(folder) / "a.npz")):  # fmt: skip
            try:
                read(file)
            except ValueError as error:
                assert str(folder) in str(error)
