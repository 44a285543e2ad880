import json
import os
import time
from pathlib import Path

import pytest

from pggnn.data.tu import TU


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Tests keep their caches to themselves."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGGNN_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def data_root():
    """The folder of the real data sets; tests that need them are skipped where there is none."""
    root = Path(os.environ.get("PGGNN_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (root / "tu" / "MUTAG.zip").exists():
        pytest.skip(f"the real data sets are not at {root}; set PGGNN_DATA to their folder")
    return root.resolve()


@pytest.fixture(scope="session")
def collab(data_root, cache):
    """COLLAB, and the seconds it took to parse and cache it."""
    begin = time.perf_counter()
    return TU("COLLAB", data_root), time.perf_counter() - begin


@pytest.fixture
def write(tmp_path):
    """Writes a file of graphs, given as objects or as the bytes of a line."""

    def write(*lines):
        path = tmp_path / "graphs.jsonl"
        path.write_bytes(b"\n".join(x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines))
        return path

    return write
