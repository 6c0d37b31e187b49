"""The kustomize folders of the agent: base, stable, unstable, and a component for each access that a choice opens.

The base has the access for `modes = ["nri", "standalone"]` with rules and pods from the apiserver. Each component
opens one more thing, with its reason.
"""

from __future__ import annotations

from typing import Any

import yaml

from tools.deployment.agent.table import (
    CONFIG_DIR,
    DEFAULTS,
    FIXED,
    HEALTH_PORT,
    IMAGE,
    NAME,
    RBAC,
    SOCKET_DIR,
    Row,
    read,
)
from tools.deployment.kustomize import COMPONENT, KUSTOMIZATION, OVER_BASE, of_pod
from tools.deployment.table import Mount

HEAD = "# Written by tools/generate_deploy.py from deploy/agent.yaml.\n"

BASE = """\
{kustomization}namespace: kube-system
resources:
  - daemonset.yaml
  - rbac.yaml
images:
  - name: agent
    newName: {image}
configMapGenerator:
  - name: {name}
    files:
      - agent.yaml
labels:
  - pairs:
      app.kubernetes.io/name: {name}
  - pairs:
      app.kubernetes.io/component: {name}
    includeTemplates: true
"""

DAEMON_SET = """\
# Koordinator's QoS rules for the pods of each node. Its settings are in agent.yaml.
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {name}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {name}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 1
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {name}
    spec:
      # It must start before the pods that it decides for, on every node.
      priorityClassName: system-node-critical
      serviceAccountName: {name}
      enableServiceLinks: false
      terminationGracePeriodSeconds: 10
      nodeSelector:
        kubernetes.io/os: linux
      tolerations:
        - operator: Exists
      containers:
        - name: agent
          image: agent:latest
          args: [agent, run, --config, {config_dir}/agent.yaml]
          env:
            - name: NODE_NAME
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
            - name: NRI_AGENT_SOCKET # for nri agent explain in this container
              value: {socket}
          ports:
            - name: http # /healthz, /readyz, /metrics
              containerPort: {port}
          livenessProbe:
            httpGet:
              path: /healthz
              port: http
            failureThreshold: 6
          readinessProbe:
            httpGet:
              path: /readyz
              port: http
          resources:
            requests:
              cpu: "10m"
              memory: "64Mi"
            limits:
              memory: "256Mi"
          securityContext:
            runAsUser: 0 # cgroups and the runtime's socket belong to root; all other capabilities are dropped
            runAsGroup: 0
            privileged: false
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop:
                - ALL
              add: [] # components append to this list
            seccompProfile:
              type: RuntimeDefault
          volumeMounts:
            - name: config
              mountPath: {config_dir}
              readOnly: true
            # The socket of nri agent explain; only root can open it.
            - name: socket
              mountPath: {socket_dir}
{mounts}      volumes:
        - name: config
          configMap:
            name: {name}
        - name: socket
          emptyDir:
            medium: Memory
            sizeLimit: 1Mi
{volumes}"""

TEMPLATE = "/spec/template/spec"
CONTAINER = f"{TEMPLATE}/containers/0"


def files() -> dict[str, str]:
    """The agent's files below deploy/kustomize, by path."""
    rows = read()
    texts = {
        "base/daemonset.yaml": daemon_set([mount for row in rows if row.in_base for mount in row.mounts]),
        "base/agent.yaml": yaml.safe_dump(DEFAULTS | FIXED, sort_keys=False),
        "base/kustomization.yaml": BASE.format(kustomization=KUSTOMIZATION, image=IMAGE, name=NAME),
        "base/rbac.yaml": RBAC.read_text(encoding="utf-8"),
        **OVER_BASE,
    }
    for row in rows:
        if row.opens and not row.in_base and not row.unit_only:
            texts |= {f"components/{row.name}/{path}": text for path, text in component(row).items()}
    return {f"agent/{path}": HEAD + text for path, text in texts.items()}


def daemon_set(mounts: list[Mount]) -> str:
    """The DaemonSet of the base."""
    return DAEMON_SET.format(
        name=NAME,
        config_dir=CONFIG_DIR,
        socket_dir=SOCKET_DIR,
        socket=FIXED["socket"],
        port=HEALTH_PORT,
        **of_pod(mounts),
    )


def component(row: Row) -> dict[str, str]:
    """The files of what a choice opens, each with its reason."""
    base = {mount.name for role in read() if role.in_base for mount in role.mounts}
    patches: list[dict[str, Any]] = []
    for mount in row.mounts:
        if mount.name in base:  # mounted already; it becomes writable
            patches.append(_merge(mount))
        else:
            patches.append(
                _json(
                    _add(f"{CONTAINER}/volumeMounts/-", _mount_value(mount)),
                    _add(
                        f"{TEMPLATE}/volumes/-",
                        {"name": mount.name, "hostPath": {"path": mount.host, "type": mount.type}},
                    ),
                )
            )
    if row.capabilities:
        path = f"{CONTAINER}/securityContext/capabilities/add/-"
        patches.append(_json(*(_add(path, name) for name in row.capabilities)))
    for key, reason in (("hostPID", row.host_pid), ("hostNetwork", row.host_network)):
        if reason:
            patches.append(_json(_add(f"{TEMPLATE}/{key}", True)))
    reasons = [f"# {row.choice} {row.value}: {row.why}."]
    reasons += [f"#   {mount.host}{' (written)' if mount.write else ''}: {mount.why}" for mount in row.mounts]
    reasons += [f"#   {name}: {why}" for name, why in row.capabilities.items()]
    reasons += [f"#   host's processes: {row.host_pid}"] * bool(row.host_pid)
    reasons += [f"#   host's network: {row.host_network}"] * bool(row.host_network)
    reasons += [f"#   role {row.rbac}"] * bool(row.rbac)
    body: dict[str, Any] = {"patches": patches} if patches else {}
    texts = {}
    if row.rbac:
        body["resources"] = ["binding.yaml"]
        texts["binding.yaml"] = yaml.safe_dump(binding(row), sort_keys=False)
    return {"kustomization.yaml": "\n".join(reasons) + f"\n{COMPONENT}{yaml.safe_dump(body, sort_keys=False)}", **texts}


def binding(row: Row) -> dict[str, Any]:
    """The binding of the role of deploy/agent/rbac.yaml that a choice needs; two choices may need the same one."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{NAME}-{row.name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": row.rbac},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "kube-system"}],
    }


def _add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _json(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump(list(operations), sort_keys=False)}


def _merge(mount: Mount) -> dict[str, Any]:
    spec = {"containers": [{"name": "agent", "volumeMounts": [_mount_value(mount)]}]}
    merged = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME},
        "spec": {"template": {"spec": spec}},
    }
    return {"patch": yaml.safe_dump(merged, sort_keys=False)}


def _mount_value(mount: Mount) -> dict[str, Any]:
    return {"name": mount.name, "mountPath": mount.at, "readOnly": not mount.write}
