"""The kustomize folders of a plugin: base, stable, unstable, and one with a configuration if it has any.

Overlays for the reference's folders fit: folders, the DaemonSet, its container `plugin`, its image `plugin`, volumes,
labels and the two components of images have the same names and places.
"""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from tools.deployment.table import CONFIG_DIR, SOCKET_DIR, Mount, Need, version

HEAD = "# Written by tools/generate_deploy.py from deploy/plugins.yaml.\n"
#: A name that no registry has: a stranger's image of that name can never be pulled by mistake.
IMAGE = "localhost/nri-plugins"
KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
COMPONENT = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"

BASE = """\
{kustomization}namespace: kube-system
resources:
  - daemonset.yaml
images:
  - name: plugin
    newName: {image}
labels:
  - includeSelectors: true
    pairs:
      app.kubernetes.io/name: {object_name}
  - includeTemplates: true
    pairs:
      app.kubernetes.io/component: nri-plugin
"""

DAEMON_SET = """\
# {does}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {object_name}
spec:
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 1
  template:
    spec:
      # It must start before the pods that it adjusts, on every node. It does not use the API server.
      priorityClassName: system-node-critical
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 5
      nodeSelector:
        kubernetes.io/os: linux
      tolerations:
        - operator: Exists
{of_host}      containers:
        - name: plugin
          image: plugin:latest
          args:
{args}
          env:
            - name: NRI_PLUGIN_NAME # selects a plugin of the image
              value: {name}
          resources:
            requests:
              cpu: "2m"
              memory: "24Mi"
            limits:
              memory: "128Mi"
          securityContext:
            runAsUser: 0 # the socket belongs to root; {power}
            runAsGroup: 0
            privileged: false
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
{capabilities}
            seccompProfile:
              type: RuntimeDefault
          volumeMounts:
            # The folder, not the socket: a restarted runtime makes a new socket, and a mount of the old one stays dead.
            - name: nri-socket
              mountPath: {socket_dir}
              readOnly: true
{mounts}      volumes:
        - name: nri-socket
          hostPath:
            path: {socket_dir}
            type: Directory
{volumes}"""

CONFIGURED = """\
resources:
  - ../base
components:
  - ../../components/image-stable
configMapGenerator:
  - name: {name}
    namespace: kube-system
    files:
      - config.yaml
patches:
  - target:
      kind: DaemonSet
    patch: |
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --config={folder}/config.yaml
      - op: add
        path: /spec/template/spec/containers/0/volumeMounts/-
        value: {{name: config, mountPath: {folder}, readOnly: true}}
      - op: add
        path: /spec/template/spec/volumes/-
        value: {{name: config, configMap: {{name: {name}}}}}
"""

#: Containers that give the plugin the custom resource of its node. Only these have a token.
FOLLOWED = """\
resources:
  - ../base
  - ../../../placement
components:
  - ../../components/image-stable
patches:
  - target:
      kind: DaemonSet
    patch: |
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --config={state}/{name}.policy.json
      - op: add
        path: /spec/template/spec/serviceAccountName
        value: nri-placement
      - op: add
        path: /spec/template/spec/volumes/-
        value:
          name: token
          projected:
            sources:
              - serviceAccountToken: {{path: token, expirationSeconds: 3607}}
              - configMap: {{name: kube-root-ca.crt, items: [{{key: ca.crt, path: ca.crt}}]}}
              - downwardAPI: {{items: [{{path: namespace, fieldRef: {{fieldPath: metadata.namespace}}}}]}}
{containers}"""

FOLLOW = """\
      - op: add
        path: /spec/template/spec/{path}
        value:
{dash}name: {container}
{space}image: localhost/nri-agent:{tag}
{space}args: [placement, follow, {name}, --state-dir, {state}{more}]
{space}env:
{space}  - {{name: NODE_NAME, valueFrom: {{fieldRef: {{fieldPath: spec.nodeName}}}}}}
{space}resources: {{requests: {{cpu: 2m, memory: 48Mi}}, limits: {{memory: 128Mi}}}}
{space}securityContext:
{space}  runAsUser: 0
{space}  runAsGroup: 0
{space}  privileged: false
{space}  allowPrivilegeEscalation: false
{space}  readOnlyRootFilesystem: true
{space}  capabilities: {{drop: [ALL]}}
{space}  seccompProfile: {{type: RuntimeDefault}}
{space}volumeMounts:
{space}  - {{name: {mount}, mountPath: {state}}}
{space}  - {{name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}}
"""

IMAGES = """\
images:
  - name: "*"
    newTag: "{tag}"
patches:
  - target:
      kind: DaemonSet
    patch: |
      - op: add
        path: /spec/template/spec/containers/0/imagePullPolicy
        value: {policy}
"""

