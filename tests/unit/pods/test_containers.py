"""Requests for containers: process, resources, mounts, ports, security."""

from __future__ import annotations

import pytest

from nri.config import Source
from nri.cri.pb import api_pb2 as pb
from nri.errors import ConfigError
from nri.pods.containers import GRACE, ContainerRequest
from nri.pods.requests import Node, PodRequest, read_pods

NODE = Node("node-1", "/pods")


def pod(container: str, spec: str = "") -> PodRequest:
    text = f"kind: Pod\nmetadata: {{name: web, uid: u1, labels: {{tier: gold}}}}\nspec:\n{spec}"
    text += f"  containers:\n  - {{name: app, image: busybox, {container}}}\n"
    return read_pods(Source("f.yaml", text), NODE)[0]


def read(container: str, spec: str = "") -> ContainerRequest:
    return pod(container, spec).containers[-1]


LABEL = "\"metadata.labels['tier']\""


def field(path: str) -> str:
    return f"valueFrom: {{fieldRef: {{fieldPath: {path}}}}}"


def test_variables_in_command_and_arguments_are_expanded() -> None:
    request = read(
        f"command: [run, $(A), $(NONE), $$(A)], args: [$(B)], workingDir: /w, stdin: true, stdinOnce: true, tty: true,"
        f"env: [{{name: A, value: '1'}}, {{name: B, value: b$(A)}}, {{name: T, {field(LABEL)}}},"
        f"{{name: NODE, {field('spec.nodeName')}}}, {{name: IP, {field('status.podIP')}}},"
        "{name: S, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]"
    )
    config = request.config
    assert ([*config.command], [*config.args]) == (["run", "1", "$(NONE)", "$(A)"], ["b1"])
    assert {one.key: one.value for one in config.envs} == {
        "A": b"1",
        "B": b"b1",
        "T": b"gold",
        "NODE": b"node-1",
        "IP": b"",
    }
    assert request.address_variables == {"IP"}
    assert (config.working_dir, config.stdin, config.stdin_once, config.tty) == ("/w", True, True, True)
    assert config.log_path == "app.log" and config.labels["io.kubernetes.container.name"] == "app"
    assert config.annotations[GRACE] == "30"


def test_resources_equal_the_kubelets() -> None:
    resources = read("resources: {requests: {cpu: 250m}, limits: {cpu: 500m, memory: 64Mi}}").config.linux.resources
    assert (resources.cpu_shares, resources.cpu_quota, resources.cpu_period) == (256, 50000, 100000)
    assert (resources.memory_limit_in_bytes, resources.oom_score_adj) == (64 << 20, 999)
    spec = "{containers: [{name: a, image: b, resources: {requests: {memory: 64Mi}}}]}"
    text = f"kind: Pod\nmetadata: {{name: web}}\nspec: {spec}\n"
    (on_known,) = read_pods(Source("f.yaml", text), NODE._replace(memory_bytes=256 << 20))
    assert on_known.containers[0].config.linux.resources.oom_score_adj == 750


def test_the_pods_own_resources_decide_class_and_limits() -> None:
    pod_resources = "  resources: {requests: {cpu: 2, memory: 200Mi}, limits: {cpu: 2, memory: 200Mi}}\n"
    request = pod("command: [a]", pod_resources + "  priorityClassName: high\n")
    assert request.config.linux.cgroup_parent == "/kubepods/podu1" and request.notes == []
    linux = request.containers[0].config.linux.resources
    assert (linux.oom_score_adj, linux.cpu_quota, linux.memory_limit_in_bytes) == (-997, 200_000, 200 << 20)


@pytest.mark.parametrize(
    ("image", "policy"),
    [("b", "Always"), ("r:5000/b", "Always"), ("b:latest", "Always"), ("b:1", "IfNotPresent"),
     ("b@sha256:0", "IfNotPresent"), ("b, imagePullPolicy: Never", "Never")],
)  # fmt: skip
def test_the_tag_latest_is_always_pulled(image: str, policy: str) -> None:
    text = f"kind: Pod\nmetadata: {{name: w}}\nspec: {{containers: [{{name: a, image: {image}}}]}}".replace(
        "image: b@sha256:0", 'image: "b@sha256:0"'
    ).replace("image: r:5000/b", 'image: "r:5000/b"')
    assert read_pods(Source("f", text), NODE)[0].containers[0].pull == policy


def test_init_containers_are_awaited_except_sidecars() -> None:
    first = "  initContainers: [{name: one, image: b}, {name: two, image: b, restartPolicy: Always}]\n"
    assert [(one.name, one.first) for one in pod("", first).containers] == [
        ("one", True),
        ("two", False),
        ("app", False),
    ]


