"""What pages say of a run, and how curves and differences look."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pggnn.report.charts import DASHES, PALETTE, Series, draw_curves, draw_figures
from pggnn.report.comparison import tone
from pggnn.report.protocols import describe_protocol
from pggnn.train.config import Config, DataConfig, ModelConfig, ProtocolConfig


@pytest.mark.parametrize(("kind", "whole"), [("folds", "10-fold cross-val"), ("nested", "Nested 10-fold cross-val")])
def test_one_fold_is_not_called_a_cross_validation(kind, whole):
    config = Config(DataConfig("MUTAG"), protocol=ProtocolConfig(kind))
    assert describe_protocol(config, kind).startswith(whole)
    config = replace(config, protocol=replace(config.protocol, only=(3,)))
    assert describe_protocol(config, kind).startswith("Fold 3 of 10 alone, not the whole ")


def test_what_a_training_on_nodes_saw_is_said():
    config = Config(
        DataConfig("graph.npz", neighbours=(8,)), ModelConfig(layers=2), protocol=ProtocolConfig(inductive=True)
    )
    said = describe_protocol(config, "splits")
    assert "saw the training nodes and the edges between them alone" in said and "at most 8 × 8 neighbours" in said


def test_only_differences_beyond_the_deviation_have_a_colour():
    assert [tone(difference, 0.5, False) for difference in (0.6, 0.5, -0.5, -0.6)] == ["better", "", "", "worse"]
    assert tone(-0.6, 0.5, True) == "better" and tone(5.0, 0, True) == "", "one training has no deviation"


def test_what_is_nearly_equal_is_drawn_as_equal():
    drawn = draw_figures([("mean", 2.06101, None, False), ("mine", 2.06108, None, True)], "RMSE")
    shown = re.findall(r">\s*(\d\.\d+)\s*<", drawn)
    assert len(shown) > 1 and max(map(len, shown)) <= 5 and "+2.06" not in drawn, shown


def test_eleven_curves_have_eleven_looks():
    looks = {(PALETTE[i % len(PALETTE)], DASHES[i // len(PALETTE)]) for i in range(11)}
    assert len(looks) == 11
    series = [Series(f"model {i}", PALETTE[i % 8], [np.arange(5.0) + i], dash=i // 8) for i in range(11)]
    drawn = draw_curves(series, "looks")
    assert drawn.count("stroke-dasharray") >= 6, "three curves, and their names"
