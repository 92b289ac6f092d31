"""What deploys a cluster: the Dockerfile, the compose file, the manifests and the units, read as their tools do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from cryptography import x509

from aiostorm.cli import cli

from .kubernetes import (
    KINDS,
    Claim,
    ConfigMap,
    Deployment,
    Kustomization,
    NetworkPolicy,
    Object,
    PodDisruptionBudget,
    Service,
    StatefulSet,
    Template,
)

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SUPERVISORS = "StatefulSet aiostorm-supervisor"
POLICY = "NetworkPolicy aiostorm-supervisor"


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


def test_the_other_compose_file_is_two_nodes_with_certificates_of_their_own():
    [found] = documents("compose-several.yaml")
    services = found["services"]
    image = {name: each for name, each in services.items() if each["image"] == "aiostorm"}
    assert set(services) - set(image) == {"zookeeper"}
    for name, service in image.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "ports" not in service
        assert all(volume.partition(":")[0] in found["volumes"] for volume in service["volumes"])
        if name == "certificates":
            continue
        parses(service["command"])
        assert service["environment"]["AIOSTORM_STORE"] == "zk://zookeeper:2181/aiostorm"
        assert service["depends_on"]["certificates"] == {"condition": "service_completed_successfully"}
    nodes = {name: each["command"] for name, each in services.items() if each.get("command", [""])[0] == "supervisor"}
    assert len(nodes) == 2
    script = services["certificates"]["command"][0]
    for name, command in nodes.items():
        assert command[command.index("--host") + 1] == name
        folder = command[command.index("--credentials") + 1]
        assert f"--node {name}" in script
        assert folder == f"/certificates/certs/nodes/{name}"
    assert [each["command"][0] for each in services.values() if "command" in each].count("nimbus") == 2


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def objects(folder: str) -> dict[str, Object]:
    """All objects of a folder, each as its kind says, by kind and name."""
    [kustomization] = documents(f"kubernetes/{folder}/kustomization.yaml")
    files = Kustomization.model_validate(kustomization).resources
    there = sorted(each.name for each in (DEPLOY / "kubernetes" / folder).iterdir())
    assert sorted([*files, "kustomization.yaml"]) == there
    read = [each for file in files for each in documents(f"kubernetes/{folder}/{file}")]
    return {f"{each['kind']} {each['metadata']['name']}": KINDS[each["kind"]].model_validate(each) for each in read}


def check_pod(template: Template, claims: list[Claim], maps: set[str]) -> None:
    """Its containers start daemons, and mount what there is."""
    pod = template.spec
    volumes = {each.name for each in pod.volumes} | {each.metadata.name for each in claims}
    mounted: set[str] = set()
    for container in pod.containers:
        parses(container.args)
        program, *arguments = container.readinessProbe.exec.command
        assert program == "aiostorm"
        parses(arguments)
        assert container.resources.limits.memory
    for container in (*pod.initContainers, *pod.containers):
        mounted |= {mount.name for mount in container.volumeMounts}
        for variable in container.env:
            source = variable.valueFrom.configMapKeyRef
            assert source is None or f"{source.name}/{source.key}" in maps
    assert mounted == volumes
    user = dict(instructions())["USER"].split(":")
    assert user == [str(pod.securityContext.runAsUser), str(pod.securityContext.runAsGroup)]


def test_one_pod_is_a_cluster():
    found = objects("one-pod")
    assert set(found) == {"StatefulSet aiostorm", "NetworkPolicy aiostorm"}
    cluster, policy = found["StatefulSet aiostorm"], found["NetworkPolicy aiostorm"]
    assert isinstance(cluster, StatefulSet)
    assert isinstance(policy, NetworkPolicy)
    spec = cluster.spec
    labels = spec.template.metadata.labels
    assert spec.selector.matchLabels == labels == policy.spec.podSelector.matchLabels
    assert policy.spec.ingress == []
    check_pod(spec.template, spec.volumeClaimTemplates, set())
    pod = spec.template.spec
    assert [each.args[0] for each in pod.containers] == ["nimbus", "nimbus", "supervisor"]
    volumes = {each.name for each in pod.volumes} | {"home"}
    assert all({mount.name for mount in each.volumeMounts} == volumes for each in pod.containers)
    assert spec.replicas == 1, "without --host the processes of a topology find each other by sockets"


def test_several_nodes_have_two_nimbuses_and_supervisors_with_names():
    found = objects("several-nodes")
    settings, nimbus, nodes = (
        found[name] for name in ("ConfigMap aiostorm", "Deployment aiostorm-nimbus", SUPERVISORS)
    )
    assert isinstance(settings, ConfigMap)
    assert isinstance(nimbus, Deployment)
    assert isinstance(nodes, StatefulSet)
    maps = {f"aiostorm/{key}" for key in settings.data}
    check_pod(nimbus.spec.template, [], maps)
    check_pod(nodes.spec.template, nodes.spec.volumeClaimTemplates, maps)
    assert nimbus.spec.replicas == 2
    assert nimbus.spec.selector.matchLabels == nimbus.spec.template.metadata.labels
    labels = nodes.spec.selector.matchLabels
    assert labels == nodes.spec.template.metadata.labels
    service, budget, policy = (
        found[name] for name in ("Service aiostorm-supervisors", "PodDisruptionBudget aiostorm-supervisor", POLICY)
    )
    assert isinstance(service, Service)
    assert isinstance(budget, PodDisruptionBudget)
    assert isinstance(policy, NetworkPolicy)
    assert nodes.spec.serviceName == service.metadata.name
    assert labels == service.spec.selector == budget.spec.selector.matchLabels == policy.spec.podSelector.matchLabels
    assert [peer.podSelector.matchLabels for rule in policy.spec.ingress for peer in rule.from_] == [labels]
    [supervisor] = nodes.spec.template.spec.containers
    host = supervisor.args[supervisor.args.index("--host") + 1]
    assert host == f"$(POD).{service.metadata.name}", "the name that its certificate has"
    [copies] = nodes.spec.template.spec.initContainers
    assert supervisor.args[supervisor.args.index("--credentials") + 1] == "/credentials/node"
    assert "/credentials/node/$file" in copies.args[0]
    page = (ROOT / "docs/how-to/cluster-in-containers.md").read_text()
    for pod in range(nodes.spec.replicas):
        assert f"aiostorm-supervisor-{pod}" in page, "its certificate is made there"


def test_each_node_of_the_manifests_gets_the_files_of_its_certificate(tmp_path: Path):
    """The commands of the page and of the pod, with the shell."""
    page = (ROOT / "docs/how-to/cluster-in-containers.md").read_text()
    [block] = re.findall(r"```console\n(aiostorm certs init.*?)```", page, re.DOTALL)
    commands = block.partition("kubectl apply")[0]
    aiostorm = f'aiostorm() {{ {sys.executable} -m aiostorm "$@"; }}\n'
    kubectl = (
        'kubectl() { shift 4; for each; do each=${each#--from-file=}; cp "${each#*=}" "secret/${each%%=*}"; done; }\n'
    )
    (tmp_path / "secret").mkdir()
    subprocess.run(["sh", "-euc", aiostorm + kubectl + commands], cwd=tmp_path, check=True, capture_output=True)
    nodes = objects("several-nodes")[SUPERVISORS]
    assert isinstance(nodes, StatefulSet)
    [copies] = nodes.spec.template.spec.initContainers
    program, options = copies.command
    for pod in range(nodes.spec.replicas):
        name = f"aiostorm-supervisor-{pod}"
        script = (
            copies.args[0].replace("/secret", str(tmp_path / "secret")).replace("/credentials", str(tmp_path / name))
        )
        subprocess.run([program, options, script], check=True, env={"POD": name, "PATH": os.environ["PATH"]})
        made = {each.name: each for each in (tmp_path / name / "node").iterdir()}
        assert set(made) == {"certificate.pem", "key.pem", "ca.pem", "credentials"}
        assert {each.stat().st_mode & 0o777 for each in made.values()} == {0o600}
        certificate = x509.load_pem_x509_certificate(made["certificate.pem"].read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert f"{name}.aiostorm-supervisors" in names.get_values_for_type(x509.DNSName)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
@pytest.mark.parametrize("folder", ["one-pod", "several-nodes"])
def test_kubectl_reads_the_manifests(folder: str):
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes" / folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    read = [f"{each['kind']} {each['metadata']['name']}" for each in yaml.safe_load_all(done.stdout)]
    assert sorted(read) == sorted(objects(folder))


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
