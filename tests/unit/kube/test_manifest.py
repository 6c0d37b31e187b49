"""A manifest as NRI messages."""

import json

import pytest

from nri.api import messages as m
from nri.config import Source
from nri.errors import ConfigError
from nri.kube.manifest import ImageConfig, read_image_config, read_manifests
from tests.unit.kube.conftest import pod


def test_a_pod_keeps_its_names_labels_and_annotations(read):
    workload = read(pod(metadata='{name: web, namespace: prod, uid: u1, labels: {a: b}, annotations: {k: "1"}}')).pod
    assert (workload.name, workload.namespace, workload.uid) == ("web", "prod", "u1")
    assert (dict(workload.labels), dict(workload.annotations)) == ({"a": "b"}, {"k": "1"})


def test_the_same_manifest_gives_the_same_messages(read):
    first, second = read(pod()), read(pod())
    assert (first.pod, first.containers) == (second.pod, second.containers)


def test_init_containers_come_first(read):
    workloads = read(pod("{containers: [{name: app}], initContainers: [{name: init}]}"))
    assert [one.name for one in workloads.containers] == ["init", "app"]
    assert {one.pod_sandbox_id for one in workloads.containers} == {workloads.pod.id}


TEMPLATE = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: app}]}}"
OWNERS = {
    "a Deployment": f"kind: Deployment\nmetadata: {{name: d, namespace: ns}}\nspec: {{{TEMPLATE}}}",
    "a CronJob": f"kind: CronJob\nmetadata: {{name: d, namespace: ns}}\n"
    f"spec: {{jobTemplate: {{spec: {{{TEMPLATE}}}}}}}",
    "a second document": f"kind: ConfigMap\n---\nkind: Job\nmetadata: {{name: d, namespace: ns}}\nspec: {{{TEMPLATE}}}",
    "a List": f"kind: List\nitems:\n- kind: Service\n- kind: Job\n  metadata: {{name: d, namespace: ns}}\n"
    f"  spec: {{{TEMPLATE}}}",
}


@pytest.mark.parametrize("owner", OWNERS)
def test_a_pod_template_is_found_in(owner, read):
    workloads = read(OWNERS[owner])
    assert (workloads.pod.name, workloads.pod.namespace, dict(workloads.pod.labels)) == ("d", "ns", {"a": "b"})


def test_every_pod_of_a_file_is_read_in_order():
    text = "---\n".join([pod(), OWNERS["a Deployment"] + "\n", "kind: Service\n", OWNERS["a List"] + "\n"])
    workloads = read_manifests(Source("all.yaml", text))
    assert [(one.pod.namespace, one.pod.name) for one in workloads] == [
        ("default", "web"),
        ("ns", "d"),
        ("ns", "d"),
    ]
    assert len({one.pod.id for one in workloads}) == len({one.pod.uid for one in workloads}) == 3
    assert len({container.id for one in workloads for container in one.containers}) == 3, (
        "two pods of one name are two pods"
    )


def test_a_mistake_in_a_later_document_has_the_line_of_the_file():
    with pytest.raises(ConfigError, match=r"all\.yaml:6: "):
        read_manifests(Source("all.yaml", "kind: Service\n---\nkind: Pod\nspec:\n  x: 1\n  hostPID: 2\n"))


QOS = {
    "resources: {limits: {cpu: 1, memory: 1Gi}}": ("", -997),
    "resources: {requests: {cpu: 1}}": ("/burstable", 999),
    "image: i": ("/besteffort", 1000),
}


@pytest.mark.parametrize("text", QOS)
def test_the_qos_class_determines_cgroup_and_oom_score(text, read):
    workloads = read(pod(f"{{containers: [{{name: app, {text}}}]}}"))
    folder, score = QOS[text]
    assert workloads.pod.linux.cgroup_parent == f"/kubepods{folder}/pod{workloads.pod.uid}"
    assert workloads.containers[0].linux.oom_score_adj.value == score


OWN = "resources: {requests: {cpu: 2, memory: 200Mi}, limits: {cpu: 2, memory: 200Mi}}"
OF_POD = {
    OWN: ("", -997, 200_000),
    "resources: {limits: {cpu: 2, memory: 200Mi}}": ("", -997, 200_000),
    "priorityClassName: system-node-critical": ("/besteffort", -997, 0),
    "resources: {requests: {example.com/gpu: 1}}": ("/besteffort", 1000, 0),
}


