"""What goes wrong is said in one clear line, with an exit code that is not 0, and spoils no checkpoint."""

import fcntl
import json
import math
import os
import re
import resource
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from pggnn.cli import main
from pggnn.data.schema import Schema
from pggnn.report.pack import pack
from pggnn.train.config import Config, DataConfig, RunConfig, save
from pggnn.train.engine import log
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.engine.task import Task
from pggnn.train.options import load, parse
from pggnn.train.runs import folder, run
from pggnn.train.runs.progress import Bars
from pggnn.train.runs.protocol import Trial

ER = ["--data.name", "ER", "--data.options", "{seed: 0, graphs: 24}", "--run.device", "cpu", "--run.jobs", "1"]
ER += ["--model.hidden", "4", "--model.layers", "1", "--optim.epochs", "2", "--run.tensorboard", "false"]

PROGRESS = re.compile(r"A batch of \d+ graphs takes |.* epoch ")


@pytest.fixture
def refused(capsys):
    """Runs a command that must fail; returns its one line."""

    def refused(*arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        lines = [line for line in capsys.readouterr().err.splitlines() if not PROGRESS.match(line)]
        assert len(lines) == 1, lines
        assert lines[0].startswith("pggnn: error: ")
        return lines[0]

    return refused


def epochs(folder):
    """The epochs of the last checkpoint and of the one before, which must both be whole."""
    return [Checkpoint.load(folder / f"{name}.safetensors").state["epoch"] for name in ("last", "previous")]


def write(path, *graphs):
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    return str(path)


def graph(**more):
    return {"num_nodes": 2, "edges": [[0, 1]]} | more


def test_what_is_missing_or_does_not_fit(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGGNN_DATA", raising=False)
    small = ["--optim.epochs", 1, "--run.out", "run", "--run.jobs", 1, "--run.tensorboard", "false"]
    few = write(tmp_path / "few.jsonl", graph(y=1), graph(y=0))
    bare = write(tmp_path / "bare.jsonl", *[graph()] * 20)
    values = write(tmp_path / "values.jsonl", *[graph(y=0.5)] * 20)
    parts = write(tmp_path / "parts.jsonl", *[graph(y=0.5, split="test" if i < 4 else "train") for i in range(20)])
    one_class = write(tmp_path / "classes.jsonl", *[graph(y=i % 2) for i in range(8)])
    for options, message in (
        (["--data.name", "ZINC"], "data/zinc/zinc12k.npz is not there; put the file there"),
        (["--data.name", "nowhere.jsonl"], "no data set or file is named 'nowhere.jsonl': there is no /"),
        (["--data.name", "MUTGA"], "no data set or file is named 'MUTGA'; did you mean MUTAG? The data sets are ER"),
        (["--data.name", "MUTAG"], "data/tu/MUTAG.zip is not there; download it with pggnn data get MUTAG, put"),
        (["--data.name", few], "too few to train, validate and test on: 2 to train, 0 to validate, 0 to test"),
        (["--data.name", bare], "the graphs have no targets y to learn: give each of them y, or node_y"),
        (["--data.name", values, "--protocol.kind", "folds"], "cross-validation is stratified by the classes"),
        (["--data.name", values, "--protocol.kind", "splits"], "these graphs have no split train and val and test"),
        (["--data.name", parts], "these graphs have no split val: choose --protocol.kind random or folds, or"),
        (["--data.name", one_class, "--protocol.kind", "folds"], "10 folds cannot be made"),
        (["--data.name", values, "--optim.loss", "bce"], "optim.loss bce does not fit regression: choose mse or mae"),
        (["--data.name", values, "--model.edge_features", "true"], "the edges of this data set have no features"),
        (["--data.name", values, "--model.numbering", "labels"], "features that are rows of the adjacency matrix"),
        (["--data.name", values, "--data.options", "{sheep: 3}"], "values.jsonl has no option sheep"),
    ):
        assert message in refused("train", *options, *small)
        assert not (tmp_path / "run").exists(), "the folder of a run that cannot be"


@pytest.mark.skipif("__import__('torch').cuda.is_available()", reason="there is a GPU")
def test_a_gpu_that_is_not_there(refused, tmp_path):
    said = refused("train", *ER, "--run.device", "cuda", "--run.out", tmp_path / "run")
    assert "run.device is cuda, but PyTorch finds no GPU here: choose cpu or auto" in said


def test_more_processes_than_gpus(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "2")
    said = refused("train", *ER, "--run.device", "cuda", "--run.out", tmp_path / "run")
    assert "torchrun has started 2 processes here, but there are GPUs for 1 only" in said


def test_folders_that_cannot_be_used(refused, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".hidden").touch()
    assert "is not empty and holds no run" in refused("train", *ER, "--run.out", tmp_path / "full")
    assert os.listdir(tmp_path / "full") == [".hidden"]
    (tmp_path / "file").touch()
    assert "file is a file: choose another folder by --run.out" in refused("train", *ER, "--run.out", tmp_path / "file")
    assert "Not a directory" in refused("train", *ER, "--run.out", tmp_path / "file" / "run")
    for place in ("/proc/nothing/run", "/dev/null/run"):
        assert place in refused("train", *ER, "--run.out", place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_one_may_not_write_to(refused, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "cannot be written: Permission denied" in refused("train", *ER, "--run.out", tmp_path / "closed" / "run")


def test_a_folder_in_use(small, fit, refused, monkeypatch):
    monkeypatch.setattr(folder, "PATIENCE", 0.5)
    config = small()
    fit(config)
    again = ["train", "--config", config.folder / "config.yaml", "--resume", "--optim.epochs", 4]
    with open(config.folder / "seed0" / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "is in use: another process trains there" in refused(*again)
    assert epochs(config.folder / "seed0") == [3, 2]
    assert main([str(word) for word in again]) == 0


@pytest.mark.parametrize("name", ["last.safetensors", "best.safetensors", "log.jsonl", "result.json"])
def test_a_disk_that_is_full(name, small, fit, fork, assert_same, tmp_path):
    alone, full = small("alone"), small("full")
    fit(alone)
    save(full, tmp_path)
    sizes = {file.name: file.stat().st_size for file in (alone.folder / "seed0").iterdir()}
    read, write = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.dup2(write, 2)
            stream = os.fdopen(2, "w", buffering=1)
            sys.stderr = stream
            _limit(name, sizes)
            os._exit(main(["train", "--config", str(tmp_path / "config.yaml")]))
        finally:
            os._exit(99)
    os.close(write)
    with os.fdopen(read) as said:
        error = [line for line in said if not PROGRESS.match(line)]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert len(error) == 1, error
    assert name in error[0]
    assert "No space left" in error[0] or "File too large" in error[0]
    folder = full.folder / "seed0"
    for path in folder.glob("*.safetensors"):
        Checkpoint.load(path)
    assert not list(folder.glob(".*"))
    fit(full, "last")
    assert_same(alone.folder / "seed0", folder)


def _limit(name, sizes):
    """Makes writing fail as on a full disk: by the system's limit on sizes where the file is the largest."""
    if name in ("last.safetensors", "log.jsonl"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if name == "log.jsonl":
            real = log.Log.write

            def write(self, record):
                if record["epoch"] == 2:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (os.fstat(self._file.fileno()).st_size + 20,) * 2)
                real(self, record)

            log.Log.write = write
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[name] - 100,) * 2)
        return
    replace = os.replace

    def fail(source, target):
        if str(target).endswith(name):
            raise OSError(28, "No space left on device")
        return replace(source, target)

    os.replace = fail


@pytest.mark.parametrize("options", [{}, {"optim_clip": 1.0}, {"run_precision": "bf16"}])
def test_a_loss_that_is_no_number(options, small, fit, tmp_path):
    config = small(optim_lr=1e30, **options)
    with pytest.raises(ValueError, match=r"(loss became|weights are no longer finite).*; try a lower --optim.lr"):
        fit(config)
    for path in (config.folder / "seed0").glob("*.safetensors"):
        assert all(value.isfinite().all() for value in Checkpoint.load(path).weights.values())
    assert not list(config.folder.glob("**/*.safetensors"))
    fit(small(optim_lr=0.001, **options))  # the folder can be used as it is


def test_weights_that_are_no_numbers_after_the_last_step(small, fit):
    """The loss of an epoch of one step is that of the weights before it."""
    config = small(optim_lr=1e40, optim_batch_size=64)
    with pytest.raises(ValueError, match="the weights are no longer finite in epoch 1; nothing was saved"):
        fit(config)
    assert not list(config.folder.glob("**/*.safetensors"))


def test_every_epoch_has_random_numbers_of_its_own(small, fit, monkeypatch):
    seeds, loss = [], Task.loss

    def observed(*args):
        seeds.append(torch.initial_seed())
        return loss(*args)

    monkeypatch.setattr(Task, "loss", observed)
    fit(small(optim_batch_size=64))  # one step an epoch
    assert len(seeds) == len(set(seeds)) == 3


def test_what_was_good_before_the_loss_broke_is_kept(small, fit, monkeypatch):
    config = small()
    fit(config)
    from pggnn.train.engine import task

    monkeypatch.setattr(task.Task, "loss", lambda *args: (args[1] * float("nan")).sum())
    with pytest.raises(ValueError, match=r"the loss became nan in epoch 4; the checkpoint of epoch 3 is .*last.safet"):
        fit(small(optim_epochs=5), "last")
    assert epochs(config.folder / "seed0") == [3, 2]
    monkeypatch.undo()
    fit(small(optim_epochs=5), "last")
    assert epochs(config.folder / "seed0") == [5, 4]


def test_a_checkpoint_of_another_network(small, fit, refused):
    one, other = small("one"), small("other", model_hidden=5)
    fit(one)
    fit(other)
    strange = (other.folder / "seed0" / "last.safetensors").read_bytes()
    (one.folder / "seed0" / "last.safetensors").write_bytes(strange)
    (one.folder / "seed0" / "best.safetensors").write_bytes(strange)
    (one.folder / "seed0" / "result.json").unlink()
    said = refused("train", "--config", one.folder / "config.yaml", "--resume")
    assert "is of another network" in said
    assert "use the model options that the run was made with" in said
    assert "is of another network" in refused("evaluate", one.folder)
    assert (one.folder / "seed0" / "last.safetensors").read_bytes() == strange
    fit(one, "previous")


def test_evaluate_and_predict_without_a_run(small, fit, refused, tmp_path):
    assert "is not the folder of a run: there is no config.yaml in it" in refused("evaluate", tmp_path)
    assert "nowhere is not the folder of a run: it does not exist" in refused("evaluate", tmp_path / "nowhere")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").touch()
    assert refused("evaluate", tmp_path).endswith("there is no config.yaml in it, but there are runs below it: mine")
    config = small(optim_epochs=1)
    fit(config)
    pack(config.folder, tmp_path / "packed")
    assert "a packed run keeps none; pggnn train --config " in refused("evaluate", tmp_path / "packed")
    assert "must end in .csv or .jsonl" in refused("predict", config.folder, "ER", "--out", tmp_path / "a.txt")


def test_a_training_is_found_from_within(small, fit, monkeypatch, capsys):
    config = small(optim_epochs=1)
    fit(config)
    monkeypatch.chdir(config.folder / "seed0")
    assert main(["evaluate", "."]) == 0
    assert "MAE" in capsys.readouterr().out


def test_evaluation_on_graphs_that_do_not_fit(small, fit, refused, classes, tmp_path):
    config = small(data_name=str(classes), data_options={})
    fit(config)
    assert "has no split val" in refused("evaluate", config.folder, "--data", classes, "--split", "val")
    folder = tmp_path / "three"
    folder.mkdir()
    (folder / "three_A.txt").write_text("1, 2\n2, 1\n")
    (folder / "three_graph_indicator.txt").write_text("1\n1\n2\n")
    (folder / "three_graph_labels.txt").write_text("5\n7\n")
    assert "label 0 is none of those known: a, b, c, d" in refused("evaluate", config.folder, "--data", folder)


def test_a_run_is_claimed_before_anything_of_it_is_changed(small, fit, monkeypatch):
    """Of two commands in one folder the second is refused, and the config stays that of the first."""
    config = small(optim_epochs=1)
    fit(config)
    text = (config.folder / "config.yaml").read_text()
    monkeypatch.setattr(folder, "PATIENCE", 0.0)
    with folder.claimed(config.folder):
        with pytest.raises(ValueError, match="is in use: another process trains there"):
            fit(small(optim_epochs=5000), "last")
        with pytest.raises(ValueError, match="is in use"):
            fit(small(optim_lr=0.5))
    assert (config.folder / "config.yaml").read_text() == text
    assert fit(small(optim_epochs=2), "last").epochs


def test_a_published_run_that_has_not_ended_is_not_begun_anew(small, fit, tmp_path):
    config = small(optim_epochs=2)
    fit(config)
    (config.folder / "seed0" / "result.json").unlink()
    pack(config.folder, tmp_path / "packed", unfinished=True)
    before = {file.name: file.read_bytes() for file in (tmp_path / "packed").iterdir()}
    with pytest.raises(ValueError, match="is a packed run, which has no weights to go on from"):
        fit(small("packed", optim_epochs=2, optim_lr=0.5), "last")
    assert {file.name: file.read_bytes() for file in (tmp_path / "packed").iterdir()} == before


@pytest.mark.parametrize("name", ["1e3", "12e45", "1.5E-3", "-1e+5"])
def test_names_that_look_like_numbers(name, small, fit):
    config = small(name, optim_epochs=1)
    fit(config)
    assert load(config.folder) == config and f"'{config.run.out}'" not in (config.folder / "config.yaml").read_text()
    bare = replace(config, run=replace(config.run, out=name))
    save(bare, config.folder)
    assert parse(["--config", str(config.folder / "config.yaml")])[0] == bare


def test_what_was_not_a_number_is_worse_than_any():
    task = Task(Schema("graph", "regression"), "auto")
    assert task.better(1.0, math.nan) and not task.better(math.nan, 1.0)


def test_a_fold_that_fails_ends_the_sweep(small, fit, classes, in_this_process):
    config = small(
        data_name=str(classes), data_options={}, protocol_kind="folds", protocol_folds=2, run_jobs=2, optim_lr=1e30
    )
    with pytest.raises(ValueError, match=r"seed0/fold0: .*(loss became|no longer finite).* \(and 1 more failed\)"):
        fit(config)


@pytest.mark.parametrize(
    "error",
    [
        "torch.OutOfMemoryError: CUDA out of memory. And so on.",
        "torch.AcceleratorError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: Triton Error [CUDA]: out of memory",
        "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ],
)
def test_one_without_room_waits_for_the_others(error, tmp_path, monkeypatch, capsys):
    """There is no GPU to fill here, so processes only say that theirs is full: the second of three, the first time."""
    given = []

    class Full:
        def start(self, words, errors):
            given.append(words)
            no_room = len(given) == 2 or "always" in words[0]
            errors.write_text(f"Traceback\n{error}\n" if no_room else "")
            return SimpleNamespace(poll=lambda: 1 if no_room else self.poll(), expected=None)

        polls = 0

        def poll(self):
            self.polls += 1
            return 0 if self.polls > 3 else None

        def close(self):
            pass

    monkeypatch.setattr("pggnn.train.runs.pool.WorkerPool", Full)
    monkeypatch.setattr(run, "POLL", 0.0)
    config = Config(DataConfig("ER"), run=RunConfig(out=str(tmp_path / "room")))
    todo = [(config, Trial(seed)) for seed in range(3)]
    with Bars(Console(file=sys.stderr), "") as bars:
        run.train_side_by_side(todo, 2, None, bars)
    assert [words[1:4] for words in given] == [
        ["0", "None", "new"], ["1", "None", "new"], ["2", "None", "last"], ["1", "None", "last"]
    ]  # fmt: skip
    assert "seed1: the GPU has no memory left beside the others; it continues when one" in capsys.readouterr().err
    alone = Config(DataConfig("ER"), run=RunConfig(out=str(tmp_path / "always")))
    with Bars(Console(file=sys.stderr), "") as bars, pytest.raises(ValueError, match=f"seed0: {re.escape(error)}"):
        run.train_side_by_side([(alone, Trial(0))], 2, None, bars)
