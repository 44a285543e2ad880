"""Folds that come with the data: a folder 10fold_idx beside the graphs."""

import zipfile

import pytest

from pggnn.cli import main
from pggnn.data.loading import load
from pggnn.train.config import Config, DataConfig, ProtocolConfig
from pggnn.train.runs import protocol
from pggnn.train.runs.run import load_graphs

GRAPHS = 30
TEXT = f"{GRAPHS}\n" + "".join(f"2 {i % 2}\n{i % 3} 1 1\n0 1 0\n" for i in range(GRAPHS))
FOLDS = {i + 1: [i, i + 10, i + 20] for i in range(10)}


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "SET"
    (folder / "10fold_idx").mkdir(parents=True)
    (folder / "SET.txt").write_text(TEXT)
    for number, test in FOLDS.items():
        (folder / "10fold_idx" / f"test_idx-{number}.txt").write_text("\n".join(map(str, reversed(test))) + "\n")
        (folder / "10fold_idx" / f"train_idx-{number}.txt").write_text("0\n")
    with zipfile.ZipFile(tmp_path / "SET.zip", "w") as archive:
        for file in folder.rglob("*.txt"):
            archive.write(file, str(file.relative_to(tmp_path)))
    return tmp_path


@pytest.mark.parametrize("name", ["SET", "SET.zip", "SET/SET.txt"])
@pytest.mark.parametrize("kind", ["folds", "nested"])
def test_they_are_used_where_asked_for(kind, name, files):
    config = Config(DataConfig(str(files / name)), protocol=ProtocolConfig(kind, "given"))
    graphs, trials = load_graphs(config), protocol.trials(config)
    assert len(trials) == 10 and protocol.kind(Config(config.data), graphs) == "random"
    for number, trial in enumerate(trials, start=1):
        split = protocol.split(config, graphs, trial)
        assert split.test.tolist() == FOLDS[number]
        inner = [*split.train.tolist(), *(split.val.tolist() if split.val is not None else [])]
        assert sorted(inner + FOLDS[number]) == [*range(GRAPHS)]
    assert load(files / name, split="fold3")[0].num_nodes == 2


def test_commands_say_which_folds_there_are(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    assert main(["data", "check", "SET.zip"]) == 0
    assert "30 (with folds of their own: pggnn train --protocol.kind folds --protocol.folds given)" in " ".join(
        capsys.readouterr().out.split()
    )
    for folds, said in (
        ("given", "Folds: those that come with the data."),
        ("10", "Folds: 10 stratified ones; --prot"),
    ):
        options = "--protocol.only [0] --optim.epochs 1 --model.hidden 4 --model.layers 1 --run.jobs 1"
        command = ["train", "--data.name", "SET.zip", "--protocol.kind", "folds", "--protocol.folds", folds]
        assert main([*command, *options.split(), "--run.out", f"runs/{folds}"]) == 0
        assert said in " ".join(capsys.readouterr().err.split())
    assert main(["evaluate", "runs/given"]) == 0
    assert main(["report", "runs/given"]) == 0
    page = next(files.glob("runs/given/*.html")).read_text()
    assert "The folds are those that came with the data." in page


def test_graphs_that_no_fold_tests_train_in_each(files, capsys):
    """As in MUTAG and PROTEINS as the authors of GIN have them."""
    (files / "SET" / "10fold_idx" / "test_idx-4.txt").write_text("3\n13\n")
    config = Config(DataConfig(str(files / "SET")), protocol=ProtocolConfig("folds", "given"))
    for trial in protocol.trials(config):
        found = protocol.split(config, load_graphs(config), trial)
        assert 23 in found.train and len(found.train) + len(found.test) == GRAPHS
    assert main(["data", "check", str(files / "SET")]) == 0
    assert "given; 1 are in no test fold and train in each)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "test_idx-4.txt is not there"),
        ("3\n13\n23\n3", "graph 3 is tested twice"),
        ("30", "graph 30 is named, but"),
    ],
)
def test_folds_that_are_not_whole_are_refused(files, text, message):
    file = files / "SET" / "10fold_idx" / "test_idx-4.txt"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(ValueError, match=f"the folds in 10fold_idx are not whole: {message}.*; mend or remove"):
        load(files / "SET")


def test_graphs_without_folds(files):
    config = Config(DataConfig(str(files / "SET")), protocol=ProtocolConfig("folds", "given"))
    for file in (files / "SET" / "10fold_idx").iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="no folds come with these graphs"):
        protocol.split(config, load_graphs(config), protocol.trials(config)[0])


def test_one_file_of_several_names_the_folder(tmp_path):
    (tmp_path / "SET_A.txt").write_text("1, 2\n")
    with pytest.raises(ValueError, match="give their folder"):
        load(tmp_path / "SET_A.txt")
