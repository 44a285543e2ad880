"""Trainings on a Ray cluster: what they come to, and how they end. The slow tests need Ray, and start clusters of two
nodes on this machine."""

import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from filelock import FileLock
from rich.console import Console
from test_distributed import children
from test_tune import SMALL as TUNED

from pggnn.cli import main
from pggnn.train.config import RunConfig, save
from pggnn.train.engine import log
from pggnn.train.options import parse
from pggnn.train.runs import cluster
from pggnn.train.runs.pool import SITES
from pggnn.train.runs.protocol import load_result, trials
from pggnn.train.runs.run import STOPPED, train
from pggnn.train.runs.worker import train_on_node
from pggnn.train.sweeps.sweep import Sweep
from pggnn.train.sweeps.tune import tune

needs_ray = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")]


def test_run_on_has_a_row_for_each_value():
    assert tuple(SITES) == get_args(get_type_hints(RunConfig)["on"])


def test_a_value_that_there_is_not_and_ray_that_is_not_installed(small, monkeypatch, tmp_path, capsys):
    assert main(["train", "--data.name", "ER", "--run.on", "rya"]) == 2
    assert capsys.readouterr().err == "pggnn: error: run.on must be 'local' or 'ray', got rya\n"
    config = small(run_on="ray")
    save(config, tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["train", "--config", str(tmp_path / "config.yaml")]) == 2
    assert capsys.readouterr().err == "pggnn: error: ray is missing; install it with: pip install 'pggnn[ray]'\n"
    assert not config.folder.exists()


def test_torchrun_and_ray_do_not_go_together(small, monkeypatch, tmp_path, capsys):
    save(small(run_on="ray"), tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["train", "--config", str(tmp_path / "config.yaml")]) == 2
    assert "run.on ray starts processes by itself: leave torchrun out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, nodes, found",
    [
        ([], [{"CPU": 4}, {"CPU": 2.5, "memory": 9}, {}], 6),
        (["--run.threads", "2"], [{"CPU": 4}, {"CPU": 3}], 3),
        ([], [{"CPU": 8}, {"CPU": 8, "GPU": 2}], 2),
        (["--run.device", "cpu"], [{"CPU": 8}, {"CPU": 8, "GPU": 2}], 16),
        (["--run.jobs", "2"], [{"CPU": 8, "GPU": 2}], 2),
        (["--run.jobs", "3"], [{"CPU": 8, "GPU": 2}], 4),
        (["--run.jobs", "6"], [{"CPU": 8, "GPU": 1}], 6),
        (["--run.threads", "5"], [{"CPU": 4}], "a training needs 5 CPU of one node, and no node .* has so much"),
        (["--run.device", "cuda"], [{"CPU": 4}], "run.device is cuda, but no node of the Ray cluster has a GPU"),
    ],
)
def test_how_many_there_is_room_for(options, nodes, found, monkeypatch):
    """A GPU each, or parts of one where more trainings are asked for than there are GPUs."""
    monkeypatch.setattr(cluster, "_nodes", lambda: nodes)
    config = parse(["--data.name", "ER", "--run.on", "ray", *options])[0]
    if isinstance(found, int):
        assert cluster.room(config) == found
        return
    with pytest.raises(ValueError, match=found):
        cluster.room(config)


def test_threads_do_not_depend_on_the_machine_that_starts_them():
    on, here = (parse(["--data.name", "ER", "--run.on", place])[0] for place in ("ray", "local"))
    assert (Sweep().share(on).run.jobs, Sweep().share(on).run.threads) == (0, 1)
    assert (Sweep(jobs=1).share(on).run.jobs, Sweep(jobs=1).share(on).run.threads) == (1, 1)
    assert Sweep(jobs=1).share(here).run.threads == os.cpu_count()


def test_a_node_sees_the_folder_or_says_that_it_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [str(tmp_path / "nowhere"), "0", "None", "new", "inf"]
    for place, errors in ((tmp_path / "absent", "errors.txt"), (tmp_path, "absent.txt")):
        said = train_on_node(str(place), {}, errors, "token", words)
        assert f"of the Ray cluster does not see {place / errors}: " in said and "\n" not in said
    errors = tmp_path / "errors.txt"
    errors.write_text("of another command")
    assert isinstance(train_on_node(str(tmp_path), {}, "errors.txt", "token", words), str)
    assert errors.read_text() == "of another command"
    errors.write_text("token")
    assert train_on_node(str(tmp_path), {}, "errors.txt", "token", [*words[:-1], "0"]) == STOPPED
    assert train_on_node(str(tmp_path), {"PGGNN_TEST": "1"}, "errors.txt", "token", words) == 1
    assert "nowhere" in errors.read_text() and os.environ.pop("PGGNN_TEST") == "1"
    errors.write_text("token")
    assert train_on_node(str(tmp_path), {}, "errors.txt", "token", ["too few", "inf"]) == 1
    assert errors.read_text().startswith("Traceback") and "TypeError" in errors.read_text()


