"""A container of a manifest as the message that plugins get."""

from nri.api import messages as m
from nri.kube.image_config import ImageConfig
from tests.unit.kube.conftest import pod

IMAGE = ImageConfig(("PATH=/bin", "LANG=C"), ("/entry",), ("serve", "--all"))


def container(read, text: str, image: ImageConfig | None = None) -> m.Container:
    return read(pod(f"{{containers: [{{name: app, {text}}}]}}"), image).containers[0]


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
