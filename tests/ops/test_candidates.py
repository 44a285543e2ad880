"""The candidates for the linear cell: joined arcs against the definition."""

import pytest
import torch
from test_group_recurrence import PARALLEL, assert_matches_reference, degrees_for
from test_linear import FRAMES, MANY

from pggnn.cells import CELLS
from pggnn.orderings import STRUCTURED, Reading
from pggnn.testing import READINGS

CANDIDATES = [name for name, cell in CELLS.items() if cell.affine is not None]


@pytest.mark.parametrize("cell", CANDIDATES)
@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_readings(reading, cell):
    assert_matches_reference(reading, cell, 1, PARALLEL, degrees=degrees_for(reading))


@pytest.mark.parametrize("cell", CANDIDATES)
@pytest.mark.parametrize("dtype", [torch.double, torch.float])
@pytest.mark.parametrize("frame", FRAMES)
def test_every_degree(frame, dtype, cell):
    assert_matches_reference(Reading(frame=frame), cell, 1, PARALLEL, dtype, MANY[:24], hidden=3)


@pytest.mark.parametrize("cell", CANDIDATES)
@pytest.mark.parametrize("reading", [one for one in READINGS if one.frame in STRUCTURED and one.limit != 1], ids=str)
def test_structure(reading, cell):
    assert_matches_reference(reading, cell, 1, PARALLEL, degrees=degrees_for(reading), structure=2)
