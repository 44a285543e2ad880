import json
import shutil

import pyarrow.parquet as pq
import pytest

from pggnn.cli import main
from pggnn.report import predictions
from pggnn.report.pack import pack
from pggnn.report.page import write
from pggnn.train import packed
from pggnn.train.engine.log import Log
from pggnn.train.options import parse
from pggnn.train.runs.stored import Run, find_runs

FILES = {"runs.jsonl", "curves.parquet", "answers.parquet"}


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_packed_run_tells_the_same(trained, tmp_path):
    pack(trained["er"].parent, tmp_path / "packed")
    for name in ("er", "folds"):
        run, kept = Run.read(trained[name]), Run.read(tmp_path / "packed" / trained[name].name)
        assert kept.figures == run.figures
        assert (kept.schema, kept.machine, kept.results) == (run.schema, run.machine, run.results)
        for ours, theirs in zip(kept.logs.values(), run.logs.values(), strict=True):
            assert [list(record) for record in ours] == [list(record) for record in theirs]
            for one, other in zip(ours, theirs, strict=True):
                assert all(one.get(key) == other.get(key) for key in ("epoch", "val", "test")), "of figures"
                assert all(one[key] == float(f"{other[key]:.{digits}g}") for key, digits in packed.DIGITS.items())
        found, known = predictions.find(kept, compute=False)[0], predictions.find(run)[0]
        assert all((found.arrays[key] == known.arrays[key]).all() for key in known.arrays)
        assert found.predicted.dtype == known.predicted.dtype


def test_numbers_of_any_size_keep_five_digits(trained, tmp_path):
    run = shutil.copytree(trained["er"], tmp_path / "er")
    losses = [1.0000499, 9.9999, 99999e-9, 12345e30, float("nan"), 0.0, -8.3886e-5]
    log = Log(run / "seed0", tensorboard=False)
    for epoch, loss in enumerate(losses, start=1):
        log.write({"epoch": epoch, "lr": 1e-8, "loss": loss, "val": 0.1 + epoch, "seconds": 885.42})
    log.close()
    pack(run, tmp_path / "packed", compute=False)
    records = Run.read(tmp_path / "packed").logs
    found = next(iter(records.values()))
    assert [str(record["loss"]) for record in found] == [str(float(f"{loss:.5g}")) for loss in losses]
    assert [record["val"] for record in found] == [0.1 + epoch for epoch in range(1, 8)], "which no float32 holds"
    assert (found[0]["lr"], found[0]["seconds"]) == (1e-8, 885), "of seconds three digits are kept"


def test_it_holds_no_weights_and_no_places(trained, tmp_path):
    pack(trained["er"].parent, tmp_path / "packed")
    files = contents(tmp_path / "packed")
    assert {path.name for path in files} == FILES and all(len(path.parts) == 1 for path in files)
    place = str(trained["er"].parent)
    text = (tmp_path / "packed" / "runs.jsonl").read_text()
    tables = [pq.read_table(tmp_path / "packed" / name) for name in ("curves.parquet", "answers.parquet")]
    for said in (text, *(str(table.to_pydict()) for table in tables)):
        assert place not in said and "pytest" not in said
    assert sum(map(len, files.values())) < 24_000


def test_packing_is_repeatable_to_the_byte(trained, tmp_path):
    pack(trained["er"].parent, tmp_path / "one")
    first = contents(tmp_path / "one")
    pack(trained["er"].parent, tmp_path / "one")
    assert contents(tmp_path / "one") == first
    pack(tmp_path / "one", tmp_path / "two")
    assert contents(tmp_path / "two") == first


def test_runs_are_added_and_replaced(trained, tmp_path):
    every = tmp_path / "every"
    pack(trained["er"].parent, every)
    pack(trained["er"], tmp_path / "packed" / "er")
    one = shutil.copytree(trained["er"].parent, tmp_path / "runs")
    shutil.rmtree(one / trained["folds"].name)
    pack(one, tmp_path / "some")
    before = Run.read(tmp_path / "some" / "er").figures
    shutil.rmtree(one / "er")
    shutil.copytree(trained["folds"], one / trained["folds"].name)
    pack(one, tmp_path / "some")
    assert contents(tmp_path / "some") == contents(every), "one after the other is the same as both at once"
    assert Run.read(tmp_path / "some" / "er").figures == before
    shutil.copytree(trained["er"], one / "er")
    result = one / "er" / "seed0" / "result.json"
    result.write_text(json.dumps(json.loads(result.read_text()) | {"test": 77.0}))
    pack(one, tmp_path / "some")
    assert Run.read(tmp_path / "some" / "er").figures.each[0] == 77.0
    assert len(find_runs(tmp_path / "some")) == 2


