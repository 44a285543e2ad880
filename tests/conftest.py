import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # the fused kernels then run on the CPU
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # deterministic matrix products


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Every test runs with deterministic algorithms, which also fills fresh memory with NaN."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    assert torch.empty(1).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
