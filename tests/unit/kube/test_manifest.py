"""A manifest as the messages that plugins get."""

import json

import pytest

from nri.api import messages as m
from nri.errors import ConfigError
from nri.kube.image_config import ImageConfig
from nri.kube.manifest import read_manifest

IMAGE = ImageConfig(("PATH=/bin", "LANG=C"), ("/entry",), ("serve", "--all"))


@pytest.fixture
def read(tmp_path):
    def from_text(text: str, image: ImageConfig | None = None):
        path = tmp_path / "pod.yaml"
        path.write_text(text)
        return read_manifest(str(path), image)

    return from_text


def pod(spec: str = "{containers: [{name: app}]}", metadata: str = "{name: web}") -> str:
    return f"kind: Pod\nmetadata: {metadata}\nspec: {spec}\n"


def container(read, text: str, image: ImageConfig | None = None) -> m.Container:
    return read(pod(f"{{containers: [{{name: app, {text}}}]}}"), image).containers[0]


def test_a_pod_keeps_its_names_labels_and_annotations(read):
    made = read(pod(metadata='{name: web, namespace: prod, uid: u1, labels: {a: b}, annotations: {k: "1"}}')).pod
    assert (made.name, made.namespace, made.uid) == ("web", "prod", "u1")
    assert (dict(made.labels), dict(made.annotations)) == ({"a": "b"}, {"k": "1"})


def test_the_same_manifest_gives_the_same_messages(read):
    first, second = read(pod()), read(pod())
    assert (first.pod, first.containers) == (second.pod, second.containers)


def test_containers_that_initialize_the_pod_come_first(read):
    made = read(pod("{containers: [{name: app}], initContainers: [{name: init}]}"))
    assert [one.name for one in made.containers] == ["init", "app"]
    assert {one.pod_sandbox_id for one in made.containers} == {made.pod.id}


TEMPLATE = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: app}]}}"
OWNERS = {
    "a Deployment": f"kind: Deployment\nmetadata: {{name: d, namespace: n}}\nspec: {{{TEMPLATE}}}",
    "a CronJob": f"kind: CronJob\nmetadata: {{name: d, namespace: n}}\nspec: {{jobTemplate: {{spec: {{{TEMPLATE}}}}}}}",
    "a second document": f"kind: ConfigMap\n---\nkind: Job\nmetadata: {{name: d, namespace: n}}\nspec: {{{TEMPLATE}}}",
    "a List": f"kind: List\nitems:\n- kind: Service\n- kind: Job\n  metadata: {{name: d, namespace: n}}\n"
    f"  spec: {{{TEMPLATE}}}",
}


@pytest.mark.parametrize("owner", OWNERS)
def test_a_pod_template_is_found_in(owner, read):
    made = read(OWNERS[owner])
    assert (made.pod.name, made.pod.namespace, dict(made.pod.labels)) == ("d", "n", {"a": "b"})


def test_command_and_args_replace_the_images(read):
    assert list(container(read, "image: i", IMAGE).args) == ["/entry", "serve", "--all"]
    assert list(container(read, "args: [x]", IMAGE).args) == ["/entry", "x"]
    assert list(container(read, "command: [y]", IMAGE).args) == ["y"]
    assert list(container(read, "command: [y], args: [1]", IMAGE).args) == ["y", "1"]


def test_the_environment_is_the_images_under_the_pods(read):
    assert list(container(read, "env: [{name: LANG, value: de}, {name: N, value: 3}]", IMAGE).env) == [
        "PATH=/bin",
        "LANG=de",
        "N=3",
    ]


def test_values_from_the_cluster_are_empty_and_reported(read):
    made = read(pod("{containers: [{name: app, env: [{name: S, valueFrom: {}}], envFrom: [{}]}]}"))
    assert "S=" in made.containers[0].env
    assert len(made.notes) == 2


def test_resources_are_what_the_kubelet_asks_for(read):
    text = "resources: {requests: {cpu: 250m}, limits: {cpu: 500m, memory: 64Mi, hugepages-2Mi: 4Mi}}"
    linux = container(read, text).linux
    assert linux.resources.cpu.shares.value == 256
    assert (linux.resources.cpu.quota.value, linux.resources.cpu.period.value) == (50_000, 100_000)
    assert linux.resources.memory.limit.value == 64 << 20
    assert [(one.page_size, one.limit) for one in linux.resources.hugepage_limits] == [("2MB", 4 << 20)]


