"""Files spoilt at random are refused with a place, or read as a slow reader that checks nothing would read them."""

import json
import random

import numpy as np
import pytest
import torch

from pggnn.data.check import summarize
from pggnn.data.formats.jsonl import InvalidFile, load_jsonl
from pggnn.data.graphs import Graphs
from pggnn.data.schema import UNKNOWN

STRANGE = [
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, float("nan"), float("inf"), 10**18, 2**63, 10**25, 10**400, "",
    "a", "0", "train", "\ud800", "\x00", [], [[]], [0], [0, 0], [[0, 0]], [[0.5]], ["a"], [None], {}, {"x": 1}, [[[0]]],
]  # fmt: skip
KEYS = [
    "num_nodes",
    "x",
    "node_labels",
    "edges",
    "edge_attr",
    "edge_labels",
    "directed",
    "y",
    "node_y",
    "split",
    "id",
    "z",
]


def valid_graphs(rng):
    """Lines with a random choice of fields, the same for all."""
    fields = {key for key in KEYS[:-1] if rng.random() < 0.5} | {"edges"}
    if not fields & {"x", "node_labels"}:
        fields.add("num_nodes")
    if {"y", "node_y"} <= fields:
        fields.remove(rng.choice(["y", "node_y"]))
    labels, classes = rng.choice([["a", "b"], [3, 4]]), rng.choice([["a", "b"], [0, 1], [0.5, 2], [[0, 1]], [[0.5, 1]]])
    for number in range(rng.randint(1, 3)):
        n = rng.randint(1, 4)
        pairs = [[a, b] if rng.random() < 0.5 else [b, a] for a in range(n) for b in range(a + 1)]
        edges = rng.sample(pairs, rng.randint(0, len(pairs)))
        graph = {
            "num_nodes": n, "x": [[rng.random(), rng.randint(0, 9)] for _ in range(n)], "edges": edges,
            "node_labels": rng.choices(labels, k=n), "edge_labels": rng.choices(labels, k=len(edges)),
            "edge_attr": [[rng.random()] for _ in edges], "directed": rng.random() < 0.5,
            "y": rng.choice(classes), "node_y": rng.choices(classes, k=n),
            "split": rng.choice(["train", "val", "test"]), "id": f"g{number}",
        }  # fmt: skip
        yield {key: value for key, value in graph.items() if key in fields}


def spoil(graph, rng):
    """Changes one place of a graph."""
    place, key = graph, rng.choice(KEYS if rng.random() < 0.3 else list(graph))
    while isinstance(place.get(key) if isinstance(place, dict) else place[key], list) and rng.random() < 0.7:
        inner = place[key]
        if not inner:
            break
        place, key = inner, rng.randrange(len(inner))
    action = rng.choice(["replace", "replace", "delete", "double"])
    if action == "delete" and (isinstance(place, list) or key in place):
        del place[key]
    elif action == "double" and isinstance(place, list):
        place.insert(key, place[key])
    else:
        place[key] = rng.choice(STRANGE)


def spoil_bytes(content, rng):
    content = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(content) + 1)
        piece = rng.choice(
            [b"", bytes([rng.randrange(256)]), b"\n", b'"', b"[", b"1", b",", b"\xff\xff", b"\x00", b"e9"]
        )
        content[at : at + rng.randint(0, 3)] = piece
    return bytes(content)


def read_plainly(content):
    for line in content.decode("utf-8-sig").split("\n"):
        if line.strip():
            graph = json.loads(line)
            n = graph.get("num_nodes") or len(graph.get("x") or graph["node_labels"])
            edges = []
            for a, b in graph["edges"]:
                edges += [(a, b)] if graph.get("directed") or a == b else [(a, b), (b, a)]
            yield n, edges, graph


def names(columns, labels):
    return [labels[int(row.argmax())] for row in columns]


def check_against(content, graphs):
    plain = list(read_plainly(content))
    assert len(plain) == len(graphs)
    schema = graphs.schema
    for (n, edges, given), graph in zip(plain, graphs, strict=True):
        assert graph.num_nodes == n
        assert [tuple(edge) for edge in graph.edge_index.t().tolist()] == edges
        assert all(0 <= node < n for edge in edges for node in edge)
        width = schema.features
        if "x" in given:
            assert torch.equal(graph.x[:, :width], torch.tensor(given["x"], dtype=torch.float))
        if "node_labels" in given:
            assert names(graph.x[:, width:], schema.node_labels) == given["node_labels"]
        if edges and "edge_attr" in given:
            assert graph.edge_attr[0, 0] == torch.tensor(given["edge_attr"][0][0], dtype=torch.float)
        if edges and "edge_labels" in given:
            seen = names(graph.edge_attr[:, schema.edge_features :], schema.edge_labels)
            assert (seen[0], seen[-1]) == (given["edge_labels"][0], given["edge_labels"][-1])
        if "y" in given or "node_y" in given:
            target = [given["y"]] if "y" in given else given["node_y"]
            if schema.task == "classification":
                seen = [None if i == UNKNOWN else schema.classes[i] for i in graph.y.tolist()]
                assert seen == [None if one is None or one != one else one for one in target]
            elif schema.task:
                width = schema.width or 1
                rows = [one if isinstance(one, list) else [one] * width for one in target]
                expected = torch.tensor(np.array(rows, np.float32)).view(graph.y.shape)
                assert torch.allclose(graph.y, expected, 0, 0, equal_nan=True)
        for value in (graph.x, graph.edge_attr):
            assert value is None or value.isfinite().all()


@pytest.mark.parametrize("kind", ["untouched", "values", "bytes"])
def test_spoilt_files(kind, tmp_path):
    rng, path = random.Random(kind), tmp_path / "graphs.jsonl"
    cases = {"untouched": 100, "values": 1200, "bytes": 700}[kind]
    refused = 0
    for _ in range(cases):
        graphs = list(valid_graphs(rng))
        if kind == "values":
            for _ in range(rng.randint(1, 2)):
                spoil(rng.choice(graphs), rng)
        content = "\n".join(map(json.dumps, graphs)).encode()
        if kind == "bytes":
            content = spoil_bytes(content, rng)
        path.write_bytes(content)
        try:
            read = load_jsonl(path)
        except InvalidFile as error:
            refused += 1
            assert all(problem.startswith(("line ", "the file holds no graph")) for problem in error.problems)
            str(error).encode()
        else:
            check_against(content, read)
            assert max(map(len, summarize(Graphs.of(read)).text(80).splitlines())) <= 80
    assert refused == 0 if kind == "untouched" else cases / 3 < refused < cases
