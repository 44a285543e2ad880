"""Several machines that train one network: two agents of torchrun, each with a process, that meet on localhost."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from test_distributed import assert_equal_to, children

from pggnn.train.config import save
from pggnn.train.engine import log
from pggnn.train.runs.protocol import load_result

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs gloo and /proc"),
]


@pytest.fixture
def machines(tmp_path):
    """Starts ``pggnn train`` on two machines: ``machines(config, …)`` returns their agents, and ends them."""
    started = []

    def machines(config, *options):
        folder = tmp_path / f"machines{len(started)}"
        folder.mkdir()
        save(config, folder)
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        words = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "test"]
        words += ["-m", "pggnn", "train", "--config", str(folder / "config.yaml"), *options]
        pair = []
        for number in range(2):
            with open(folder / f"said{number}", "w") as said:
                pair.append(subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT))
            pair[-1].said = folder / f"said{number}"
            if number == 0:
                time.sleep(2)  # the first agent is the one that they meet at
        started.extend(pair)
        return pair

    yield machines
    for agent in started:
        if agent.poll() is None:
            for one in [*children(agent.pid), agent.pid]:
                os.kill(one, signal.SIGKILL)
            agent.wait()


def wait_for(epochs, folder, agents):
    """Waits until the run has so many epochs."""
    while len(log.read(folder)) < epochs:
        assert all(agent.poll() is None for agent in agents), agents[0].said.read_text()
        time.sleep(0.02)


def end_of(agents):
    """Their exit codes, and what they said."""
    codes = [agent.wait(timeout=600) for agent in agents]
    return codes, [agent.said.read_text() for agent in agents]


def signal_machine(agent, number):
    """Sends a signal to all processes of a machine."""
    for one in [*children(agent.pid), agent.pid]:
        os.kill(one, number)


def test_losses_are_those_of_one_process(small, fit, machines):
    alone, shared = small("alone"), small("shared")
    expected = fit(alone)
    codes, said = end_of(machines(shared))
    assert codes == [0, 0], said
    assert_equal_to(alone.folder / "seed0", shared.folder / "seed0")
    assert load_result(shared.folder / "seed0")["test"] == pytest.approx(expected.mean, abs=1e-5)


@pytest.mark.parametrize("lost", [0, 1], ids=["first", "second"])
def test_a_lost_machine_ends_the_job_and_resume_goes_on_to_the_same_weights(lost, small, machines, assert_same):
    whole, cut = small("whole", optim_epochs=40), small("cut", optim_epochs=40)
    codes, said = end_of(machines(whole))
    assert codes == [0, 0], said
    agents = machines(cut)
    wait_for(2, cut.folder / "seed0", agents)
    signal_machine(agents[lost], signal.SIGKILL)
    codes, said = end_of(agents)
    assert 0 not in codes, said
    assert not (cut.folder / "seed0" / "result.json").exists()
    codes, said = end_of(machines(cut, "--resume"))
    assert codes == [0, 0], said
    assert_same(whole.folder / "seed0", cut.folder / "seed0")


def test_a_machine_that_no_longer_answers_ends_the_job(small, machines):
    """Its connections stay open: only time can tell."""
    config = small("shared", optim_epochs=10**4, run_timeout=5)
    agents = machines(config)
    wait_for(1, config.folder / "seed0", agents)
    signal_machine(agents[1], signal.SIGSTOP)
    try:
        assert agents[0].wait(timeout=600) != 0
    finally:
        signal_machine(agents[1], signal.SIGCONT)
    assert "imed out" in agents[0].said.read_text()