def test_volumes_are_the_pods_or_host_paths() -> None:
    request = pod(
        "volumeMounts: [{name: own, mountPath: /a, subPathExpr: $(D), readOnly: true, recursiveReadOnly: Enabled},"
        "{name: host, mountPath: /b, subPath: x, mountPropagation: HostToContainer}, {name: own, mountPath: /c}],"
        "env: [{name: D, value: sub}]",
        "  securityContext: {fsGroup: 77, supplementalGroups: [5], supplementalGroupsPolicy: Strict}\n"
        "  volumes: [{name: own, emptyDir: {}}, {name: host, hostPath: {path: /srv, type: Directory}}]\n",
    )
    mounts = request.containers[0].config.mounts
    assert [(one.container_path, one.host_path) for one in mounts] == [
        ("/a", "/pods/u1/subpaths/app/0"), ("/b", "/pods/u1/subpaths/app/1"), ("/c", "/pods/u1/volumes/own"),
    ]  # fmt: skip
    assert mounts[0].readonly and mounts[0].recursive_read_only
    assert mounts[1].propagation == pb.PROPAGATION_HOST_TO_CONTAINER
    assert [(part.volume, part.path, part.target) for part in request.containers[0].sub_paths] == [
        ("/pods/u1/volumes/own", "sub", "/pods/u1/subpaths/app/0"), ("/srv", "x", "/pods/u1/subpaths/app/1"),
    ]  # fmt: skip
    assert [(volume.path, volume.kind, volume.group) for volume in request.volumes] == [
        ("/pods/u1/volumes/own", "emptyDir", 77), ("/srv", "Directory", -1),
    ]  # fmt: skip
    context = request.containers[0].config.linux.security_context
    assert [*context.supplemental_groups] == [5, 77] and context.supplemental_groups_policy == pb.Strict


def test_host_ports_are_mapped_unless_the_pod_uses_the_host_network() -> None:
    ports = (
        "ports: [{containerPort: 80, hostPort: 8080, protocol: UDP, hostIP: 127.0.0.1, name: w}, {containerPort: 1}]"
    )
    (mapping,) = pod(ports).config.port_mappings
    assert (mapping.container_port, mapping.host_port, mapping.protocol, mapping.host_ip) == (
        80,
        8080,
        pb.UDP,
        "127.0.0.1",
    )
    assert not pod(ports, "  hostNetwork: true\n").config.port_mappings


def test_the_containers_security_context_overrides_the_pods() -> None:
    spec = "  securityContext: {runAsUser: 5, runAsGroup: 6, runAsNonRoot: true, appArmorProfile: {type: Unconfined}}\n"
    container = read(
        "securityContext: {runAsUser: 7, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true,"
        "capabilities: {add: [NET_ADMIN], drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}",
        spec,
    )
    context = container.config.linux.security_context
    assert (context.run_as_user.value, context.run_as_group.value, container.non_root) == (7, 6, True)
    assert context.no_new_privs and context.readonly_rootfs and "/proc/kcore" in context.masked_paths
    assert [*context.capabilities.add_capabilities, *context.capabilities.drop_capabilities] == ["NET_ADMIN", "ALL"]
    assert context.apparmor.profile_type == pb.SecurityProfile.Unconfined and context.HasField("seccomp")
    request = pod("securityContext: {privileged: true}")
    assert request.config.linux.security_context.privileged, "runtimes refuse a privileged container in other sandboxes"
    strong = request.containers[0].config.linux.security_context
    assert strong.privileged and not strong.masked_paths and not strong.no_new_privs
    assert not read("securityContext: {procMount: Unmasked}").config.linux.security_context.readonly_paths


ADDRESS = "env: [{name: B, valueFrom: {fieldRef: {fieldPath: status.podIP}}}],"