def test_it_has_the_path_of_its_folder(trained, tmp_path, monkeypatch, capsys):
    shutil.copytree(trained["er"], tmp_path / "runs" / "row" / "er", ignore=shutil.ignore_patterns("*.safetensors"))
    pack(tmp_path / "runs", tmp_path / "packed", compute=False)
    shutil.copytree(trained["er"], tmp_path / "packed" / "full" / "live")
    names = ["full/live", "row/er"]
    assert find_runs(tmp_path / "packed") == [tmp_path / "packed" / name for name in names]
    assert find_runs(tmp_path / "packed" / "row") == [tmp_path / "packed" / "row" / "er"]
    monkeypatch.chdir(tmp_path / "packed")
    assert find_runs("row/er") == find_runs("row") and [str(one) for one in find_runs(".")] == names
    assert main(["report", "row/er", "--out", str(tmp_path / "page.html")]) == 0
    assert main(["report", "row/gin"]) == 2
    assert "row/gin is not the folder of a run: it does not exist" in capsys.readouterr().err
    config, live = (parse(["--config", one, "--run.out", "new"])[0] for one in ("row/er", "full/live"))
    assert config == live, "a run can be trained again by its path"
    assert main(["train", "--config", "row/er", "--run.out", "row/er", "--resume"]) == 2
    assert "row/er is a packed run, which has no weights to go on from" in capsys.readouterr().err
    assert not (tmp_path / "packed" / "row").exists()


def test_its_page_needs_neither_weights_nor_data(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "MOST", 100)
    pack(trained["er"], tmp_path / "er")
    monkeypatch.setenv("PGGNN_DATA", str(tmp_path / "nowhere"))
    assert write([tmp_path / "er"], tmp_path / "page.html") == []
    text = (tmp_path / "page.html").read_text()
    assert "100 of 400 answers, mean absolute error" in text
    assert f"{json.loads((trained['er'] / 'summary.json').read_text())['mean']:.3f}" in text


def test_unfinished_runs_are_taken_when_asked_for(copied, tmp_path, capsys):
    folder = copied("er")
    (folder / "seed1" / "result.json").unlink()
    assert main(["pack", str(folder), str(tmp_path / "packed")]) == 2
    assert "1 of 1 runs have not ended" in capsys.readouterr().err
    assert not (tmp_path / "packed").exists()
    assert main(["pack", str(folder), str(tmp_path / "packed"), "--unfinished"]) == 0
    said = capsys.readouterr().out
    assert "1 of 2 trainings have not ended: seed1 (epoch 3 of 3)" in said and "1 run with 2 trainings" in said
    run = Run.read(tmp_path / "packed")
    assert not run.complete and run.figures == Run.read(folder).figures


def test_nothing_is_lost(trained, copied, tmp_path, monkeypatch):
    folder = copied("er")
    before = contents(folder)
    with pytest.raises(ValueError, match="is the folder of a run, which the packed one would hide"):
        pack(trained["er"], folder)
    with pytest.raises(ValueError, match="from which runs are packed"):
        pack(folder.parent, folder.parent / "packed")
    assert contents(folder) == before
    pack(trained["er"], tmp_path / "packed")
    kept = contents(tmp_path / "packed")
    with pytest.raises(ValueError, match=r"runs\.jsonl is a file: choose another place"):
        pack(trained["er"], tmp_path / "packed" / "runs.jsonl")
    assert contents(tmp_path / "packed") == kept

    def fail(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(packed.json, "dumps", fail)  # the last of three files
    with pytest.raises(OSError, match="no space left"):
        pack(trained["folds"], tmp_path / "packed")
    assert contents(tmp_path / "packed") == kept


@pytest.mark.parametrize("name", ["runs.jsonl", "curves.parquet"])
def test_a_damaged_file_is_named(trained, tmp_path, name):
    pack(trained["er"], tmp_path / "er")
    path = tmp_path / "er" / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=rf"er/{name}.*fetch it again"):
        Run.read(tmp_path / "er")
    with pytest.raises(ValueError, match=r"nothing is not the folder of a run: it does not exist"):
        pack(tmp_path / "nothing", tmp_path / "packed")
