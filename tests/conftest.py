import pytest
import torch


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Every test runs with deterministic algorithms, which also fills fresh memory with NaN."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    assert torch.empty(1).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
