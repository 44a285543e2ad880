"""The scripts of docs/machines.md, as far as they can be run without a cluster."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

PAGE = (Path(__file__).parents[2] / "docs" / "machines.md").read_text()
SLURM = re.search(r"## SLURM\n\n```sh\n(.*?)```", PAGE, re.DOTALL)[1]
SERVICE, JOB = yaml.safe_load_all(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
STAND_INS = {
    "scontrol": 'printf "node7\\nnode8\\n"',
    "srun": 'exec "$@"',
    "torchrun": 'printf "%s\\n" "$@" > said.txt',
}
"""What a cluster would answer; the last writes down how it was called."""


@pytest.fixture
def called(tmp_path):
    """Runs a script beside the stand-ins; returns what torchrun was called with."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, line in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)

    def called(script, **variables):
        environment = os.environ | variables | {"PATH": f"{folder}:{os.environ['PATH']}"}
        subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=True)
        return (tmp_path / "said.txt").read_text().splitlines()

    return called


def test_the_job_of_slurm(called, tmp_path):
    job = {"SLURM_JOB_NODELIST": "node[7-8]", "SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_ID": "123"}
    first = called(SLURM, **job)
    assert first[:8] == [
        "--nnodes", "2", "--nproc-per-node", "4", "--rdzv-backend", "c10d", "--rdzv-endpoint", "node7:29500",
    ]  # fmt: skip
    assert first[-2:] == ["--run.out", "runs/zinc"]
    (tmp_path / "runs" / "zinc").mkdir(parents=True)
    (tmp_path / "runs" / "zinc" / "config.yaml").touch()
    assert called(SLURM, **job) == [*first, "--resume"], "a job that is started again goes on"


def test_the_manifest_of_kubernetes(called):
    spec = JOB["spec"]
    pod = spec["template"]["spec"]
    assert spec["completions"] == spec["parallelism"] == 2 and spec["completionMode"] == "Indexed"
    assert SERVICE["spec"]["selector"] == {"job-name": JOB["metadata"]["name"]}
    assert pod["subdomain"] == SERVICE["metadata"]["name"]
    (container,) = pod["containers"]
    words = called(container["args"][0])
    assert words[words.index("--rdzv-endpoint") + 1] == f"{JOB['metadata']['name']}-0.{pod['subdomain']}:29500"
    assert words[:2] == ["--nnodes", str(spec["completions"])] and words[-2:] == ["--run.out", "/shared/runs/zinc"]
