import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

from pggnn.report.charts import Series, draw_answers, draw_curves, draw_figures
from pggnn.report.figures import BLUE
from pggnn.report.predictions import BITS, FILE, Predictions, find
from pggnn.report.protocols import describe_protocol, guess_kind
from pggnn.train.config import Config, DataConfig, ModelConfig, ProtocolConfig, RunConfig
from pggnn.train.options import parse
from pggnn.train.packed import shortened
from pggnn.train.runs.stored import Run, read_runs


def arguments(command):
    """What a shell makes of the command."""
    words = subprocess.check_output(["sh", "-c", f"printf '%s\\0' {command}"], text=True).split("\0")
    assert words[:2] == ["pggnn", "train"]
    return words[2:-1]


@pytest.mark.parametrize("name", ["er", "folds"])
def test_the_command_makes_the_same_run(trained, name):
    run = Run.read(trained[name])
    assert parse([*arguments(run.command), "--run.out", str(trained[name])])[0] == run.config


def test_the_command_quotes_what_it_must(trained):
    config = Config(
        DataConfig("my graphs; rm -rf.jsonl", options={"a": "it's"}), ModelConfig(orderings=3, max_degree=7),
        protocol=ProtocolConfig(seeds=(4, 2)), run=RunConfig(precision="64", deterministic=False),
    )  # fmt: skip
    run = replace(Run.read(trained["er"]), config=config)
    assert parse(arguments(run.command))[0] == config


def test_runs_of_one_name_are_told_apart(trained, tmp_path):
    folders = [shutil.copytree(trained["er"], tmp_path / part / "er") for part in ("group", "single")]
    assert [run.name for run in read_runs([*folders, trained["folds"]])] == ["group/er", "single/er", "own <b>"]


def test_figures_of_a_finished_run_are_its_summary(trained):
    for name in ("er", "folds"):
        stored = json.loads((trained[name] / "summary.json").read_text())
        figures = Run.read(trained[name]).figures
        assert (figures.mean, figures.std, figures.epochs) == (stored["mean"], stored["std"], stored["epochs"])


def test_memory_is_the_most_of_the_gpu_or_else_of_ram(copied):
    folder = copied("er")
    paths = [folder / f"seed{seed}" / "result.json" for seed in (0, 1)]
    results = [json.loads(path.read_text()) for path in paths]
    assert all(50 < result["memory"]["ram"] < 100_000 and result["memory"]["gpu"] == 0 for result in results)
    for peaks, said in (([(900, 0), (1234.4, 0)], "1,234 (RAM)"), ([(900, 80), (1234, 77)], "80 (GPU)")):
        for path, result, (ram, gpu) in zip(paths, results, peaks, strict=True):
            path.write_text(json.dumps(result | {"memory": {"ram": ram, "gpu": gpu}}))
        assert Run.read(folder).memory == said
    for path, result in zip(paths, results, strict=True):
        del result["memory"]  # as in runs of earlier versions
        path.write_text(json.dumps(result))
    assert Run.read(folder).memory == ""


def test_figures_so_far(copied):
    folder = copied("er")
    (folder / "seed1" / "result.json").unlink()
    run = Run.read(folder)
    ended = json.loads((folder / "seed0" / "result.json").read_text())["test"]
    last = [record["test"] for record in map(json.loads, (folder / "seed1" / "log.jsonl").open()) if "test" in record]
    assert not run.complete
    assert run.figures.each == [ended, last[-1]]


def test_a_summary_alone_is_enough_for_the_figure(copied):
    folder = copied("folds")
    shutil.rmtree(folder / "seed0")
    assert Run.read(folder).figures.mean == json.loads((folder / "summary.json").read_text())["mean"]


def test_damaged_files_are_named(copied):
    folder = copied("er")
    (folder / "seed0" / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"seed0/result.json is not valid JSON"):
        Run.read(folder)


def test_predictions_are_made_anew_when_they_are_out_of_date(copied):
    folder = copied("er")
    made, reason = find(Run.read(folder))
    assert reason == "" and made.kind == "splits" and len(made.true) == 400
    replace(made, epochs=(1000, 1000)).save(folder / FILE)
    other = f"{FILE} belongs to other epochs or trainings of this run"
    assert find(Run.read(folder), compute=False) == (None, other)
    assert find(Run.read(folder))[0].epochs == made.epochs == Predictions.load(folder / FILE).epochs
    replace(made, trainings=("seed0", "seed2")).save(folder / FILE)
    assert find(Run.read(folder), compute=False) == (None, other)
    replace(made, trainings=()).save(folder / FILE)  # a file that does not say
    assert find(Run.read(folder), compute=False)[1] == ""
    (folder / FILE).write_bytes(b"PK no archive")
    assert "damaged" in find(Run.read(folder), compute=False)[1]
    assert find(Run.read(folder))[0] is not None


def test_a_page_needs_no_room_on_a_gpu(copied, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("pggnn.train.runs.predict.Trained.answers", full)
    folder = copied("er")
    (folder / FILE).unlink(missing_ok=True)
    found, reason = find(Run.read(folder))
    assert found is None and reason.startswith("the GPU has too little memory")


def test_predictions_keep_three_digits_of_any_size():
    values = np.float32([0, -0.0, 1e-30, 3.14159265, -123456.0, 3e38, np.inf, np.nan])
    np.testing.assert_allclose(shortened(values, BITS), values, rtol=2.0**-12)


def test_protocols_in_words():
    config = Config(DataConfig("ZINC"), protocol=ProtocolConfig(report="last"))
    assert describe_protocol(config, "splits") == "The data set's own splits. Test after the last epoch."
    assert "80 %" in describe_protocol(config, "random")
    assert "all molecules of a scaffold in one part" in describe_protocol(config, "scaffold")
    assert "no choice has seen" in describe_protocol(config, "nested")
    assert describe_protocol(config, "auto").startswith("The own splits of the graphs, or random ones")


def test_the_protocol_of_a_known_data_set_needs_no_data(trained):
    run = Run.read(trained["er"])
    for data, kind in (("ZINC", "splits"), ("imdb-b", "random"), ("mine.jsonl", "auto")):
        assert guess_kind(replace(run, config=Config(DataConfig(data)))) == kind


def test_charts_take_whatever_training_leaves():
    for lines in ([np.ones(1)], [np.full(3, np.nan)], [np.linspace(100, 1, 5), np.array([3.0, np.nan])]):
        svg = draw_curves([Series("a < b", BLUE, lines)], "loss", [1])
        assert svg.startswith("<svg viewBox=") and "var(--blue)" in svg and "#2166ac" not in svg
    assert "0.001" in draw_curves([Series("mean", BLUE, [np.full(9, 0.001)])], "learning rate"), "ticks lost digits"
    assert "$x &amp; y" in draw_figures([("$x & y", 1.0, None, True), ("b", 30.0, 1.0, False)], "MAE")
    for size in (0, 1, 10, 4000):
        values = np.linspace(0, 1, size)
        assert draw_answers(values, values).rstrip().endswith("</svg>")
    assert len(draw_answers(np.random.default_rng(0).normal(size=99999), np.zeros(99999))) < 100_000
