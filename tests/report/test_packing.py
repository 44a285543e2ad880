import json
import lzma

import pytest

from pggnn.cli import main
from pggnn.report import packing, predictions
from pggnn.report.packing import pack
from pggnn.report.page import write
from pggnn.report.runs import Run
from pggnn.train import log


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_compact_run_tells_the_same(trained, tmp_path):
    for name in ("er", "folds"):
        assert pack(trained[name], tmp_path / name) == ([tmp_path / name], [])
        run, compact = Run.read(trained[name]), Run.read(tmp_path / name)
        assert compact.figures == run.figures
        assert (compact.schema, compact.machine, compact.results) == (run.schema, run.machine, run.results)
        for ours, theirs in zip(compact.logs.values(), run.logs.values(), strict=True):
            assert [list(record) for record in ours] == [list(record) for record in theirs]
            for one, other in zip(ours, theirs, strict=True):
                assert all(one.get(key) == other.get(key) for key in log.EXACT), "figures are made from these"
                assert one == pytest.approx(other, rel=1e-4)


def test_it_holds_no_weights_and_no_places(trained, tmp_path):
    pack(trained["er"].parent, tmp_path / "packed")
    files = contents(tmp_path / "packed")
    names = {"config.yaml", "schema.json", "environment.json", "summary.json", "predictions.npz", "result.json"}
    assert {path.name for path in files} == names | {log.COMPACT}
    for path, content in files.items():
        text = lzma.decompress(content) if path.name == log.COMPACT else content
        assert str(trained["er"].parent).encode() not in text and b"pytest" not in text, path
    assert sum(len(content) for path, content in files.items() if path.parts[0] == "er") < 12_000


def test_packing_is_repeatable_to_the_byte(trained, tmp_path):
    pack(trained["er"].parent, tmp_path / "one")
    first = contents(tmp_path / "one")
    pack(trained["er"].parent, tmp_path / "one")
    assert contents(tmp_path / "one") == first
    pack(tmp_path / "one", tmp_path / "two")
    assert contents(tmp_path / "two") == first


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
    with pytest.raises(ValueError, match="is no part of a compact run and would be lost"):
        pack(trained["er"], folder)
    with pytest.raises(ValueError, match="from which runs are packed"):
        pack(folder.parent, folder.parent / "packed")
    assert contents(folder) == before
    pack(trained["er"], tmp_path / "packed" / "er")
    kept = contents(tmp_path / "packed")
    for place in (tmp_path / "packed", tmp_path / "packed" / "er" / "config.yaml"):
        with pytest.raises(ValueError, match="choose another place"):
            pack(trained["er"], place)
    own = tmp_path / "packed" / "er" / "seed0" / "notes.txt"
    own.write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt is no part of a compact run and would be lost"):
        pack(trained["er"], tmp_path / "packed" / "er")
    own.unlink()
    assert contents(tmp_path / "packed") == kept

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(packing.log, "pack", fail)
    with pytest.raises(OSError, match="no space left"):
        pack(trained["er"], tmp_path / "packed" / "er")
    assert contents(tmp_path / "packed") == kept


def test_a_damaged_log_is_named(trained, tmp_path):
    pack(trained["er"], tmp_path / "er")
    path = tmp_path / "er" / "seed1" / log.COMPACT
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"seed1/log\.jsonl\.xz is damaged"):
        Run.read(tmp_path / "er")
    with pytest.raises(ValueError, match=r"nothing is not the folder of a run: it does not exist"):
        pack(tmp_path / "nothing", tmp_path / "packed")
