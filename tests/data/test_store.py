import io
import os
import signal
import subprocess
import sys
import time
import traceback
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from pggnn.data.cache import cache_home, cached, data_root, digest, find
from pggnn.data.formats import archives
from pggnn.data.formats.archives import read_npz, read_zip
from pggnn.data.sets.tu import TU

GIN = "2\n2 0\n0 1 1\n1 1 0\n1 1\n0 0\n"
ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([3], np.uint8), "c": np.array(7), "d": np.empty((0, 2))}


def raw_file(folder, content="raw"):
    path = folder / "family" / "set.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[key], other[key]) and one[key].dtype == other[key].dtype for key in one
    )


class Builder:
    def __init__(self, arrays=ARRAYS):
        self.calls, self.arrays = 0, arrays

    def __call__(self):
        self.calls += 1
        return self.arrays


def test_a_cache_is_built_once_and_follows_content_and_version(tmp_path):
    raw, build = raw_file(tmp_path), Builder()
    for _ in range(3):
        assert same(cached(raw, "1", build), ARRAYS)
    assert build.calls == 1
    cached(raw, "2", build)
    raw.write_text("other")
    cached(raw, "1", build)
    assert build.calls == 3
    raw.write_text("raw")
    cached(raw, "1", build)
    assert build.calls == 3, "the first content's cache is still there"
    assert len(list((raw.parent / "processed").iterdir())) == 3


def test_a_read_only_root_is_left_alone(tmp_path, cache):
    raw = raw_file(tmp_path)
    raw.parent.chmod(0o555)
    try:
        assert same(cached(raw, "read-only", Builder()), ARRAYS)
        assert [file.name for file in raw.parent.iterdir()] == ["set.txt"]
        again = Builder()
        cached(raw, "read-only", again)
        assert again.calls == 0
        assert list((cache / "family").glob("set-*.npz"))
    finally:
        raw.parent.chmod(0o755)


def test_nowhere_to_write_is_a_warning_only(tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "a file"))
    raw = raw_file(tmp_path)
    raw.parent.chmod(0o555)
    try:
        with pytest.warns(UserWarning, match="no cache is kept in .*a file.*set PGGNN_CACHE"):
            assert same(cached(raw, "1", Builder()), ARRAYS)
    finally:
        raw.parent.chmod(0o755)


def test_a_damaged_cache_is_built_again_whatever_byte_is_hit(tmp_path):
    raw, build = raw_file(tmp_path), Builder()
    cached(raw, "1", build)
    (file,) = (raw.parent / "processed").iterdir()
    good = file.read_bytes()
    random = np.random.RandomState(0)
    for trial in range(300):
        bad = bytearray(good)
        if trial % 3 == 0:
            del bad[random.randint(len(bad)) :]
        else:
            bad[random.randint(len(bad))] ^= 1 << random.randint(8)
        file.write_bytes(bad)
        assert same(cached(raw, "1", build), ARRAYS)
    assert build.calls > 200, "most damage should be noticed; the rest is in fields of the zip that nobody reads"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_processes_at_once_both_get_the_set(tmp_path):
    (tmp_path / "tu").mkdir()
    with zipfile.ZipFile(tmp_path / "tu" / "SET.zip", "w") as archive:
        archive.writestr("SET.txt", GIN)

    def read(place):
        (tmp_path / f"ready{place}").touch()
        while len(list(tmp_path.glob("ready*"))) < 2:
            time.sleep(0.001)
        found = TU("SET", tmp_path)
        (tmp_path / f"read{place}").write_text(f"{len(found)} {found[0].x.tolist()} {found[1].edge_index.tolist()}")

    children = []
    for place in range(2):
        children.append(os.fork())
        if children[-1] == 0:
            code = 1
            try:
                read(place)
                code = 0
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
            finally:
                os._exit(code)
    for place, child in enumerate(children):
        assert os.waitpid(child, 0)[1] == 0
        assert (tmp_path / f"read{place}").read_text() == "2 [[1.0, 0.0], [0.0, 1.0]] [[], []]"
    assert len(list((tmp_path / "tu" / "processed").iterdir())) == 1, "one cache, nothing unfinished beside it"