@pytest.mark.parametrize("text", OF_POD)
def test_the_pods_own_resources_and_priority_decide_class_and_scores(text, read):
    workloads = read(pod(f"{{{text}, containers: [{{name: app}}]}}"))
    folder, score, quota = OF_POD[text]
    linux = workloads.containers[0].linux
    assert workloads.pod.linux.cgroup_parent == f"/kubepods{folder}/pod{workloads.pod.uid}"
    assert (linux.oom_score_adj.value, linux.resources.cpu.quota.value) == (score, quota)


MISTAKES = {
    pod("{containers: [{name: a}], resources: {limits: {cpu: fast}}}"): "spec.resources.limits.cpu",
    "kind: Service": "contains neither a Pod",
    "": "contains neither a Pod",
    pod("{containers: []}"): "a pod requires at least one container",
    pod("{containers: {name: app}}"): "spec.containers: expected a list",
    pod("{containers: [{image: i}]}"): "a container requires a name",
    pod("{initContainers: [{name: a}], containers: [{name: b}, {name: a}]}"): 'duplicate container name "a"',
    pod(
        "{containers: [{name: a, resources: {limits: {cpu: lots}}}]}"
    ): 'expected a quantity such as 500m or 1Gi, not "lots"',
    pod("{containers: [{name: a, args: x}]}"): "args: expected a list",
    pod(
        "{containers: [{name: a, securityContext: {runAsUser: me}}]}"
    ): 'pod.yaml:3: spec.containers[0].securityContext.runAsUser: expected a whole number, not "me"',
    pod("{containers: [{name: a, securityContext: {seccompProfile: {type: Loose}}}]}"): 'not "Loose"',
    "kind: Pod\nspec: [": "not valid YAML",
    "kind: List\nitems: 5\n": "pod.yaml:2: items: expected a list",
    "kind: List\nitems: {a: b}\n": "pod.yaml:2: items: expected a list",
    "kind: Job\nspec: {template: {metadata: 5}}\n": "pod.yaml:2: metadata: expected a mapping of keys to values",
    "kind: Pod\nmetadata: {labels: {a: [b]}}\nspec: {containers: [{name: a}]}\n": "pod.yaml:2: metadata.labels.a: exp",
    "kind: Pod\nmetadata: {annotations: [a]}\nspec: {containers: [{name: a}]}\n": "pod.yaml:2: metadata.annotations: ",
    "kind: Pod\nmetadata: {name: [a]}\nspec: {containers: [{name: a}]}\n": "pod.yaml:2: metadata.name: expected a ",
    pod("{containers: [{name: {a: b}}]}"): "pod.yaml:3: spec.containers[0].name: expected a string",
    pod("{containers: [{name: a, args: [[x]]}]}"): "pod.yaml:3: spec.containers[0].args[0]: expected a string",
    pod("{containers: [{name: a, resources: {limits: {memory: 99Ei}}}]}"): "is more than 9223372036854775807",
    pod("{containers: [{name: a, resources: {limits: {cpu: 1e30}}}]}"): "is more than 1000000000",
    pod("{containers: [{name: a, resources: {limits: {cpu: -1}}}]}"): "is less than 0",
    pod("{containers: [{name: a, securityContext: {runAsUser: 99999999999}}]}"): "runAsUser: expected a whole number",
    pod("{containers: [{name: a, securityContext: {supplementalGroups: 5}}]}"): "supplementalGroups: expected a list",
    pod("{containers: [{name: a, securityContext: {supplementalGroups: [-1]}}]}"): "expected group ids from 0",
    pod(
        "{containers: [{name: a, env: [{name: A, value: {b: c}}]}]}"
    ): "pod.yaml:3: spec.containers[0].env[0].value: expected a string",
    'kind: Pod\nmetadata: {name: "\\ud800"}\nspec: {containers: [{name: a}]}\n': "pod.yaml:2: not valid YAML",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_an_invalid_manifest_is_a_config_error(text, read):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert MISTAKES[text] in str(caught.value)


IMAGE = ImageConfig(("PATH=/bin", "LANG=C"), ("/entry",), ("serve", "--all"))


def container(read, text: str, image: ImageConfig | None = None) -> m.Container:
    return read(pod(f"{{containers: [{{name: app, {text}}}]}}"), image).containers[0]


def test_command_and_args_replace_the_images(read):
    assert list(container(read, "image: i", IMAGE).args) == ["/entry", "serve", "--all"]
    assert list(container(read, "args: [x]", IMAGE).args) == ["/entry", "x"]
    assert list(container(read, "command: [run]", IMAGE).args) == ["run"]
    assert list(container(read, "command: [run], args: [z]", IMAGE).args) == ["run", "z"]


def test_the_pods_environment_overrides_the_images(read):
    assert list(container(read, "env: [{name: LANG, value: de}, {name: COUNT, value: '3'}]", IMAGE).env) == [
        "PATH=/bin",
        "LANG=de",
        "COUNT=3",
    ]


def test_values_from_the_cluster_are_empty_and_reported(read):
    workloads = read(
        pod(
            "{containers: [{name: app, env: [{name: S, valueFrom: {secretKeyRef: {name: s}}}, "
            "{name: O, valueFrom: {configMapKeyRef: {name: c, optional: true}}}], envFrom: [{}]}]}"
        )
    )
    assert "S=" in workloads.containers[0].env and "O=" not in workloads.containers[0].env
    assert workloads.notes == [
        "container app: the value of S (secretKeyRef) requires a cluster: left empty",
        "container app: the value of O (configMapKeyRef) requires a cluster: omitted",
        "container app: envFrom requires a cluster: omitted",
    ]


def test_resources_equal_the_kubelets_request(read):
    text = "resources: {requests: {cpu: 250m}, limits: {cpu: 500m, memory: 64Mi, hugepages-2Mi: 4Mi}}"
    linux = container(read, text).linux
    assert linux.resources.cpu.shares.value == 256
    assert (linux.resources.cpu.quota.value, linux.resources.cpu.period.value) == (50_000, 100_000)
    assert linux.resources.memory.limit.value == 64 << 20
    assert [(one.page_size, one.limit) for one in linux.resources.hugepage_limits] == [("2MB", 4 << 20)]


def test_volumes_are_mounted_from_the_kubelets_paths(read):
    workloads = read(
        pod(
            "{volumes: [{name: v, emptyDir: {}}, {name: h, hostPath: {path: /srv}}], containers: [{name: app, "
            "volumeMounts: [{name: v, mountPath: /v}, {name: h, mountPath: /h, readOnly: true}]}]}",
            "{name: web, uid: u1}",
        )
    )
    mounts = {one.destination: one for one in workloads.containers[0].mounts}
    assert mounts["/v"].source == "/var/lib/kubelet/pods/u1/volumes/kubernetes.io~empty-dir/v"
    assert (mounts["/h"].source, list(mounts["/h"].options)) == ("/srv", ["rbind", "rprivate", "ro"])
    assert mounts["/proc"].type == "proc"


def test_host_namespaces_are_not_listed_as_the_containers(read):
    workloads = read(pod("{hostNetwork: true, containers: [{name: app}]}"))
    kinds = [one.type for one in workloads.containers[0].linux.namespaces]
    assert kinds == ["pid", "ipc", "uts", "mount", "cgroup"]


def test_the_containers_security_context_overrides_the_pods(read):
    container = read(
        pod(
            "{securityContext: {runAsUser: 1, runAsGroup: 2, seccompProfile: {type: Unconfined}}, "
            "containers: [{name: app, securityContext: {runAsUser: 7}}]}"
        )
    ).containers[0]
    assert (container.user.uid, container.user.gid) == (7, 2)
    assert container.linux.seccomp_profile.profile_type == m.SecurityProfile.UNCONFINED


@pytest.mark.parametrize(
    "wrap", [lambda c: {"config": c}, lambda c: [{"Config": c}], lambda c: c], ids=["oci", "docker inspect", "bare"]
)
def test_an_images_configuration_is_read_in_its_usual_forms(wrap, tmp_path):
    path = tmp_path / "image.json"
    path.write_text(json.dumps(wrap({"Env": ["A=1"], "Entrypoint": ["/e"], "Cmd": None})))
    assert read_image_config(str(path)) == ImageConfig(("A=1",), ("/e",), ())


def test_an_invalid_image_configuration_is_refused(tmp_path):
    path = tmp_path / "image.json"
    path.write_text('{"config": []}')
    with pytest.raises(ConfigError, match="not the configuration of an image"):
        read_image_config(str(path))


def test_a_value_instead_of_a_list_is_an_error_with_its_key(tmp_path):
    path = tmp_path / "image.json"
    path.write_text('{"config": {"Env": "A=1"}}')
    with pytest.raises(ConfigError, match="Env: expected a list"):
        read_image_config(str(path))