def test_a_node_waits_for_a_process_that_still_ends(small, tmp_path, monkeypatch):
    monkeypatch.setattr("pggnn.train.runs.folder.PATIENCE", 0.0)
    monkeypatch.chdir(tmp_path)
    config = small(optim_epochs=1)
    errors = config.folder / "seed0" / "errors.txt"
    errors.parent.mkdir(parents=True)
    save(config, config.folder)
    errors.write_text("token")
    words, codes = [str(config.folder), "0", "None", "new", "inf"], []
    other = FileLock(errors.with_name("lock"))
    other.acquire()
    node = threading.Thread(target=lambda: codes.append(train_on_node(str(tmp_path), {}, str(errors), "token", words)))
    node.start()
    wait_until(lambda: errors.read_text() != "token")
    time.sleep(0.5)
    assert node.is_alive() and not (errors.parent / log.FILE).exists()
    other.release()
    node.join()
    assert codes == [0], errors.read_text()


class Nodes:
    """A Ray cluster of two nodes of one CPU."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        arguments = {"num_cpus": 1, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=arguments)
        self.second = self.cluster.add_node(num_cpus=1)
        self.nodes = [self.cluster.head_node, self.second]

    def workers(self, node):
        """The processes of a node that may train."""
        (raylet,) = node.all_processes["raylet"]
        return raylet.process.pid, children(raylet.process.pid)

    def kill(self, node):
        """As if it had no power."""
        raylet, others = self.workers(node)
        for process in (raylet, *others):
            os.kill(process, signal.SIGKILL)

    def training(self):
        """The processes of all nodes that train."""
        found = [process for node in self.nodes for process in self.workers(node)[1]]
        return [one for one in found if b"train_on_node" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.fixture(scope="module")
def environment():
    """Where this process and those of Ray find things; the address is added by :func:`nodes`."""
    pytest.importorskip("ray", reason="Ray is missing: pip install ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2] / "src"), *sys.path]))
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        yield patch


@pytest.fixture
def nodes(environment):
    import ray

    made = Nodes()
    environment.setenv("RAY_ADDRESS", made.cluster.address)
    yield made
    ray.shutdown()
    made.cluster.shutdown()


@pytest.fixture
def folds(small, classes):
    """A run of four folds; on a cluster as many at once as there is room for."""
    given = {"data_name": str(classes), "data_options": {}, "protocol_kind": "folds", "protocol_folds": 4}
    return lambda folder, **options: small(folder, **given | {"run_jobs": int("run_on" not in options)} | options)


def fit(config, resume=None):
    """Trains; returns what is said."""
    said = io.StringIO()
    train(config, resume, Console(file=said, width=1000))
    return said.getvalue()


def figures(folder):
    """The result of a training, but time and memory."""
    return {name: value for name, value in load_result(folder).items() if name not in ("seconds", "memory")}


@pytest.fixture
def assert_as_here(assert_same):
    """Asserts that a run came to what it comes to on this machine alone."""

    def assert_as_here(here, there):
        for trial in trials(here):
            assert_same(here.folder / trial.name, there.folder / trial.name)
            assert figures(here.folder / trial.name) == figures(there.folder / trial.name)

    return assert_as_here


def wait_until(done):
    end = time.monotonic() + 600
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    assert done()


class TestCluster:
    pytestmark = needs_ray

    def test_figures_are_those_of_this_machine(self, nodes, folds, assert_as_here, tmp_path, monkeypatch):
        here, there = folds("here", run_jobs=2, run_threads=1), folds("there", run_on="ray")
        fit(here)
        said = fit(there)
        assert "4 trainings, 2 at once" in said and "started again" not in said
        assert_as_here(here, there)
        assert '"cores": 2' in (there.folder / "environment.json").read_text()
        assert "An epoch takes" not in fit(there, "last"), "nothing is trained again"
        monkeypatch.chdir(tmp_path)
        ranked = [tune((*TUNED, "--run.on", on), Path(on), Sweep(["GIN", "as given"], console=Console(quiet=True)))[0]
                  for on in ("local", "ray")]  # fmt: skip
        local, ray = ([(one.name, one.mean, one.late) for one in found] for found in ranked)
        assert len(local) == 2 and local == ray

    def test_a_node_that_is_lost(self, nodes, folds, assert_as_here):
        """In the middle of the last two of four trainings."""
        here, there = folds("here", optim_epochs=100), folds("there", optim_epochs=100, run_on="ray")
        names = [f"seed0/fold{fold}" for fold in range(4)]
        ended, cut = {}, {}

        def begun():
            running = [name for name in names if load_result(there.folder / name) is None]
            return len(running) == 2 and all(len(log.read(there.folder / name)) > 5 for name in running)

        def kill():
            wait_until(begun)
            for name in names:
                folder = there.folder / name
                ended[name] = [
                    (folder / file).stat() for file in ("log.jsonl", "result.json") if (folder / file).exists()
                ]
                cut[name] = log.read(folder)
            nodes.kill(nodes.second)

        killer = threading.Thread(target=kill)
        killer.start()
        said = fit(there)
        killer.join()
        lost = [name for name in names if f"{name}: its process or its node was lost" in said]
        assert len(lost) == 1 and said.count("it is started again, from its last checkpoint") == 1
        fit(here)
        assert_as_here(here, there)
        for name in names:
            folder, known = there.folder / name, cut[name][:-1]
            records = log.read(folder)
            assert [record["epoch"] for record in records] == list(range(1, 101))
            assert records[: len(known)] == known and len(known) >= 5, "with their seconds: none is trained twice"
            now = [(folder / file).stat() for file in ("log.jsonl", "result.json")]
            if name not in lost:
                assert now[0].st_ino == ended[name][0].st_ino, "it was opened once"
            if len(ended[name]) == 2:
                assert [one.st_mtime_ns for one in now] == [one.st_mtime_ns for one in ended[name]]

    def test_one_that_is_lost_again_and_again(self, nodes, small, assert_as_here):
        here, there = small("here", optim_epochs=200), small("there", optim_epochs=200, run_on="ray", run_jobs=0)
        reached = []

        def kill():
            for _ in range(4):
                wait_until(lambda: len(log.read(there.folder / "seed0")) > (reached or [1])[-1] + 1)
                reached.append(len(log.read(there.folder / "seed0")))
                for process in nodes.training():
                    os.kill(process, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(ValueError, match=r"seed0: its process or its node was lost"):
            fit(there)
        killer.join()
        assert len(reached) == 4 and load_result(there.folder / "seed0") is None
        fit(there, "last")
        fit(here)
        assert_as_here(here, there)

    def test_two_share_a_gpu(self, nodes, small, assert_as_here):
        """One that a node only says it has: Ray counts it, and PyTorch does not find it."""
        nodes.kill(nodes.second)
        nodes.cluster.add_node(num_cpus=4, num_gpus=1)
        options = {"protocol_seeds": (0, 1), "optim_epochs": 300}
        here, there = small("here", **options), small("there", **options, run_on="ray", run_jobs=2, run_device="auto")
        at_once = []

        def look():
            wait_until(lambda: all(log.read(there.folder / f"seed{seed}") for seed in (0, 1)))
            at_once.extend(load_result(there.folder / f"seed{seed}") for seed in (0, 1))

        looker = threading.Thread(target=look)
        looker.start()
        fit(there)
        looker.join()
        assert at_once == [None, None], "neither waited for the other to end"
        assert '"gpu": "GPU"' in (there.folder / "environment.json").read_text()
        fit(here)
        assert_as_here(here, there)

    def test_one_that_fails_by_itself_is_not_started_again(self, nodes, folds):
        config, said = folds("there", run_on="ray", optim_lr=1e30), io.StringIO()
        with pytest.raises(ValueError, match=r"seed0/fold\d: .*(loss became|no longer finite).* \(and 3 more failed\)"):
            train(config, None, Console(file=said, width=1000))
        assert "started again" not in said.getvalue() and said.getvalue().count("the others continue") == 3

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_trainings_end_with_their_command(self, number, nodes, folds, assert_as_here, tmp_path):
        config = folds("there", optim_epochs=100_000, run_on="ray")
        save(config, tmp_path)
        words = [sys.executable, "-m", "pggnn", "train", "--config", str(tmp_path / "config.yaml")]
        command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        first, second = (config.folder / f"seed0/fold{fold}" for fold in range(2))
        wait_until(lambda: min(len(log.read(first)), len(log.read(second))) > 2)
        at_work = nodes.training()
        assert len(at_work) == 2
        command.send_signal(number)
        said, _ = command.communicate(timeout=600)
        assert command.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number], said
        if number != signal.SIGKILL:
            last = said.splitlines()[-1]
            assert last.startswith("pggnn: interrupted: the checkpoint of the last whole epoch is "), said
        wait_until(lambda: not any(Path(f"/proc/{process}").exists() for process in at_work))
        epochs = max(len(log.read(one)) for one in (first, second)) + 1
        shorter = folds("there", optim_epochs=epochs, run_on="ray")
        fit(shorter, "last")
        here = folds("here", optim_epochs=epochs)
        fit(here)
        assert_as_here(here, shorter)

    def test_a_node_that_does_not_see_the_folder(self, environment, nodes, folds, tmp_path):
        """It has a file system of its own there."""
        alone = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--mount", "--map-root-user"]
        if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True).returncode:
            pytest.skip("needs unshare, and the right to use it")
        config = folds("there", run_on="ray")
        nodes.kill(nodes.second)
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus", "4", "--block"]
        blind = f"mount -t tmpfs none {tmp_path} && exec {' '.join(ray)} --address {nodes.cluster.address}"
        process = subprocess.Popen([*alone, "sh", "-c", blind], start_new_session=True)
        try:
            with pytest.raises(ValueError, match=r"^node .* does not see .*errors.txt: .* that all nodes share$"):
                wait_until(lambda: cluster.room(config) >= 4)
                fit(config)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()

    def test_no_cluster_answers(self, environment, small, monkeypatch):
        import ray

        ray.shutdown()
        for address in ("localhost:1", "nowhere"):
            monkeypatch.setenv("RAY_ADDRESS", address)
            with pytest.raises(ValueError, match=f"^no Ray cluster answers at RAY_ADDRESS {address}: "):
                fit(small(run_on="ray"))
