"""How sequences are cut into tiles, and who shares them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pggnn import PGGNN, Plan
from pggnn.testing import READINGS, random_graph

pytest.importorskip("triton")

from pggnn.ops.fused.tiles import Extent, Tiles

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@settings(max_examples=100, deadline=None)
@given(
    profile=st.dictionaries(st.integers(0, 40), st.integers(1, 100), min_size=1, max_size=8),
    reading=st.sampled_from([reading for reading in READINGS if reading.group != "all"]),
    most_rows=st.integers(32, 60_000),
    wave=st.integers(1, 300),
    pauses=st.integers(1, 4),
)
def test_chunks_cover_each_tile_once(profile, reading, most_rows, wave, pauses):
    block = 16
    if reading.group == "threes":  # n³ sequences
        profile = {n % 8: nodes for n, nodes in profile.items()}
    extent = Extent(torch.tensor(sorted(profile.items(), reverse=True)), reading, block)
    lengths = [reading.length(n) for n in sorted(profile, reverse=True) for _ in range(profile[n] * reading.count(n))]
    assert extent.sequences == len(lengths)
    assert extent.rows == sum((lengths[first] + 1) * block for first in range(0, len(lengths), block))
    tile = 0
    chunks = extent.chunks(most_rows, wave, pauses=pauses)
    assert extent.chunks(most_rows, wave, sum(chunk.tiles for chunk in chunks[:1]), pauses) == chunks[1:]
    for chunk in chunks:
        assert (chunk.first_tile, chunk.first_sequence) == (tile, tile * block)
        assert chunk.longest == lengths[chunk.first_sequence]
        assert chunk.rows <= most_rows
        assert chunk.tiles > 0
        assert chunk.end(chunk.begins[-1]) == chunk.longest
        steps = lengths[tile * block :: block][: chunk.tiles]
        for begin in chunk.begins:
            kept = [min(max(0, length - begin), chunk.end(begin) - begin) + 1 for length in steps]
            assert sum(kept) * block <= chunk.rows
        tile += chunk.tiles
        assert chunk.end_sequence == min(tile * block, len(lengths))
    assert tile == extent.tiles


def test_layers_share_a_plans_tiles():
    plan = Plan.build(random_graph((0, 1, 2, 3)), 4).to(DEVICE)
    PGGNN(3, 5, 1, num_layers=2, rnn_layers=1, backend="triton").to(DEVICE)(torch.randn(4, 3, device=DEVICE), plan)
    assert len(plan.known) == 1
    assert "_known" not in plan.__getstate__()


def test_compiled_layers_share_tiles(monkeypatch):
    """…of the graph at hand: of a new one with the same tensors, changed in place, they are laid out anew."""
    torch._dynamo.reset()
    built = []
    build = Tiles.build.__func__
    monkeypatch.setattr(Tiles, "build", classmethod(lambda *args: (built.append(args[1]), build(*args))[1]))
    network = PGGNN(3, 5, 1, num_layers=3, rnn_layers=1, backend="triton").to(DEVICE)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    plans = [Plan.build(random_graph(degrees, 1), 4).to(DEVICE) for degrees in ((0, 1, 4, 2), (4, 2, 0, 1))]
    x = torch.randn(4, 3, device=DEVICE)
    for plan in plans:
        compiled(x, plan).sum().backward()
    assert len(built) == 2
    for name in ("neighbor", "center", "edge", "start", "degree", "order", "profile"):
        getattr(plans[0], name).copy_(getattr(plans[1], name))
    torch.testing.assert_close(compiled(x, plans[0]), network(x, plans[1]))
