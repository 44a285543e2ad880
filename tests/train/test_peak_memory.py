import json
import platform
import subprocess
import sys

import pytest
import torch

from pggnn.train.engine.memory import peak_memory
from pggnn.train.runs.folder import describe_machine

SCRIPT = """
import json, subprocess, sys
import torch
from pggnn.train.engine.memory import peak_memory

found = [peak_memory()["ram"]]
if sys.argv[1:]:
    held = torch.ones(2**27)  # 512 MiB
    found.append(peak_memory()["ram"])
    found += json.loads(subprocess.check_output([sys.executable, "-c", sys.argv[1]]))
    del held
    found.append(peak_memory()["ram"])
print(json.dumps(found))
"""


def test_a_peak_is_of_this_process_and_not_of_the_one_that_started_it():
    begin, most, child, end = json.loads(subprocess.check_output([sys.executable, "-c", SCRIPT, SCRIPT]))
    assert 50 < begin < most - 500
    assert child < most - 400
    assert end > most - 50, "a peak stays"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_of_a_gpu_what_is_reserved_and_what_is_used():
    torch.cuda.reset_peak_memory_stats()
    held = [torch.ones(2**24, device="cuda") for _ in range(2)]  # 64 MiB each
    del held
    found = peak_memory()
    assert 128 <= found["gpu_used"] <= found["gpu"]


def test_a_gpu_is_on_record_where_the_run_has_it(small, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    found = [describe_machine(small(run_device=device))["gpu"] for device in ("cpu", "auto", "cuda")]
    assert found == [None, "a GPU", "a GPU"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_a_training_keeps_freed_memory():
    """With glibc's defaults large tensors are mapped from the system, each time anew."""
    script = """
import ctypes, torch
from pggnn.train.engine.memory import keep_freed_memory
libc = ctypes.CDLL(None)
fields = [(f"n{i}", ctypes.c_size_t) for i in range(10)]
libc.mallinfo2.restype = type("Info", (ctypes.Structure,), {"_fields_": fields})
def mapped():
    before = libc.mallinfo2().n4
    held = torch.ones(2**24)
    return libc.mallinfo2().n4 - before
print(mapped())
keep_freed_memory()
print(mapped())
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    before, after = map(int, said.split())
    assert before >= 2**26 and after == 0
