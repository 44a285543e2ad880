import pytest


@pytest.fixture(scope="session", autouse=True)
def swiftly(swift_interpreter):
    """Most tests here run kernels."""
