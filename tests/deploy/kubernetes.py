"""The fields of Kubernetes' objects that the manifests use, strictly: a field that is not here is a mistake.

From the API reference of Kubernetes 1.33: https://kubernetes.io/docs/reference/kubernetes-api/
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Metadata(Strict):
    name: str = ""
    labels: dict[str, str] = {}


class Selector(Strict):
    matchLabels: dict[str, str]  # noqa: N815


class Capabilities(Strict):
    drop: list[Literal["ALL"]]


class ContainerSecurity(Strict):
    allowPrivilegeEscalation: Literal[False]  # noqa: N815
    readOnlyRootFilesystem: Literal[True]  # noqa: N815
    capabilities: Capabilities


class Seccomp(Strict):
    type: Literal["RuntimeDefault"]


class PodSecurity(Strict):
    runAsNonRoot: Literal[True]  # noqa: N815
    runAsUser: int = Field(gt=0)  # noqa: N815
    runAsGroup: int = Field(gt=0)  # noqa: N815
    fsGroup: int = Field(gt=0)  # noqa: N815
    fsGroupChangePolicy: Literal["OnRootMismatch", "Always"]  # noqa: N815
    seccompProfile: Seccomp  # noqa: N815


class FieldRef(Strict):
    fieldPath: Literal["metadata.name", "metadata.namespace", "spec.nodeName", "status.podIP"]  # noqa: N815


class ValueFrom(Strict):
    fieldRef: FieldRef  # noqa: N815


class Environment(Strict):
    name: str
    valueFrom: ValueFrom  # noqa: N815


class Exec(Strict):
    command: list[str]


class Probe(Strict):
    exec: Exec
    initialDelaySeconds: int = 0  # noqa: N815
    periodSeconds: int = 10  # noqa: N815
    timeoutSeconds: int = 1  # noqa: N815


class Requests(Strict):
    cpu: str = ""
    memory: str = ""
    storage: str = ""


class Resources(Strict):
    requests: Requests
    limits: Requests = Requests()


class Mount(Strict):
    name: str
    mountPath: str = Field(pattern="^/")  # noqa: N815


class Container(Strict):
    name: str
    image: str
    args: list[str]
    env: list[Environment] = []
    securityContext: ContainerSecurity  # noqa: N815
    resources: Resources
    readinessProbe: Probe  # noqa: N815
    volumeMounts: list[Mount]  # noqa: N815


class EmptyDir(Strict):
    medium: Literal["", "Memory"]
    sizeLimit: str  # noqa: N815


class Volume(Strict):
    name: str
    emptyDir: EmptyDir  # noqa: N815


class PodSpec(Strict):
    automountServiceAccountToken: Literal[False]  # noqa: N815
    shareProcessNamespace: bool  # noqa: N815
    terminationGracePeriodSeconds: int  # noqa: N815
    securityContext: PodSecurity  # noqa: N815
    containers: list[Container]
    volumes: list[Volume]


class Template(Strict):
    metadata: Metadata
    spec: PodSpec


class ClaimSpec(Strict):
    accessModes: list[Literal["ReadWriteOnce"]]  # noqa: N815
    resources: Resources


class Claim(Strict):
    metadata: Metadata
    spec: ClaimSpec


class StatefulSetSpec(Strict):
    serviceName: str  # noqa: N815
    replicas: int
    selector: Selector
    template: Template
    volumeClaimTemplates: list[Claim]  # noqa: N815


class StatefulSet(Strict):
    apiVersion: Literal["apps/v1"]  # noqa: N815
    kind: Literal["StatefulSet"]
    metadata: Metadata
    spec: StatefulSetSpec


class PolicySpec(Strict):
    podSelector: Selector  # noqa: N815
    policyTypes: list[Literal["Ingress", "Egress"]]  # noqa: N815
    ingress: list[dict[str, object]]


class NetworkPolicy(Strict):
    apiVersion: Literal["networking.k8s.io/v1"]  # noqa: N815
    kind: Literal["NetworkPolicy"]
    metadata: Metadata
    spec: PolicySpec


class Kustomization(Strict):
    apiVersion: Literal["kustomize.config.k8s.io/v1beta1"]  # noqa: N815
    kind: Literal["Kustomization"]
    resources: list[str]
