import json
import os
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from pggnn import PGGNN
from pggnn.baselines import GIN
from pggnn.train.engine import checkpoint
from pggnn.train.engine.checkpoint import BadCheckpoint, Checkpoint, load_weights


def trained(hidden=4):
    """A network after two steps, and its optimizer."""
    model = PGGNN(3, hidden, 2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01, fused=True)
    for _ in range(2):
        model(torch.rand(5, 3), torch.tensor([[0, 1, 2], [1, 2, 0]])).sum().backward()
        optimizer.step()
    return model, optimizer


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A checkpoint as bytes, with a path to write damaged ones to."""
    model, optimizer = trained()
    path = tmp_path_factory.mktemp("checkpoint") / "last.safetensors"
    Checkpoint(model.state_dict(), {"epoch": 3}, optimizer.state_dict()).save(path)
    return path.read_bytes(), path


def test_everything_comes_back(tmp_path):
    model, optimizer = trained()
    state = {"epoch": 7, "val": 0.1 + 0.2, "test": None, "schedule": {"best": float("inf"), "_last_lr": [1e-3]}}
    path = tmp_path / "new" / "last.safetensors"
    Checkpoint(model.state_dict(), state, optimizer.state_dict()).save(path)
    found = Checkpoint.load(path)
    assert found.state == state
    other, others = trained()
    load_weights(other, found.weights, path)
    others.load_state_dict(found.optimizer)
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    for number, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            assert torch.equal(value, others.state_dict()["state"][number][name]), (number, name)
    assert others.param_groups[0]["lr"] == 0.01
    assert os.listdir(path.parent) == ["last.safetensors"]


def test_a_full_disk_says_what_is_left(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    model, _ = trained()
    path = tmp_path / "last.safetensors"
    for ending in (
        r"\(No space left on device\)$",
        r"\(No space left on device\); the checkpoint before it is intact$",
    ):
        with (
            monkeypatch.context() as patch,
            pytest.raises(OSError, match=rf"last.safetensors could not be written {ending}"),
        ):
            patch.setattr(os, "fsync", full)
            Checkpoint(model.state_dict(), {"epoch": 1}).save(path)
        Checkpoint(model.state_dict(), {"epoch": 1}).save(path)


def test_weights_alone_will_do(tmp_path):
    model, _ = trained()
    Checkpoint(model.state_dict(), {"epoch": 1}).save(tmp_path / "best.safetensors")
    assert Checkpoint.load(tmp_path / "best.safetensors").optimizer == {}


def test_any_floats_come_back(tmp_path):
    weights = {str(dtype): torch.rand(3, 2).to(dtype) for dtype in (torch.half, torch.bfloat16, torch.double)}
    weights |= {"scalar": torch.tensor(3), "empty": torch.empty(0, 4), "strided": torch.rand(4, 3).t()}
    Checkpoint(weights, {}).save(tmp_path / "a.safetensors")
    found = Checkpoint.load(tmp_path / "a.safetensors").weights
    for name, value in weights.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


def test_truncated_at_any_length_is_refused(written):
    whole, path = written
    lengths = {*range(0, 40), *range(40, len(whole), 211), len(whole) - 1}
    for length in sorted(lengths):
        path.write_bytes(whole[:length])
        with pytest.raises(BadCheckpoint, match=r"last\.safetensors"):
            Checkpoint.load(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(BadCheckpoint):
        Checkpoint.load(path)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_wherever_it_is(written, place, bit):
    whole, path = written
    damaged = bytearray(whole)
    damaged[int(place * len(whole))] ^= 1 << bit
    path.write_bytes(damaged)
    try:
        found = Checkpoint.load(path)
    except BadCheckpoint as error:
        assert len(str(error).splitlines()) == 1
    else:  # white space in the header, which means nothing
        path.write_bytes(whole)
        assert found.state == Checkpoint.load(path).state


def test_other_programs_files_are_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.rand(3)}, path)
    with pytest.raises(BadCheckpoint, match="was not written by pggnn"):
        Checkpoint.load(path)
    for content in (b"", b"\x80\x04pickle", b"PK\x03\x04zip", json.dumps({"a": 1}).encode()):
        path.write_bytes(content)
        with pytest.raises(BadCheckpoint, match="truncated or no checkpoint"):
            Checkpoint.load(path)
    with pytest.raises(BadCheckpoint, match="there is no checkpoint at"):
        Checkpoint.load(tmp_path)
    save_file({"weight": torch.rand(3)}, path, {"pggnn": "not JSON", "checksum": "0"})
    with pytest.raises(BadCheckpoint, match="damaged"):
        Checkpoint.load(path)


def test_other_formats_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    Checkpoint({"a": torch.rand(2)}, {}).save(tmp_path / "new.safetensors")
    monkeypatch.undo()
    with pytest.raises(BadCheckpoint, match="has format 2, this version of pggnn reads 1"):
        Checkpoint.load(tmp_path / "new.safetensors")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (PGGNN(3, 5, 2, 2), r"has shape \[16\] there and \[20\] here"),
        (PGGNN(3, 4, 2, 3), r"has shape None there and \[16\] here"),
        (PGGNN(3, 4, 2, 1), r"has shape \[16\] there and None here"),
        (GIN(3, 4, 2, 2), "use the model options that the run was made with"),
    ],
    ids=["wider", "deeper", "shallower", "gin"],
)
def test_another_network_is_refused_and_left_as_it_was(other, message, written):
    whole, path = written
    path.write_bytes(whole)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(BadCheckpoint, match=message):
        load_weights(other, Checkpoint.load(path).weights, path)
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())


def test_the_one_before_is_kept(tmp_path):
    last, previous = tmp_path / "last.safetensors", tmp_path / "previous.safetensors"
    for epoch in range(1, 4):
        Checkpoint({"a": torch.tensor([epoch])}, {"epoch": epoch}).save(last, previous)
    assert Checkpoint.load(last).state["epoch"] == 3
    assert Checkpoint.load(previous).state["epoch"] == 2
    assert last.stat().st_ino != previous.stat().st_ino


@pytest.mark.parametrize("moment", ["fsync", "link", "replace", "replace again"])
def test_a_failure_at_any_moment_leaves_whole_files(moment, tmp_path, monkeypatch):
    last, previous = tmp_path / "last.safetensors", tmp_path / "previous.safetensors"
    for epoch in (1, 2):
        Checkpoint({"a": torch.tensor([epoch])}, {"epoch": epoch}).save(last, previous)
    calls, name = [], moment.split()[0]
    real = getattr(os, name)

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) > moment.count("again"):
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(KeyboardInterrupt):
        Checkpoint({"a": torch.tensor([3])}, {"epoch": 3}).save(last, previous)
    monkeypatch.undo()
    assert Checkpoint.load(last).state["epoch"] == 2
    assert Checkpoint.load(previous).state["epoch"] == (2 if moment == "replace again" else 1)
    assert sorted(os.listdir(tmp_path)) == ["last.safetensors", "previous.safetensors"]
    Checkpoint({"a": torch.tensor([3])}, {"epoch": 3}).save(last, previous)
    assert [Checkpoint.load(path).state["epoch"] for path in (last, previous)] == [3, 2]


def test_links_are_not_needed(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    last, previous = tmp_path / "last.safetensors", tmp_path / "previous.safetensors"
    for epoch in (1, 2):
        Checkpoint({"a": torch.tensor([epoch])}, {"epoch": epoch}).save(last, previous)
    assert Checkpoint.load(previous).state["epoch"] == 1


def test_the_header_is_plain_json(written):
    whole, _ = written
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    assert json.loads(header["__metadata__"]["pggnn"])["state"] == {"epoch": 3}