def test_a_process_killed_while_caching_leaves_nothing_broken(tmp_path):
    raw = raw_file(tmp_path)
    script = (
        "import os, pathlib, signal, sys, numpy as np; from pggnn.data.cache import cached; write = np.savez\n"
        "def write_half(file, a, **others): write(file, a=a); os.kill(os.getpid(), signal.SIGKILL)\n"
        "np.savez = write_half; cached(pathlib.Path(sys.argv[1]), '1', lambda: {'a': np.zeros(9), 'b': np.zeros(9)})"
    )
    assert subprocess.run([sys.executable, "-c", script, str(raw)]).returncode == -signal.SIGKILL
    folder = raw.parent / "processed"
    (left,) = folder.iterdir()
    assert left.name.startswith("."), "no half-written cache under its final name"
    build = Builder()
    assert same(cached(raw, "1", build), ARRAYS)
    os.utime(left, (0, 0))
    cached(raw, "2", build)
    assert not left.exists(), "what was left long ago is swept"
    assert len(list(folder.iterdir())) == 2


def test_roots_and_cache_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("PGGNN_DATA", "/from/environment")
    assert (data_root(), data_root("/given")) == (Path("/from/environment"), Path("/given"))
    monkeypatch.delenv("PGGNN_DATA")
    assert data_root() == Path("data")
    monkeypatch.delenv("PGGNN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_home() == Path("/xdg/pggnn")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_home() == Path("/home/me/.cache/pggnn")
    with pytest.raises(FileNotFoundError, match=r"tu/X.zip is not there; put the file there, or name the folder"):
        find("tu/X.zip", tmp_path)


def test_a_folders_digest_follows_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    first = digest(tmp_path)
    (tmp_path / "a").write_text("2")
    second = digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, second, digest(tmp_path)}) == 3


def test_no_pickle_is_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    np.savez(tmp_path / "a.npz", a=np.array([Trap()], dtype=object))
    with pytest.raises(ValueError, match=r"array 'a' cannot be read \(it holds object, expected numbers or strings\)"):
        read_npz(tmp_path / "a.npz")
    assert not (tmp_path / "sprung").exists()


def test_headers_that_promise_more_than_there_is_allocate_nothing(tmp_path):
    for shape in ((10**15,), (2**40, 2**40), (-1,), (3,)):
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("a.npy", stream.getvalue() + bytes(16))
        with pytest.raises(ValueError, match=r"array 'a' cannot be read \(its header says .* but 16 bytes follow"):
            read_npz(tmp_path / "a.npz")


def test_bombs_and_path_tricks_in_archives(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SET.txt", bytes(2**24))
    assert path.stat().st_size < 2**15
    monkeypatch.setattr(archives, "MOST_BYTES", 2**20)
    with pytest.raises(ValueError, match=r"a.zip: 16,777,216 bytes to read, the limit is 1,048,576"):
        read_zip(path, ".txt")
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../../evil.txt", "/etc/evil.txt", "C:\\evil.txt"):
            archive.writestr(name, "1")
    before = sorted(tmp_path.rglob("*"))
    assert set(read_zip(path, ".txt")) == {"../../evil.txt", "/etc/evil.txt", "C:\\evil.txt"}, "names are only keys"
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.warns(UserWarning), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "1")
        archive.writestr("a.txt", "2")
    with pytest.raises(ValueError, match="two members of the archive have the same name"):
        read_zip(path, ".txt")


def test_pyg_habits_of_folders(data_root):
    dataset = TU("MUTAG", data_root)
    assert Path(dataset.raw_paths[0]) == data_root / "tu" / "MUTAG.zip"
    assert Path(dataset.processed_dir) == data_root / "tu" / "processed"
    assert isinstance(dataset[torch.tensor([1, 2])], TU)
