"""What deploys a cluster: the Dockerfile, the compose file, the manifests and the units, read as their tools do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from aiostorm.cli import cli

from .kubernetes import Kustomization, NetworkPolicy, StatefulSet

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def parses(arguments: list[str]) -> None:
    """The command line accepts this. A usage error is raised."""
    name, *rest = arguments
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, name
    command.make_context(name, [each.replace("$(POD)", "pod-0") for each in rest])


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments) of the Dockerfile."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


# -- the image ---------------------------------------------------------------------------------------------------------


def test_the_image_is_pinned_small_and_not_root():
    lines = instructions()
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in lines} <= known
    arguments = dict(rest.split("=", 1) for name, rest in lines if name == "ARG")
    assert re.fullmatch(r"3\.\d+\.\d+-slim-\w+", arguments["PYTHON"])
    stages = [rest for name, rest in lines if name == "FROM"]
    assert stages == ["python:${PYTHON} AS build", "python:${PYTHON}"]  # the compiler and the sources stay in the first
    last = lines[max(i for i, (name, _) in enumerate(lines) if name == "FROM") :]
    assert [rest for name, rest in last if name == "COPY"] == ["--from=build /opt/aiostorm /opt/aiostorm"]
    users = [rest for name, rest in last if name == "USER"]
    assert users == ["10001:10001"]
    assert not any(word in rest.lower() for _, rest in lines for word in ("token", "password", "curl ", "wget "))


def test_the_image_starts_a_daemon_and_its_health_is_asked_for():
    found = dict(instructions())
    assert yaml.safe_load(found["ENTRYPOINT"]) == ["aiostorm"]
    parses(yaml.safe_load(found["CMD"]))
    options, command = found["HEALTHCHECK"].split(" CMD ")
    assert re.fullmatch(r"(--(interval|timeout|start-period|retries)=\d+s?\s?)+", options)
    program, *arguments = yaml.safe_load(command)
    assert program == "aiostorm"
    parses(arguments)


def test_the_image_is_built_of_the_package_only():
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in kept)
    linked = {path.resolve().name for path in (ROOT / "aiostorm").iterdir() if path.is_symlink()}
    assert linked <= set(kept), "a package is missing in the image"
    extras = re.search(r"\.\[([a-z,]+)\]", (DEPLOY / "Dockerfile").read_text())
    assert extras is not None
    known = re.findall(r"^([a-z-]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert set(extras[1].split(",")) <= set(known)


# -- compose -----------------------------------------------------------------------------------------------------------


def test_the_compose_file_is_a_cluster_on_one_host():
    [found] = documents("compose.yaml")
    assert set(found) == {"name", "x-daemon", "services", "volumes"}
    commands = [service["command"] for service in found["services"].values()]
    assert sorted(command[0] for command in commands) == ["nimbus", "nimbus", "supervisor"]
    for command in commands:
        parses(command)
    for service in found["services"].values():
        assert service["init"] is True
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "ports" not in service
        assert service["volumes"] == ["home:/var/lib/aiostorm"]
        context = (DEPLOY / service["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / service["build"]["dockerfile"]).is_file()
    assert set(found["volumes"]) == {"home"}


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def test_the_manifests_are_what_kubernetes_knows():
    [kustomization] = documents("kubernetes/kustomization.yaml")
    files = Kustomization.model_validate(kustomization).resources
    assert sorted([*files, "kustomization.yaml"]) == sorted(each.name for each in (DEPLOY / "kubernetes").iterdir())
    [cluster] = documents("kubernetes/cluster.yaml")
    [policy] = documents("kubernetes/network-policy.yaml")
    spec = StatefulSet.model_validate(cluster).spec
    labels = spec.template.metadata.labels
    assert spec.selector.matchLabels == labels == NetworkPolicy.model_validate(policy).spec.podSelector.matchLabels
    assert NetworkPolicy.model_validate(policy).spec.ingress == []
    pod = spec.template.spec
    volumes = {each.name for each in pod.volumes} | {each.metadata.name for each in spec.volumeClaimTemplates}
    assert [each.args[0] for each in pod.containers] == ["nimbus", "nimbus", "supervisor"]
    for container in pod.containers:
        parses(container.args)
        program, *arguments = container.readinessProbe.exec.command
        assert program == "aiostorm"
        parses(arguments)
        assert {mount.name for mount in container.volumeMounts} == volumes
        assert container.resources.limits.memory
    assert spec.replicas == 1, "without --host the processes of a topology find each other by sockets"
    user = dict(instructions())["USER"].split(":")
    assert user == [str(pod.securityContext.runAsUser), str(pod.securityContext.runAsGroup)]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_reads_the_manifests():
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(each["kind"] for each in yaml.safe_load_all(done.stdout)) == ["NetworkPolicy", "StatefulSet"]


# -- systemd -----------------------------------------------------------------------------------------------------------


def units() -> dict[str, str]:
    text = (ROOT / "docs/how-to/run-a-cluster.md").read_text()
    return dict(re.findall(r"```ini\n# (\w+\.service)\n(.*?)```", text, re.DOTALL))


def test_the_units_start_the_daemons():
    found = units()
    assert set(found) == {"nimbus.service", "supervisor.service"}
    for unit in found.values():
        command = re.search(r"^ExecStart=\S+/aiostorm (.*)$", unit, re.MULTILINE)
        assert command is not None
        parses(command[1].split())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_accepts_the_units(tmp_path: Path):
    for name, unit in units().items():
        file = tmp_path / name
        # The program is not where the unit has it.
        file.write_text(re.sub(r"^ExecStart=\S+/aiostorm", f"ExecStart={sys.executable}", unit, flags=re.MULTILINE))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        said = [line for line in done.stderr.splitlines() if name in line]
        assert said == [], name
