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


class ConfigMapKeyRef(Strict):
    name: str
    key: str


class ValueFrom(Strict):
    fieldRef: FieldRef | None = None  # noqa: N815
    configMapKeyRef: ConfigMapKeyRef | None = None  # noqa: N815


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
    readOnly: bool = False  # noqa: N815


class InitContainer(Strict):
    name: str
    image: str
    command: list[str] = []
    args: list[str]
    env: list[Environment] = []
    securityContext: ContainerSecurity  # noqa: N815
    resources: Resources
    volumeMounts: list[Mount]  # noqa: N815


class Container(InitContainer):
    readinessProbe: Probe  # noqa: N815


class EmptyDir(Strict):
    medium: Literal["", "Memory"] = ""
    sizeLimit: str  # noqa: N815


class SecretSource(Strict):
    secretName: str  # noqa: N815
    defaultMode: int  # noqa: N815


class ClaimSource(Strict):
    claimName: str  # noqa: N815


class Volume(Strict):
    name: str
    emptyDir: EmptyDir | None = None  # noqa: N815
    secret: SecretSource | None = None
    persistentVolumeClaim: ClaimSource | None = None  # noqa: N815


class Spread(Strict):
    maxSkew: int  # noqa: N815
    topologyKey: Literal["kubernetes.io/hostname"]  # noqa: N815
    whenUnsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"]  # noqa: N815
    labelSelector: Selector  # noqa: N815


class PodSpec(Strict):
    automountServiceAccountToken: Literal[False]  # noqa: N815
    shareProcessNamespace: bool = False  # noqa: N815
    terminationGracePeriodSeconds: int  # noqa: N815
    securityContext: PodSecurity  # noqa: N815
    topologySpreadConstraints: list[Spread] = []  # noqa: N815
    initContainers: list[InitContainer] = []  # noqa: N815
    containers: list[Container]
    volumes: list[Volume]


class Template(Strict):
    metadata: Metadata
    spec: PodSpec


class ClaimSpec(Strict):
    accessModes: list[Literal["ReadWriteOnce", "ReadWriteMany"]]  # noqa: N815
    resources: Resources


class Claim(Strict):
    metadata: Metadata
    spec: ClaimSpec


class PersistentVolumeClaim(Claim):
    apiVersion: Literal["v1"]  # noqa: N815
    kind: Literal["PersistentVolumeClaim"]


class ConfigMap(Strict):
    apiVersion: Literal["v1"]  # noqa: N815
    kind: Literal["ConfigMap"]
    metadata: Metadata
    data: dict[str, str]


class DeploymentSpec(Strict):
    replicas: int
    selector: Selector
    template: Template


class Deployment(Strict):
    apiVersion: Literal["apps/v1"]  # noqa: N815
    kind: Literal["Deployment"]
    metadata: Metadata
    spec: DeploymentSpec


class ServiceSpec(Strict):
    clusterIP: Literal["None"]  # noqa: N815
    publishNotReadyAddresses: bool  # noqa: N815
    selector: dict[str, str]


class Service(Strict):
    apiVersion: Literal["v1"]  # noqa: N815
    kind: Literal["Service"]
    metadata: Metadata
    spec: ServiceSpec


class BudgetSpec(Strict):
    maxUnavailable: int  # noqa: N815
    selector: Selector


class PodDisruptionBudget(Strict):
    apiVersion: Literal["policy/v1"]  # noqa: N815
    kind: Literal["PodDisruptionBudget"]
    metadata: Metadata
    spec: BudgetSpec


class StatefulSetSpec(Strict):
    serviceName: str  # noqa: N815
    replicas: int
    podManagementPolicy: Literal["OrderedReady", "Parallel"] = "OrderedReady"  # noqa: N815
    selector: Selector
    template: Template
    volumeClaimTemplates: list[Claim]  # noqa: N815


class StatefulSet(Strict):
    apiVersion: Literal["apps/v1"]  # noqa: N815
    kind: Literal["StatefulSet"]
    metadata: Metadata
    spec: StatefulSetSpec


class Peer(Strict):
    podSelector: Selector  # noqa: N815


class Ingress(Strict):
    from_: list[Peer] = Field(alias="from")


class PolicySpec(Strict):
    podSelector: Selector  # noqa: N815
    policyTypes: list[Literal["Ingress", "Egress"]]  # noqa: N815
    ingress: list[Ingress]


class NetworkPolicy(Strict):
    apiVersion: Literal["networking.k8s.io/v1"]  # noqa: N815
    kind: Literal["NetworkPolicy"]
    metadata: Metadata
    spec: PolicySpec


class Kustomization(Strict):
    apiVersion: Literal["kustomize.config.k8s.io/v1beta1"]  # noqa: N815
    kind: Literal["Kustomization"]
    resources: list[str]


Object = StatefulSet | Deployment | Service | ConfigMap | PersistentVolumeClaim | PodDisruptionBudget | NetworkPolicy
KINDS = {kind.__name__: kind for kind in Object.__args__}