QOS = {
    "resources: {limits: {cpu: 1, memory: 1Gi}}": ("", -997),
    "resources: {requests: {cpu: 1}}": ("/burstable", 999),
    "image: i": ("/besteffort", 1000),
}


@pytest.mark.parametrize("text", QOS)
def test_class_of_service_gives_cgroup_and_oom_score(text, read):
    made = read(pod(f"{{containers: [{{name: app, {text}}}]}}"))
    folder, score = QOS[text]
    assert made.pod.linux.cgroup_parent == f"/kubepods{folder}/pod{made.pod.uid}"
    assert made.containers[0].linux.oom_score_adj.value == score


def test_volumes_are_mounted_from_where_the_kubelet_puts_them(read):
    made = read(
        pod(
            "{volumes: [{name: v, emptyDir: {}}, {name: h, hostPath: {path: /srv}}], containers: [{name: app, "
            "volumeMounts: [{name: v, mountPath: /v}, {name: h, mountPath: /h, readOnly: true}]}]}",
            "{name: web, uid: u1}",
        )
    )
    mounts = {one.destination: one for one in made.containers[0].mounts}
    assert mounts["/v"].source == "/var/lib/kubelet/pods/u1/volumes/kubernetes.io~empty-dir/v"
    assert (mounts["/h"].source, list(mounts["/h"].options)) == ("/srv", ["rbind", "rprivate", "ro"])
    assert mounts["/proc"].type == "proc"


def test_host_namespaces_are_not_the_containers_own(read):
    made = read(pod("{hostNetwork: true, containers: [{name: app}]}"))
    kinds = [one.type for one in made.containers[0].linux.namespaces]
    assert kinds == ["pid", "ipc", "uts", "mount", "cgroup"]


def test_the_containers_security_context_comes_before_the_pods(read):
    made = read(
        pod(
            "{securityContext: {runAsUser: 1, runAsGroup: 2, seccompProfile: {type: Unconfined}}, "
            "containers: [{name: app, securityContext: {runAsUser: 7}}]}"
        )
    ).containers[0]
    assert (made.user.uid, made.user.gid) == (7, 2)
    assert made.linux.seccomp_profile.profile_type == m.SecurityProfile.UNCONFINED


MISTAKES = {
    "kind: Service": "holds no Pod",
    "": "holds no Pod",
    pod("{containers: []}"): "a pod needs at least one container",
    pod("{containers: {name: app}}"): "expected a list of tables",
    pod("{containers: [{image: i}]}"): "a container without a name",
    pod("{containers: [{name: a, resources: {limits: {cpu: lots}}}]}"): '"lots" is not a quantity',
    pod("{containers: [{name: a, args: x}]}"): "args: expected a list",
    pod("{containers: [{name: a, securityContext: {runAsUser: me}}]}"): "not a user or group id",
    pod("{containers: [{name: a, securityContext: {seccompProfile: {type: Loose}}}]}"): 'not "Loose"',
    "kind: Pod\nspec: [": "not valid YAML",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_manifest_that_cannot_be_used_is_a_config_error(text, read):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert MISTAKES[text] in str(caught.value)


@pytest.mark.parametrize(
    "wrap", [lambda c: {"config": c}, lambda c: [{"Config": c}], lambda c: c], ids=["oci", "docker inspect", "bare"]
)
def test_an_images_configuration_is_read_in_its_usual_forms(wrap, tmp_path):
    path = tmp_path / "image.json"
    path.write_text(json.dumps(wrap({"Env": ["A=1"], "Entrypoint": ["/e"], "Cmd": None})))
    assert read_image_config(str(path)) == ImageConfig(("A=1",), ("/e",), ())


def test_what_is_not_an_images_configuration_is_refused(tmp_path):
    path = tmp_path / "image.json"
    path.write_text('{"config": []}')
    with pytest.raises(ConfigError, match="not the configuration of an image"):
        read_image_config(str(path))
