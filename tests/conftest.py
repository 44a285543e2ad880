import os

if "PYTEST_XDIST_WORKER" in os.environ:  # other processes test on the other cores; NumPy reads it once
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import shutil
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # the fused kernels then run on the CPU
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # deterministic matrix products
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # other work on the machine may slow tests down as much as it likes


def pytest_collection_finish():
    """What has been imported lives as long as the tests: nobody looks there for garbage again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Or libraries would say at the end that it was never given back."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Every test runs with deterministic algorithms, which also fills fresh memory with NaN."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    assert torch.empty(1).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Tests keep their caches to themselves, one for all processes that test."""
    several = "PYTEST_XDIST_WORKER" in os.environ
    folder = tmp_path_factory.getbasetemp().parent / "cache" if several else tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGGNN_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def swift_interpreter():
    """Triton's interpreter, where kernels run in it, without what takes most of its time and changes nothing."""
    if "TRITON_INTERPRET" not in os.environ or find_spec("triton") is None:
        yield
        return
    from interpreter import make_swift

    with pytest.MonkeyPatch.context() as patch:
        make_swift(patch)
        yield


@pytest.fixture(scope="session")
def trainings_in_this_process():
    """Stands for processes that train, where it does not matter who does: one takes seconds to start."""
    from pggnn.train.runs.worker import run

    class InThisProcess:
        def start(self, arguments, errors):
            with open(errors, "a") as file, redirect_stderr(file):
                expected: list[float] = []
                code = run(arguments, expected.append)
            return SimpleNamespace(poll=lambda: code, expected=next(iter(expected), None))

        def close(self):
            pass

    return InThisProcess


@pytest.fixture
def in_this_process(monkeypatch, trainings_in_this_process):
    """Trainings side by side are trained here, one after another."""
    monkeypatch.setattr("pggnn.train.runs.pool.WorkerPool", trainings_in_this_process)


@pytest.fixture(scope="session")
def data_root():
    """The folder of the real data sets; tests that need them are skipped where there is none."""
    root = Path(os.environ.get("PGGNN_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not (root / "tu" / "MUTAG.zip").exists():
        pytest.skip(f"the real data sets are not at {root}; set PGGNN_DATA to their folder")
    return root.resolve()


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage")  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """A real browser, one for all tests of a file; they are skipped where none is installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install playwright")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Opens an HTML file without a network; at the end the console has no errors, and nothing else was asked for."""
    complaints, opened = [], []

    def visit(file, width=1280, scheme="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, **options
        )
        page = context.new_page()
        opened.append(context)
        page.set_default_timeout(10_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        address = Path(file).resolve().as_uri()
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url.split("#")[0] != address else None)
        page.add_init_script(path=Path(__file__).parent / "checks.js")
        page.goto(address)
        return page

    yield visit
    for context in opened:
        context.close()
    assert complaints == []
