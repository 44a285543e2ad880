"""Linear cells whose inputs come from two members that are read one after the other."""

import pytest
import torch
from test_group_recurrence import PARALLEL, assert_matches_reference, degrees_for
from test_linear import FRAMES, MANY

from pggnn import PGConv, Plan
from pggnn.cells import CELLS
from pggnn.ops.linear.arcs import takes_linear_time
from pggnn.orderings import Reading
from pggnn.testing import READINGS, check_aggregator, random_graph

NAMES = [name for name, cell in CELLS.items() if cell.has_pairs]


@pytest.mark.parametrize("dtype", [torch.double, torch.float])
@pytest.mark.parametrize("cell", NAMES)
@pytest.mark.parametrize("frame", FRAMES)
def test_every_degree(frame, cell, dtype):
    degrees = MANY if cell == NAMES[0] and frame == "merged" else MANY[:24]
    assert_matches_reference(Reading(frame=frame), cell, 1, PARALLEL, dtype, degrees, hidden=3)


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_readings(reading):
    for structure in (0, 1) if reading.frame in FRAMES else (0,):
        assert_matches_reference(reading, NAMES[0], 1, PARALLEL, degrees=degrees_for(reading), structure=structure)


@pytest.mark.parametrize("degrees", [(), (0,), (1,), (2,), (3,), (0, 1, 1), (5,) * 3])
def test_odd_graphs(degrees):
    for frame in FRAMES:
        assert_matches_reference(Reading(frame=frame), NAMES[0], 1, PARALLEL, degrees=degrees)


def test_derivatives():
    degrees = (0, 1, 2, 3, 4, 7)
    plan, conv = Plan.build(random_graph(degrees), len(degrees)), PGConv(3, 2, NAMES[0]).double()
    x = torch.randn(len(degrees), 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: conv(x, plan), x)


def test_properties_of_an_aggregator():
    check_aggregator(PGConv(4, 8, NAMES[0]), in_channels=4)


def test_what_takes_linear_time():
    assert takes_linear_time(Reading(), NAMES[0]) and takes_linear_time(Reading(frame="open"), NAMES[0])
    assert not takes_linear_time(Reading("dihedral"), NAMES[0]) and not takes_linear_time(Reading(), NAMES[0], 1)
