import json

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from pggnn.cli import main
from pggnn.data.schema import Schema
from pggnn.data.sets.brec import BREC
from pggnn.data.sets.classic import complete, cycle, rook, shrikhande
from pggnn.lab import brec, paired_comparison
from pggnn.lab.paired_comparison import (
    PairResult,
    Part,
    Protocol,
    RingGraph,
    brec_pairs,
    compare,
    distance,
    outputs,
    parts,
    with_rings,
)
from pggnn.orderings import Reading
from pggnn.plan import Plan
from pggnn.search import find_rings
from pggnn.train.config import ModelConfig
from pggnn.train.engine.models import build

QUICK = {"epochs": 2}


def graph6(graph):
    return nx.to_graph6_bytes(to_networkx(graph, to_undirected=True), header=False).decode().rstrip()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data root with three pairs, of which the last are one and the same graph."""
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    triangles = Data(edge_index=torch.cat([complete(3).edge_index, complete(3).edge_index + 3], 1), num_nodes=6)
    pairs = [("Basic", triangles, cycle(6)), ("StronglyRegular", rook(), shrikhande()), ("CFI", rook(), rook())]
    lines = ["\t".join([str(number), family, *map(graph6, pair)]) for number, (family, *pair) in enumerate(pairs)]
    (tmp_path / "data" / "brec").mkdir(parents=True)
    (tmp_path / "data" / "brec" / "brec_pairs.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "data"


def command(*options):
    assert main(["lab", "brec", *options]) == 0


def test_structure_tells_pairs_apart_and_nothing_else_does(root):
    pairs = brec_pairs(BREC(root))
    told = Protocol(ModelConfig(hidden=16, layers=1, cell="srn", rnn_layers=1, structure=2), **QUICK)
    found = [compare(pair, told) for pair in pairs]
    assert [outcome.apart for outcome in found] == [True, True, False]
    assert all(outcome.reliable for outcome in found)
    for blind in (ModelConfig(hidden=16, layers=2, rnn_layers=1), ModelConfig("gin", hidden=16)):
        outcomes = [compare(pair, Protocol(blind, **QUICK)) for pair in pairs[:2]]
        assert not any(outcome.apart for outcome in outcomes)
        assert all(outcome.reliable for outcome in outcomes)


def test_distance_is_hotellings(monkeypatch):
    torch.manual_seed(0)
    first, second = torch.randn(32, 4).double(), torch.randn(32, 4).double() + 1
    monkeypatch.setattr(
        paired_comparison, "outputs", lambda network, part: (first[part.graphs :][:16], second[part.graphs :][:16])
    )
    part = Part(Plan.build(torch.empty(2, 0, dtype=torch.long), 0), torch.empty(0), 0)
    difference = first - second
    centred = difference - difference.mean(0)
    spread = centred.t() @ centred / 31
    expected = difference.mean(0) @ torch.linalg.inv(spread) @ difference.mean(0)
    assert distance(None, [part, part._replace(graphs=16)]) == pytest.approx(float(expected), rel=1e-6)


def test_batches_hold_both_graphs_by_turns():
    graphs = [RingGraph(rook().edge_index, 16), RingGraph(cycle(6).edge_index, 6)]
    made = parts(graphs, Protocol(), torch.Generator().manual_seed(0), torch.device("cpu"))
    assert [part.graphs for part in made] == [16] * 4
    assert torch.equal(made[0].batch.bincount(), torch.tensor([16, 6] * 8))
    assert made[0].plan.degree[:22].tolist() == [6] * 16 + [2] * 6
    assert not torch.equal(made[0].plan.neighbor, made[1].plan.neighbor)
    network = build(ModelConfig(hidden=8, layers=1), Schema("graph", "regression", 4, 1)).eval()
    first, second = outputs(network, made[0])
    assert first.shape == second.shape == (8, 4)
    whole = network(torch.ones(made[0].plan.num_nodes, 1), made[0].plan, made[0].batch)
    torch.testing.assert_close(second[0], whole[1])


def test_norms_take_the_statistics_of_the_batches():
    """In evaluation, rows of the batches then have mean 0 and deviation 1 behind batch normalisation."""
    made = parts(
        [RingGraph(rook().edge_index, 16), RingGraph(cycle(6).edge_index, 6)],
        Protocol(),
        torch.Generator(),
        torch.device("cpu"),
    )
    network = build(ModelConfig(hidden=8, layers=1, structure=1), Schema("graph", "regression", 4, 1))
    paired_comparison.settle(network, made)
    rows: list[torch.Tensor] = []
    network.norms[0].register_forward_hook(lambda module, args, out: rows.append(out))
    for part in made:
        outputs(network, part)
    normalised = torch.cat(rows)
    assert not network.training
    assert normalised.mean(0).abs().max() < 1e-5
    assert (normalised.std(0) - 1).abs().max() < 0.05


def test_trios_tell_apart_what_arrangements_leave_to_the_numbering(root):
    pairs = brec_pairs(BREC(root))
    trios = ModelConfig(hidden=8, layers=1, cell="srn", rnn_layers=1, structure=2, aggregation="trios")
    found = [compare(pair, Protocol(trios, epochs=1)) for pair in pairs]
    assert [outcome.apart for outcome in found] == [True, True, False]
    assert found[1].distance > 1e3 and all(outcome.reliable for outcome in found)


def test_float64_sees_what_float32_rounds_away(root):
    pairs = brec_pairs(BREC(root))
    ppgn = ModelConfig("ppgn", hidden=8, layers=2, init="glorot")
    for pair, apart in ((0, True), (2, False)):
        single, double = (compare(pairs[pair], Protocol(ppgn, epochs=1, precision=p)) for p in ("float32", "float64"))
        assert single.apart == double.apart == apart and single.reliable and double.reliable
        if apart:
            assert double.distance > 1e8 * single.distance
    graph = RingGraph(cycle(6).edge_index, 6)
    part = parts([graph, graph], Protocol(), torch.Generator().manual_seed(0), torch.device("cpu"))[0]
    network = paired_comparison.fresh_network(Protocol(ppgn)).double()
    assert outputs(network, part)[0].dtype == torch.float64


def test_fewer_numberings_where_degrees_are_large():
    made = parts(
        [RingGraph(rook().edge_index, 16)] * 2, Protocol(), torch.Generator().manual_seed(0), torch.device("cpu")
    )
    steps = Reading().steps(made[0].plan.profile)
    assert steps == 16 * 16 * 6 * 8  # graphs, nodes, arrangements, steps of each
    for most, expected in ((steps // 2, 1), (3 * steps, 3), (3 * steps - 1, 2), (100 * steps, 5)):
        protocol = Protocol(ModelConfig(hidden=8, structure=2), numberings=5, most_steps=most)
        assert paired_comparison.fresh_network(protocol, steps).convs[0].numberings == expected


def test_relabelled_is_the_same_graph():
    graph = RingGraph(shrikhande().edge_index, 16, *find_rings(shrikhande().edge_index, 16, 3))
    edges, _, ring_index, ring_size, _ = graph.relabelled(torch.Generator().manual_seed(0))
    dense = torch.zeros(16, 16)
    dense[edges[0], edges[1]] = 1
    squared = dense @ dense
    assert torch.equal(dense, dense.t())
    assert squared[dense.bool()].unique().tolist() == [2]
    assert not torch.equal(edges, shrikhande().edge_index)
    again, sizes = find_rings(edges, 16, 3)
    assert torch.equal(sizes, ring_size)
    assert {*map(frozenset, again.view(-1, 3).tolist())} == {*map(frozenset, ring_index.view(-1, 3).tolist())}


def test_rings_tell_pairs_apart_and_need_no_numberings(root):
    """Triangles of the first pair, chords of the second: without bits for them the rings of both are alike."""
    pairs = brec_pairs(BREC(root))
    small = {"hidden": 8, "layers": 1, "cell": "srn", "rnn_layers": 1, "reads": ["sum", "rings"]}
    for bits, size, expected in (
        (2, 4, [True, True, False]),
        (0, 4, [True, False, False]),
        (2, 3, [True, False, False]),
    ):
        protocol = Protocol(ModelConfig(**small, ring_structure=bits), epochs=1, rings=size)
        found = [compare(pair, protocol) for pair in pairs]
        assert [outcome.apart for outcome in found] == expected
        assert all(outcome.reliable for outcome in found)


def test_smaller_rings_where_there_are_too_many():
    graphs = [RingGraph(rook().edge_index, 16), RingGraph(shrikhande().edge_index, 16)]
    largest = []
    for most in (2**27, 2**21, 2**18):
        found, size = with_rings(graphs, Protocol(rings=6, most_steps=most))
        assert {int(graph.ring_size.max()) for graph in found} == {size}
        largest.append(size)
    assert largest == [6, 5, 4]
    with pytest.raises(ValueError, match="raise --most-steps"):
        with_rings(graphs, Protocol(most_steps=2**10))


def test_a_network_that_cannot_be_made_leaves_nothing(root, tmp_path, capsys):
    for option, message in (("--structure", "0 to 32, got 99"), ("--numberings", "must be at least 1")):
        number = "99" if option == "--structure" else "0"
        out = tmp_path / "out"
        assert main(["lab", "brec", "--data-root", str(root), "--out", str(out), option, number]) == 2
        assert message in capsys.readouterr().err
        assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(root, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["lab", "brec", "--data-root", str(root), "--out", str(out), "--device", "cuda"]) == 2
    assert "--device is cuda, but PyTorch finds no GPU here" in capsys.readouterr().err
    assert not out.exists()


def test_a_run_goes_on_where_it_stopped(root, tmp_path, capsys):
    options = ["--data-root", str(root), "--out", str(tmp_path / "out"), "--epochs", "1", "--layers", "1"]
    options += ["--numberings", "2"]
    command(*options, "--pairs", "0")
    file = tmp_path / "out" / "pairs.jsonl"
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["pair"] == 0
    file.write_text(line + "\n" + line[:20])
    capsys.readouterr()
    command(*options, "--pairs", "0-1")
    printed = capsys.readouterr().out
    assert "1/1  pair 1 (StronglyRegular)" in printed
    first, second = file.read_text().splitlines()
    assert first == line
    assert PairResult(**json.loads(second)).pair == 1
    table = [row.split()[:4] for row in printed.split("\n\n")[1].splitlines()]
    assert table[0] == ["family", "apart", "of", "unreliable"]
    assert [row[0] for row in table[1:]] == ["Basic", "StronglyRegular", "all"]
    assert table[-1][2:] == ["2", "0"]
    assert "| 1 |" in (tmp_path / "out" / "StronglyRegular.md").read_text()
    assert main(["lab", "brec", *options, "--seed", "1"]) == 2
    assert "is of another run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pairs.jsonl", b'{"pair": 0}\n', "pairs.jsonl, line 1: there is no "),
        ("pairs.jsonl", b"\xff\n", "pairs.jsonl, line 1 is not valid JSON"),
        ("protocol.json", b"{}", "protocol.json is of another run"),
        ("protocol.json", b"[]", "protocol.json: expected an object"),
    ],
)
def test_damaged_files_give_one_line(root, tmp_path, capsys, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert main(["lab", "brec", "--data-root", str(root), "--out", str(tmp_path), "--pairs", "0"]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_pairs_side_by_side(root, tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    options = ["--data-root", str(root), "--epochs", "1", "--layers", "1", "--numberings", "2", "--pairs", "0", "2"]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as processes side by side have them: others would make other sums
    command(*options, "--out", str(alone))
    torch.set_num_threads(threads)
    command(*options, "--out", str(together), "--jobs", "2")
    found = []
    for folder in (alone, together):
        lines = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
        found.append(sorted((line["pair"], line["distance"], line["reliability"]) for line in lines))
    assert found[0] == found[1]


def test_all_pairs_of_given_graphs(tmp_path, capsys):
    out = tmp_path / "out"
    (tmp_path / "two.g6").write_text("".join(f"{graph6(graph)}\n" for graph in (rook(), cycle(6))))
    options = [str(tmp_path / "two.g6"), "shrikhande", "rook", "--epochs", "1", "--out", str(out)]
    options += ["--reads", "sum", "rings", "--ring-size", "4", "--layers", "1", "--hidden", "8", "--cell", "srn"]
    command(*options)
    lines = [json.loads(line) for line in (out / "pairs.jsonl").read_text().splitlines()]
    names = ["#0, #1", "#0, shrikhande", "#0, rook", "#1, shrikhande", "#1, rook"]
    assert [line["names"] for line in lines] == [*names, "shrikhande, rook"]
    assert [PairResult(**line).apart for line in lines] == [True, True, False, True, True, True]
    assert all(PairResult(**line).reliable for line in lines)
    printed = capsys.readouterr().out
    assert "Not told apart: #0, rook\n" in printed
    assert "shrikhande, rook | yes" in (out / "given.md").read_text()
    for wrong, message in [
        (["rook"], "give two graphs or more, or none for the pairs of BREC; got 1"),
        (["rook", "squares"], "has nodes of different features"),
        (["rook", "rook", "--family", "CFI"], "--family names families of BREC"),
        (["cycle:6", *options[2:]], "is of another run"),
    ]:
        assert main(["lab", "brec", "--out", str(tmp_path / "other"), *wrong]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_choosing_pairs():
    families = ["Basic"] * 30 + ["CFI"] * 30
    assert brec.choose(None, None, True, families) == [0, 10, 20, 30, 40, 50]
    assert brec.choose(["3", "28-31"], None, False, families) == [3, 28, 29, 30, 31]
    assert brec.choose(["28-31"], ["CFI"], False, families) == [30, 31]
    for pairs, names, message in [
        (["3-1"], None, "from the smaller number to the larger"),
        (["60"], None, "0 to 59, got 60"),
        (["a-b"], None, "numbers and ranges"),
        (None, ["cfi"], "the families are Basic"),
    ]:
        with pytest.raises(ValueError, match=message):
            brec.choose(pairs, names, False, families)


def test_help_names_defaults_of_options_that_take_a_value(capsys):
    with pytest.raises(SystemExit):
        main(["lab", "brec", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "seed of labels and weights (default: 0) " in said
    assert "only every tenth pair (40 of BREC's 400) --jobs" in said
    assert "(default: brec/MODEL-…) --data-root" in said