#: What every folder has over its base: a release of the image, and the newest one.
OVER_BASE = {
    "kustomization.yaml": f"{KUSTOMIZATION}resources:\n  - base\ncomponents:\n  - ../components/image-stable\n",
    "unstable/kustomization.yaml": (
        f"{KUSTOMIZATION}resources:\n  - ../base\ncomponents:\n  - ../../components/image-unstable\n"
    ),
}

NETWORK_POLICY = """\
# Nothing may talk to plugins, and they to nothing: all that they need is the socket.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: nri-plugins
  namespace: kube-system
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/component: nri-plugin
  policyTypes:
    - Ingress
    - Egress
"""


def files(need: Need) -> dict[str, str]:
    """The plugin's files below deploy/kustomize, by path."""
    base = BASE.format(kustomization=KUSTOMIZATION, image=IMAGE, object_name=need.object_name)
    texts = {
        "base/daemonset.yaml": daemon_set(need),
        "base/kustomization.yaml": base,
        **OVER_BASE,
    }
    if need.config:  # an overlay that gives the plugin the file config.yaml
        configured = CONFIGURED.format(name=need.object_name, folder=CONFIG_DIR)
        texts["configured/kustomization.yaml"] = KUSTOMIZATION + configured
    if need.follows:  # an overlay that brings it the custom resource of its node
        texts["followed/kustomization.yaml"] = KUSTOMIZATION + _followed(need)
    crds = {f"{need.name}/{path}": HEAD + text for path, text in texts.items()}
    if need.config:
        crds[f"{need.name}/configured/config.yaml"] = yaml.safe_dump(need.config)
    return crds


def _followed(need: Need) -> str:
    (mount,) = need.mounts
    what = {"name": need.name, "state": mount.at, "mount": mount.name, "tag": version()}
    first = FOLLOW.format(
        **what, path="initContainers", container="first", more=", --once", dash="          - ", space="            "
    )
    follower = FOLLOW.format(
        **what, path="containers/-", container="follow", more="", dash="          ", space="          "
    )
    return FOLLOWED.format(**what, containers=first + follower)


def daemon_set(need: Need) -> str:
    """The DaemonSet, with the reason of everything that it asks for."""
    power = "of root's powers it keeps those below" if need.capabilities else "nothing else of root's power is kept"
    return DAEMON_SET.format(
        does=need.does,
        name=need.name,
        object_name=need.object_name,
        socket_dir=SOCKET_DIR,
        power=power,
        of_host="".join(
            f"      # {why}\n      {key}: true\n"
            for key, why in (("hostNetwork", need.host_network), ("hostPID", need.host_pid))
            if why
        ),
        args="\n".join(f'            - "{word}"' for word in need.args),
        capabilities="\n".join(_capabilities(need)),
        **of_pod(need.mounts),
    )


def _capabilities(need: Need) -> list[str]:
    lines = ["              drop:", "                - ALL"]
    if need.capabilities:
        lines.append("              add:")
        lines += [f"                - {name} # {why}" for name, why in need.capabilities.items()]
    return lines


def of_pod(mounts: Sequence[Mount]) -> dict[str, str]:
    """The `mounts` of a container and the `volumes` of its pod, as a DaemonSet's text has them."""
    return {"mounts": "".join(map(_mount, mounts)), "volumes": "".join(map(_volume, mounts))}


def _mount(mount: Mount) -> str:
    lines = [
        f"            # {mount.why}",
        f"            - name: {mount.name}",
        f"              mountPath: {mount.at}",
    ]
    if not mount.write:  # an apiserver drops the default, and would see a change each time it is applied
        lines.append("              readOnly: true")
    if mount.changes:
        lines.append("              mountPropagation: HostToContainer")
    return "".join(f"{line}\n" for line in lines)


def _volume(mount: Mount) -> str:
    return (
        f"        - name: {mount.name}\n"
        "          hostPath:\n"
        f"            path: {mount.host}\n"
        f"            type: {mount.type}\n"
    )


def components() -> dict[str, str]:
    """The components that all plugins share: which image, and what an operator may add."""
    texts = {
        "image-stable/kustomization.yaml": COMPONENT + IMAGES.format(tag=version(), policy="IfNotPresent"),
        "image-unstable/kustomization.yaml": COMPONENT + IMAGES.format(tag="unstable", policy="Always"),
        "no-network/kustomization.yaml": f"{COMPONENT}resources:\n  - network-policy.yaml\n",
        "no-network/network-policy.yaml": NETWORK_POLICY,
    }
    return {f"components/{path}": HEAD + text for path, text in texts.items()}
