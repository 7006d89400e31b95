"""Example files for Slurm and Kubernetes can be parsed, and their commands exist with these options."""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from distributed.cli import dask_scheduler, dask_worker

from dfstrans.scale.fleet import KEPT_MEMORY

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted((EXAMPLES / "slurm").iterdir())
MANIFESTS = sorted((EXAMPLES / "kubernetes").iterdir())
DASK = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}


def accepted(words: list[str]) -> dict[str, Any]:
    """Parse a command line as its program does, and return the values of its parameters."""
    program, name, *arguments = words
    ours = program == "dfstrans"
    command = typer.main.get_command(import_module(f"dfstrans.cli.{name}").app) if ours else DASK[name]
    found = dict(command.make_context(name, arguments).params)
    strange = [value for value in found.values() if str(value).startswith("-")]  # dask takes them for addresses
    assert not strange, "no such option"
    return found


def commands(text: str) -> list[list[str]]:
    """The commands of dfstrans and dask in a script, which `srun` may precede."""
    found = re.findall(r"^(?:srun .*?)?\b((?:dfstrans|dask) .*?)&?$", text, re.MULTILINE)
    return [shlex.split(line) for line in found]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_slurm_script_is_valid_and_its_commands_exist(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text(encoding="utf-8")
    found = {tuple(words[:2]): accepted(words) for words in commands(text)}
    assert text.startswith("#!/bin/bash\n")  # without it, Slurm refuses the script
    if script.name == "train.sbatch":
        train = found["dfstrans", "train"]
        assert f"#SBATCH --nodes={train['nodes']}\n#SBATCH --ntasks-per-node=1\n" in text
    else:
        assert set(found) == {("dask", "scheduler"), ("dask", "worker"), ("dfstrans", "score")}
        assert f"#SBATCH --cpus-per-task={found['dask', 'worker']['n_workers']}\n" in text
        assert all(f" {name}={value}" in text for name, value in KEPT_MEMORY.items())


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_a_kubernetes_manifest_is_valid_and_its_commands_exist(manifest: Path) -> None:
    objects = {}
    for one in yaml.safe_load_all(manifest.read_text(encoding="utf-8")):
        assert {"apiVersion", "kind", "metadata", "spec"} == set(one)
        objects[one["kind"], one["metadata"]["name"]] = one["spec"]
    (service,) = (name for kind, name in objects if kind == "Service")
    found = {}
    for (kind, _), spec in objects.items():
        if kind == "Service":
            continue
        labels = spec["template"].get("metadata", {}).get("labels")
        assert kind == "Job" or spec["selector"]["matchLabels"] == labels
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert all(isinstance(word, str) for word in container["command"])
        assert {one["name"] for one in container.get("volumeMounts", [])} == {
            one["name"] for one in pod.get("volumes", [])
        }
        found[tuple(container["command"][:2])] = accepted(container["command"])
    if manifest.name == "train.yaml":
        job, train = objects["Job", "train"], found["dfstrans", "train"]
        assert job["completions"] == job["parallelism"] == train["nodes"]
        environment = {one["name"]: one["value"] for one in job["template"]["spec"]["containers"][0]["env"]}
        assert environment["MASTER_ADDR"] == f"train-0.{service}" == f"train-0.{job['template']['spec']['subdomain']}"
    else:
        assert set(found) == {("dask", "scheduler"), ("dask", "worker"), ("dfstrans", "score")}
        assert (
            found["dfstrans", "score"]["scheduler"] == found["dask", "worker"]["scheduler"] == f"tcp://{service}:8786"
        )
        (worker,) = objects["Deployment", "fleet-workers"]["template"]["spec"]["containers"]
        environment = {one["name"]: one["value"] for one in worker["env"]}
        assert {name: str(value) for name, value in KEPT_MEMORY.items()}.items() <= environment.items()
        scheduler = objects["Deployment", "fleet-scheduler"]["template"]["metadata"]["labels"]
        assert objects["Service", service]["selector"] == scheduler


def test_an_unknown_option_is_noticed() -> None:
    for words in (["dfstrans", "score", "m", "d", "--out", "r", "--no-such"], ["dask", "worker", "--no-such"]):
        with pytest.raises(Exception, match=r"(?i)no such option"):
            accepted(words)
