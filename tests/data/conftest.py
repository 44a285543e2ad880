import json

import pytest

from pggnn.data.sets.tu import TU

pytest.register_assert_rewrite("numbered_graphs")


@pytest.fixture(scope="session")
def collab(data_root, cache):
    """COLLAB, parsed once for all tests."""
    return TU("COLLAB", data_root)


@pytest.fixture
def write(tmp_path):
    """Writes a file of graphs, given as objects or as the bytes of a line."""

    def write(*lines):
        path = tmp_path / "graphs.jsonl"
        path.write_bytes(b"\n".join(x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines))
        return path

    return write
