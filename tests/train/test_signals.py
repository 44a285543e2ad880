"""Control-C and SIGTERM end a command alike, with a line that says how to go on."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from pggnn.cli import main
from pggnn.console import terminable
from pggnn.train.config import save
from pggnn.train.engine import log

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture
def start(fork):
    """Runs a command in a process that shares what this one has imported; returns its number and what it says."""

    def start(words, prepare=lambda: None):
        read, write = os.pipe()
        child = fork()
        if child == 0:
            try:
                os.dup2(write, 2)
                sys.stderr = os.fdopen(2, "w", buffering=1)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                prepare()
                os._exit(main(words))
            finally:
                os._exit(99)
        os.close(write)
        return child, os.fdopen(read)

    return start


def end(child, said):
    with said:
        last = [*said][-1]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), last


@pytest.mark.parametrize("number", CODES)
def test_a_training_names_the_checkpoint_and_how_to_go_on(number, small, fit, start, assert_same, tmp_path):
    alone, stopped = small("alone", optim_epochs=4), small("stopped", optim_epochs=4)
    save(stopped, tmp_path)

    def stop_after_two_epochs():
        real = log.Log.write

        def write(self, record):
            real(self, record)
            if record["epoch"] == 2:
                signal.raise_signal(number)

        log.Log.write = write

    code, last = end(*start(["train", "--config", str(tmp_path / "config.yaml")], stop_after_two_epochs))
    assert code == CODES[number]
    assert len(log.read(stopped.folder / "seed0")) == 2
    path = stopped.folder / "seed0" / "last.safetensors"
    assert last == (
        f"pggnn: interrupted: the checkpoint of the last whole epoch is {path}; "
        "to go on, give the same command with --resume\n"
    )
    assert fit(stopped, "last") == fit(alone)
    assert_same(alone.folder / "seed0", stopped.folder / "seed0")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at what Linux tells of processes")
def test_trainings_side_by_side_end_with_their_command(small, start, classes, tmp_path, forked_workers):
    options = {"data_name": str(classes), "data_options": {}, "protocol_kind": "folds", "protocol_folds": 2}
    config = small("stopped", optim_epochs=100_000, run_jobs=2, **options)
    save(config, tmp_path)
    child, said = start(["train", "--config", str(tmp_path / "config.yaml")])
    while not (config.folder / "seed0" / "fold0" / "last.safetensors").exists():  # the log is written before it
        time.sleep(0.05)
    at_work = Path(f"/proc/{child}/task/{child}/children").read_text().split()
    assert at_work
    os.kill(child, signal.SIGTERM)
    code, last = end(child, said)
    assert code == 143
    assert last.startswith("pggnn: interrupted: the checkpoint of the last whole epoch is ")
    assert last.endswith("; to go on, give the same command with --resume\n")
    assert not [number for number in at_work if Path(f"/proc/{number}").exists()], "they train on"


@pytest.mark.parametrize("command", [["tune"], ["reproduce", "table2"], ["reproduce", "search"]])
def test_sigterm_says_how_to_go_on_with_a_sweep(command, capsys, monkeypatch):
    def terminate(*_, **__):
        signal.raise_signal(signal.SIGTERM)

    for place in ("train.sweeps.tune.tune", "reproduce.results.reproduce", "reproduce.search.search"):
        monkeypatch.setattr(f"pggnn.{place}", terminate)
    assert main(command) == 143
    assert capsys.readouterr().err == (
        "pggnn: interrupted: what has ended is kept; the same command goes on from the last whole epochs\n"
    )
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "it is as before"


def test_what_others_have_to_do_with_sigterm_stays(monkeypatch):
    """torchrun's processes may wait for others, a program of one's own has its handler, and other threads have none."""
    with terminable():
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    with terminable():
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with terminable():
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    codes = []
    thread = threading.Thread(target=lambda: codes.append(main(["groups", "3"])))
    thread.start()
    thread.join()
    assert codes == [0]
