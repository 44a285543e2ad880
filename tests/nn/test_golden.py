"""Outputs of layers with stored weights: a change of the code must not change what a trained layer gives."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from pggnn import PGConv

FILE = Path(__file__).with_name("golden.safetensors")
"""Made by commit 4a9b4e1. Each case has the arguments of a layer, its weights, an input and its output in float64."""
with safe_open(FILE, framework="pt") as stored:
    CASES = json.loads(stored.metadata()["cases"])
    TENSORS = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda case: str(CASES[case]))
def test_outputs_with_stored_weights(case, backend):
    of = {name.partition(".")[2]: value for name, value in TENSORS.items() if name.startswith(f"{case}.")}
    conv = PGConv(3, 4, **CASES[case], backend=backend).double()
    conv.load_state_dict({name.removeprefix("weights."): v for name, v in of.items() if name.startswith("weights.")})
    torch.testing.assert_close(conv(of["x"], of["edge_index"], of.get("edge_attr")), of["out"], rtol=1e-12, atol=1e-13)
