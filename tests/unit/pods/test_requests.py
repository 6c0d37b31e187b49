"""CRI requests for manifests: the sandbox, and notes about keys without effect."""

from __future__ import annotations

import pytest

from nri.config import Source
from nri.cri.pb import api_pb2 as pb
from nri.errors import ConfigError
from nri.host.cgroups import Driver
from nri.pods.requests import Node, PodRequest, read_pods

NODE = Node("node-1", "/pods")
CONTAINERS = "containers: [{name: app, image: b}]"


def read(spec: str, metadata: str = "name: web, uid: u-1", node: Node = NODE) -> PodRequest:
    text = f"kind: Pod\nmetadata: {{{metadata}}}\nspec:\n  {CONTAINERS}\n" + "".join(
        f"  {line}\n" for line in spec.splitlines()
    )
    return read_pods(Source("f.yaml", text), node)[0]


def test_a_sandbox_request_equals_the_kubelets() -> None:
    pod = read(
        "hostPID: true\nhostIPC: true\nruntimeClassName: crun\nhostname: box\n"
        "dnsConfig: {nameservers: [1.1.1.1], searches: [x.y], options: [{name: ndots, value: '2'}, {name: edns0}]}\n"
        "securityContext: {runAsUser: 5, runAsGroup: 6, sysctls: [{name: net.a, value: '1'}],\n"
        "  seccompProfile: {type: Localhost, localhostProfile: p.json}, seLinuxOptions: {level: s0}}\n",
        "name: web, namespace: shop, uid: u-1, labels: {a: b}, annotations: {c: d}",
    )
    config = pod.config
    assert (pod.name, pod.handler, config.hostname, config.log_directory) == (
        "shop/web",
        "crun",
        "box",
        "/pods/u-1/logs",
    )
    assert dict(config.labels) == {"a": "b"} | {
        f"io.kubernetes.pod.{key}": value for key, value in (("name", "web"), ("namespace", "shop"), ("uid", "u-1"))
    }
    assert dict(config.annotations) == {"c": "d"}
    context = config.linux.security_context
    options = context.namespace_options
    assert (options.network, options.pid, options.ipc) == (pb.POD, pb.NODE, pb.NODE)
    assert (context.run_as_user.value, context.run_as_group.value, context.seccomp.localhost_ref) == (
        5,
        6,
        "/var/lib/kubelet/seccomp/p.json",
    )
    assert context.selinux_options.level == "s0" and dict(config.linux.sysctls) == {"net.a": "1"}
    assert [*config.dns_config.options] == ["ndots:2", "edns0"] and [*config.dns_config.servers] == ["1.1.1.1"]
    assert pod.notes == []


@pytest.mark.parametrize(
    ("node", "resources", "cgroup"),
    [
        (NODE, "", "/kubepods/besteffort/podu-1"),
        (NODE._replace(cgroup_root="/own/"), "{limits: {cpu: 1, memory: 1Gi}}", "/own/kubepods/podu-1"),
        (NODE._replace(driver=Driver.SYSTEMD), "{requests: {cpu: 1}}", "kubepods-burstable-podu_1.slice"),
    ],
)
def test_the_cgroup_follows_qos_class_and_driver(node: Node, resources: str, cgroup: str) -> None:
    more = f", resources: {resources}" if resources else ""
    text = f"kind: Pod\nmetadata: {{name: web, uid: u-1}}\nspec: {{containers: [{{name: a, image: b{more}}}]}}"
    assert read_pods(Source("f", text), node)[0].config.linux.cgroup_parent == cgroup


def test_every_key_without_effect_is_reported_with_line_and_reason() -> None:
    notes = read(
        "restartPolicy: Always\ntolerations: [{key: a}]\nhostNetwrk: true\n"
        "securityContext: {fsGroupChangePolicy: Always}\n"
        "volumes: [{name: v, secret: {secretName: s}}]",
        "name: web, uid: u-1, creationTimestamp: null, generateName: web-",
    ).notes
    assert notes == [
        "f.yaml:7: spec.hostNetwrk is ignored: did you mean hostNetwork?",
        "f.yaml:5: spec.restartPolicy is ignored: containers are not restarted",
        "f.yaml:6: spec.tolerations is ignored: only a cluster's scheduler and controllers use it",
        "f.yaml:8: spec.securityContext.fsGroupChangePolicy is ignored: volumes are new, so every file gets the group",
        "f.yaml:9: spec.volumes[0].secret is ignored: no container mounts it",
    ]


def test_templates_and_lists_contain_pods_and_other_kinds_are_reported() -> None:
    template = f"{{template: {{metadata: {{labels: {{a: b}}}}, spec: {{{CONTAINERS}}}}}, replicas: 3}}"
    text = f"kind: List\nitems:\n- {{kind: Service}}\n- {{kind: Deployment, metadata: {{name: d}}, spec: {template}}}\n"
    (pod,) = read_pods(Source("f", text), NODE)
    assert pod.name == "default/d" and pod.config.labels["a"] == "b"
    assert pod.notes == [
        "f:3: kind Service: omitted, because it contains no pod",
        "f:4: spec.replicas is ignored: only a cluster's controllers use it",
    ]
    assert len(pod.config.metadata.uid) == 36, "made up where the manifest has none"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kind: Service", "contains neither a Pod"),
        ("- 1", "expected an object with a kind"),
        ("kind: Pod\nspec: {containers: [{name: a, image: b}]}", "metadata.name: a pod requires a name"),
        ("kind: Pod\nmetadata: {name: a}\nspec: {initContainers: [{name: a, image: b}]}", "at least one container"),
        (f"kind: Pod\nmetadata: {{name: a, uid: a/b}}\nspec: {{{CONTAINERS}}}", "f:2: metadata.uid: .*uid of a pod"),
        (f'kind: Pod\nmetadata: {{name: a, uid: "a\\0b"}}\nspec: {{{CONTAINERS}}}', "metadata.uid: .*uid of a pod"),
        (
            f"kind: Pod\nmetadata: {{name: a}}\nspec: {{{CONTAINERS}, dnsPolicy: X}}",
            "spec.dnsPolicy: expected Default or None, not .X.",
        ),
        (f"kind: Pod\nmetadata: {{name: a}}\nspec: {{{CONTAINERS}, hostNetwork: 1}}", "expected true or false"),
        (
            f"kind: Pod\nmetadata: {{name: a}}\nspec: {{{CONTAINERS}, hostPID: true, shareProcessNamespace: true}}",
            "exclude each other",
        ),
        (2 * f"kind: Pod\nmetadata: {{name: a}}\nspec: {{{CONTAINERS}}}\n---\n", "duplicate pod name default/a"),
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: [" + "{name: a, image: b}," * 251 + "]}",
            "more than 250 containers",
        ),
        (
            "".join(f"kind: Pod\nmetadata: {{name: a{n}}}\nspec: {{{CONTAINERS}}}\n---\n" for n in range(5001)),
            "more than 5000 pods",
        ),
    ],
)
def test_an_invalid_manifest_is_an_error_with_line_and_key(text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        read_pods(Source("f", text), NODE)
