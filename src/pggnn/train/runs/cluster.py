"""Trainings on the nodes of a Ray cluster, each a task of Ray.

Ray is imported only here, and only when it is asked for. A run's folder holds all that a training needs and says, so
all nodes must see it.
"""

import logging
import math
import os
import re
import signal
import socket
import threading
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from uuid import uuid4

from pggnn.train.config import Config

LOST = 77
"""What :meth:`RayTask.poll` returns for a training whose process or node was lost."""
PATIENCE = 10.0
"""Seconds in which a cluster must answer."""
PASSED_ON = ("PGGNN_", "WANDB_", "MLFLOW_")
"""Beginnings of the environment variables that nodes are given."""


def connect() -> Any:
    """The module ``ray``, connected to the cluster that ``RAY_ADDRESS`` names, or else to the one of this machine."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("run.on ray needs Ray: pip install 'pggnn[ray]'", name=error.name) from None
    if not ray.is_initialized():
        before = signal.getsignal(signal.SIGTERM)
        address = os.environ.get("RAY_ADDRESS", "")
        host, _, port = address.rpartition("/")[2].rpartition(":")
        try:
            if port.isdigit():  # Ray itself waits for minutes where nothing answers
                socket.create_connection((host, int(port)), PATIENCE).close()
            ray.init("auto", log_to_driver=False, logging_level=logging.CRITICAL)
        except (OSError, RuntimeError, ValueError) as error:
            if address:
                raise ValueError(f"no Ray cluster answers at RAY_ADDRESS {address}: {_sentence(error)}") from None
            raise ValueError(
                "run.on ray finds no Ray cluster on this machine: start one by ray start, or name one by RAY_ADDRESS"
            ) from None
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)  # Ray has set its own
    return ray


def room(config: Config) -> int:
    """How many trainings the cluster takes at once."""
    nodes, needs = _nodes(), _needs(config)
    found = sum(int(min(node.get(name, 0) / need for name, need in needs.items())) for node in nodes)
    if not found:
        wanted = " and ".join(f"{need:g} {name}" for name, need in needs.items())
        there = "; ".join(" and ".join(f"{node.get(name, 0):g} {name}" for name in needs) for node in nodes)
        raise ValueError(
            f"a training needs {wanted} of one node, and no node of the Ray cluster has so much ({there}): choose "
            "fewer run.threads, or run.device cpu"
        )
    return found


def hardware(config: Config) -> dict[str, Any]:
    """What the cluster has in all."""
    nodes, kinds = _nodes(), "accelerator_type:"
    gpus = sorted({name.removeprefix(kinds) for node in nodes for name in node if name.startswith(kinds)})
    gpu = (", ".join(gpus) or "GPU") if "GPU" in _needs(config) else None
    return {
        "processor": f"Ray cluster of {len(nodes)} node{'s' * (len(nodes) > 1)}",
        "cores": int(_total("CPU", nodes)),
        "gpu": gpu,
    }


def _nodes() -> list[dict[str, float]]:
    """The resources of each node."""
    return [node["Resources"] for node in connect().nodes() if node["Alive"]]


def _total(name: str, nodes: list[dict[str, float]]) -> float:
    return sum(node.get(name, 0) for node in nodes)


def _needs(config: Config) -> dict[str, float]:
    """What a training asks for: its threads, and a GPU where there are any, or a part of one if there are fewer than
    ``run.jobs``."""
    gpus = 0 if config.run.device == "cpu" else _total("GPU", _nodes())
    if config.run.device == "cuda" and not gpus:
        raise ValueError("run.device is cuda, but no node of the Ray cluster has a GPU: choose cpu or auto")
    share = 1 / max(1, math.ceil(config.run.jobs / gpus)) if gpus else 0
    return {"CPU": config.run.threads} | ({"GPU": math.floor(1e4 * share) / 1e4} if gpus else {})


def _sentence(error: Exception) -> str:
    """The first sentence of an error."""
    return re.split(r"\.\s|\n", f"{str(error).strip()}\n")[0].rstrip(".")


class RayTask:
    """A training on some node.

    Args:
        ray: The module.
        answer: Ray's reference to what :func:`pggnn.train.runs.worker.train_on_node` returns.
        errors: The file for its output.
    """

    expected: float | None = None
    """Unknown; bars tell the time after the second epoch."""

    def __init__(self, ray: Any, answer: Any, errors: Path) -> None:
        self._ray, self.answer, self._errors = ray, answer, errors

    def poll(self) -> int | None:
        """Its exit code, or :data:`LOST`; None while it runs or waits for room."""
        if not self._ray.wait([self.answer], timeout=0)[0]:
            return None
        try:
            said = self._ray.get(self.answer)
        except self._ray.exceptions.RayError as error:
            own = isinstance(error, self._ray.exceptions.RayTaskError)
            self._errors.write_text(str(error) if own else f"its process or its node was lost: {_sentence(error)}")
            return 1 if own else LOST
        if isinstance(said, str):
            raise ValueError(said)
        return int(said)


class RayPool:
    """Starts trainings on the cluster; where there is no room for one, Ray has it wait."""

    def __init__(self, config: Config) -> None:
        self._ray, needs, self._tasks = connect(), _needs(config), list[RayTask]()
        self._train = self._ray.remote(
            num_cpus=needs["CPU"], num_gpus=needs.get("GPU", 0), max_retries=0, scheduling_strategy="SPREAD"
        )(resolve_name("pggnn.train.runs.worker:train_on_node"))
        self._environment = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}

    def start(self, arguments: list[str], errors: Path) -> RayTask:
        """Has a node train. It must find in the file ``errors`` what is written there now."""
        token = uuid4().hex
        errors.unlink(missing_ok=True)  # a process whose node was lost may still write to the one before
        errors.write_text(token)
        answer = self._train.remote(os.getcwd(), self._environment, str(errors), token, arguments)
        self._tasks.append(RayTask(self._ray, answer, errors))
        return self._tasks[-1]

    def close(self) -> None:
        """Ends all that still train or wait."""
        for task in self._tasks:
            if not self._ray.wait([task.answer], timeout=0)[0]:
                self._ray.cancel(task.answer, force=True)