@pytest.mark.parametrize(
    ("container", "error"),
    [
        ("name: a/b", "requires a name without slashes"),
        ('name: "a\\0b"', "requires a name without slashes and null bytes"),
        ("image: ''", "requires an image"),
        ("imagePullPolicy: X", "expected one of Always"),
        ("envFrom: [{configMapRef: {name: a}}]", "ConfigMaps and Secrets require a cluster"),
        ("env: [{name: A=B}]", "a variable requires a name"),
        ("env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]", "the value of A requires a cluster"),
        ("env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]", "the value of A requires a cl"),
        ("env: [{name: A, valueFrom: {resourceFieldRef: {resource: r}}}]", 'unknown resource "r"'),
        (
            "securityContext: {seccompProfile: {type: Localhost, localhostProfile: /a}}",
            "expected the path of a file below the kubelet's folder",
        ),
        (
            "securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: a}}",
            "only a profile of type Localhost names a file",
        ),
        ("env: [{name: A, value: 1}]", "expected a string, not 1"),
        ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}]", 'unknown field "x"'),
        ("ports: [{containerPort: 1, protocol: X}]", 'not "X"'),
        ("volumeMounts: [{name: v}]", "a mount requires a path"),
        ("volumeMounts: [{name: v, mountPath: /a}]", 'volume "v" not found; volumes: h, bad name, rel, zero, pvc, odd'),
        ("volumeMounts: [{name: h, mountPath: /a, subPath: ../x}]", "leads out of the volume"),
        ("volumeMounts: [{name: h, mountPath: /a, subPath: /x}]", "leads out of the volume"),
        ('volumeMounts: [{name: h, mountPath: /a, subPath: "a\\0b"}]', "without null bytes"),
        (f"volumeMounts: [{{name: h, mountPath: /a, subPath: {'a/' * 2048}}}]", "at most 4095 bytes"),
        ("volumeMounts: [{name: h, mountPath: /a, subPath: x, subPathExpr: z}]", "excludes subPath"),
        ("volumeMounts: [{name: h, mountPath: /a, subPathExpr: a/$(B)}]", "the variable B does not exist or has no"),
        (
            "env: [{name: B, value: ..}], volumeMounts: [{name: h, mountPath: /a, subPathExpr: a/$(B)}]",
            "leads out of the volume",
        ),
        (
            "env: [{name: B, value: ''}], volumeMounts: [{name: h, mountPath: /a, subPathExpr: $(B)}]",
            "the variable B does not exist or has no value",
        ),
        (
            ADDRESS + "volumeMounts: [{name: h, mountPath: /a, subPathExpr: $(B)}]",
            "B is the address of the pod, which is not known yet",
        ),
        ("volumeMounts: [{name: h, mountPath: /a, mountPropagation: X}]", "expected one of None"),
        ("volumeMounts: [{name: bad name, mountPath: /a}]", "the name of a volume must have only lower-case letters"),
        ("volumeMounts: [{name: pvc, mountPath: /a}]", "persistentVolumeClaim requires a cluster"),
        ("volumeMounts: [{name: rel, mountPath: /a}]", "expected an absolute path"),
        ("volumeMounts: [{name: zero, mountPath: /a}]", "expected an absolute path without .. and null bytes"),
        ("volumeMounts: [{name: odd, mountPath: /a}]", "expected one of DirectoryOrCreate"),
        ("securityContext: {runAsUser: 0, runAsNonRoot: true}", "runAsNonRoot forbids user 0"),
        ("securityContext: {seccompProfile: {type: X}}", "expected one of RuntimeDefault"),
        ("securityContext: {seLinuxOptions: {x: y}}", "expected user, role, type or level"),
    ],
)
def test_an_invalid_container_is_an_error_with_line_and_key(container: str, error: str) -> None:
    volumes = (
        "  volumes: [{name: h, hostPath: {path: /srv}}, {name: bad name, emptyDir: {}},"
        '{name: rel, hostPath: {path: a}}, {name: zero, hostPath: {path: "/a\\0"}},'
        "{name: pvc, persistentVolumeClaim: {}}, {name: odd, hostPath: {path: /a, type: X}}]\n"
    )
    if container.startswith("name"):
        text = f"kind: Pod\nmetadata: {{name: w}}\nspec:\n  containers: [{{{container}, image: b}}]"
    elif container.startswith("image: "):
        text = f"kind: Pod\nmetadata: {{name: w}}\nspec:\n  containers: [{{name: a, {container}}}]"
    else:
        text = f"kind: Pod\nmetadata: {{name: w}}\nspec:\n{volumes}  containers: [{{name: a, image: b, {container}}}]"
    with pytest.raises(ConfigError, match=error) as caught:
        read_pods(Source("f", text), NODE)
    assert caught.value.source.startswith("f:")


def test_groups_are_numbers_and_names_are_unique() -> None:
    with pytest.raises(ConfigError, match="expected group ids"):
        read("", "  securityContext: {supplementalGroups: [-1]}\n")
    with pytest.raises(ConfigError, match='duplicate container name "app"'):
        read("", "  initContainers: [{name: app, image: b}]\n")


def test_expanded_variables_are_limited_to_the_kernels_maximum() -> None:
    variables = ", ".join(f'{{name: V{number + 1}, value: "$(V{number})$(V{number})"}}' for number in range(20))
    with pytest.raises(ConfigError, match=r"env\.value: expands to more than 131071 characters"):
        pod(f"env: [{{name: V0, value: word}}, {variables}]")
    with pytest.raises(ConfigError, match=r"args: expands to more than 131071 characters"):
        pod(f"env: [{{name: A, value: {'x' * 1000}}}], args: ['{'$(A)' * 132}']")
