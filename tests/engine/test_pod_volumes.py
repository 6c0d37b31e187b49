"""Volumes of `nri pod` on the engine with real containers that attack the node, and pods that share a uid."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri import mountinfo
from tests.support.pod_verbs import Verbs
from tests.support.waiting import wait_for
from tools.runtimes.images import BUSYBOX

UID = "99999999-2222-3333-4444-555555555555"


def manifest(volume: str, mount: str, attack: str = "true", *, name: str = "web", image: str = BUSYBOX) -> str:
    """A pod whose first container has a whole volume, and whose second has a part of it at /mnt."""
    return f"""
kind: Pod
metadata: {{name: {name}}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  volumes: [{{name: data, {volume}}}]
  initContainers:
  - {{name: first, image: {BUSYBOX}, command: [sh, -c, "{attack}"], volumeMounts: [{{name: data, mountPath: /data}}]}}
  containers:
  - name: app
    image: {image}
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "ls /mnt; sleep 1000"]
    env: [{{name: PART, value: x}}]
    volumeMounts: [{{name: data, mountPath: /mnt, {mount}}}]
"""


@pytest.mark.parametrize("mount", ["subPath: x", "subPathExpr: $(PART)", "subPath: x/etc", "subPath: x/nri-new/deep"])
def test_a_link_that_a_container_puts_in_the_place_of_a_part_of_its_volume_is_refused(verbs: Verbs, mount: str) -> None:
    process = verbs.run(manifest("emptyDir: {}", mount, "ln -s / /data/x"))
    assert process.returncode == 1
    assert (
        b"pod.yaml:16: volumeMounts.subPath: x" in process.stderr and b"leads out of the volume, to /" in process.stderr
    )
    assert b"Pod default/web was removed" in process.stderr
    assert [*(verbs.folder / "pods").iterdir()] == [] and not Path("/nri-new").exists()


def test_a_link_that_was_left_in_a_folder_of_the_node_is_refused(verbs: Verbs) -> None:
    (verbs.folder / "host").mkdir()
    (verbs.folder / "outside").mkdir(0o755)
    (verbs.folder / "host/x").symlink_to(verbs.folder / "outside")
    (verbs.folder / "host/shadow").symlink_to("/etc/shadow")
    for part in ("x", "x/new", "shadow"):
        process = verbs.run(manifest("hostPath: {path: HOST}", f"subPath: {part}"))
        assert process.returncode == 1 and b"leads out of the volume" in process.stderr
    assert [*(verbs.folder / "outside").iterdir()] == []


def test_a_part_of_a_volume_is_the_containers_and_no_mount_is_left(verbs: Verbs) -> None:
    process = verbs.run(manifest("emptyDir: {}", "subPath: x/y", "mkdir /data/x; ln -s x /data/z"))
    assert process.returncode == 0, process.stderr
    assert verbs("exec", "web/app", "sh", "-c", "touch /mnt/file; stat -c %a /mnt").stdout == b"777\n"
    (volume,) = (verbs.folder / "pods").glob("*/volumes/data")
    assert (volume / "x/y/file").exists()
    verbs("rm", "-f", "web")
    assert [*(verbs.folder / "pods").iterdir()] == []
    assert str(verbs.folder) not in Path("/proc/self/mountinfo").read_text()


def test_no_other_user_of_the_node_reads_or_changes_volumes_or_logs(verbs: Verbs) -> None:
    for folder in (verbs.folder, *verbs.folder.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(0o711)  # pytest's own folders, which would hide the verb's
    assert verbs.run(manifest("emptyDir: {}", "subPath: x", "echo precious > /data/f")).returncode == 0
    (pod,) = (verbs.folder / "pods").iterdir()
    attack = f"cat {pod}/volumes/data/f; echo > {pod}/volumes/data/g; rm -f {pod}/volumes/data/f; ls {pod}/logs"
    process = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", attack],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout == "" and process.stderr.count("Permission denied") == 4
    assert sorted(os.listdir(pod / "volumes/data")) == ["f", "x"]


def test_a_second_pod_of_a_uid_is_refused_and_the_first_one_keeps_its_volume_and_logs(verbs: Verbs) -> None:
    def with_uid(name: str, image: str = BUSYBOX) -> str:
        text = manifest("emptyDir: {}", "subPath: x", "echo precious > /data/x-file", name=name, image=image)
        return text.replace("{name: web}" if name == "web" else f"{{name: {name}}}", f"{{name: {name}, uid: {UID}}}")

    assert verbs.run(with_uid("first")).returncode == 0
    for name, image in (("second", "localhost/nothing:1"), ("third", BUSYBOX)):
        process = verbs.run(with_uid(name, image))
        assert process.returncode == 1
        assert f"pod default/{name}: pod default/first already has the uid {UID}".encode() in process.stderr
    assert (verbs.folder / "pods" / UID / "volumes/data/x-file").read_text() == "precious\n"
    assert len([*(verbs.folder / "pods" / UID / "logs").iterdir()]) == 2
    assert verbs("exec", "first/app", "true").returncode == 0


def test_of_runs_of_one_manifest_at_once_one_pod_is_left_whole(verbs: Verbs) -> None:
    text = manifest("emptyDir: {}", "subPath: x", "echo precious > /data/f").replace("web}", f"web, uid: {UID}}}")
    (verbs.folder / "pod.yaml").write_text(text)
    runs = [verbs.begin("run", "-f", "pod.yaml", "--cgroup-root", f"/{verbs.cgroup}") for _ in range(4)]
    outcomes = [(run.communicate(timeout=60)[1], run.returncode) for run in runs]
    assert sorted(code for _, code in outcomes) == [0, 1, 1, 1], outcomes
    assert all(b"already" in words for words, code in outcomes if code)
    wait_for(lambda: verbs("exec", "web/app", "true").returncode == 0, "the container of the winner")
    assert (verbs.folder / "pods" / UID / "volumes/data/f").read_text() == "precious\n"


@contextmanager
def shared_tmpfs(path: Path) -> Iterator[None]:
    """A tmpfs at a new folder, whose mounts propagate, as those of a machine with systemd do."""
    path.mkdir(mode=0o750)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0750", "tmpfs", path], check=True)
    subprocess.run(["mount", "--make-shared", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-R", "-l", path], check=True)


def mounts_below(path: Path) -> list[str]:
    table = Path(mountinfo.OWN_MOUNT_TABLE).read_text().splitlines()
    return [mount.path for mount in mountinfo.parse(table) if mount.path.startswith(f"{path}/")]


def test_what_the_node_mounts_below_a_part_of_its_folder_meanwhile_stays_mounted(verbs: Verbs) -> None:
    host = verbs.folder / "host"
    with shared_tmpfs(host):
        (host / "x/disk").mkdir(parents=True)
        assert verbs.run(manifest("hostPath: {path: HOST}", "subPath: x")).returncode == 0
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", host / "x/disk"], check=True)
        assert len(mounts_below(verbs.folder)) == 4, "the node's mount is also below the part"
        assert verbs("rm", "-f", "web").returncode == 0
        assert mounts_below(host) == [str(host / "x/disk")] and [*(verbs.folder / "pods").iterdir()] == []


@pytest.mark.parametrize("part", ["", "subPath: x, "])
def test_mounts_that_a_container_has_passed_to_the_node_in_its_volume_go_with_the_pod(verbs: Verbs, part: str) -> None:
    attack = "mkdir /mnt/m; mount -t tmpfs t /mnt/m; mount --bind /etc /mnt/m; touch /mnt/done; sleep 1000"
    text = manifest("emptyDir: {}", f"{part}mountPropagation: Bidirectional").replace("ls /mnt; sleep 1000", attack)
    text = text.replace("    env:", "    securityContext: {privileged: true}\n    env:")
    pods = verbs.folder / "pods"
    with shared_tmpfs(pods):
        process = verbs.run(text)
        assert process.returncode == 0, process.stderr
        wait_for(lambda: any(pods.glob("*/volumes/data/**/done")), "the mounts of the container")
        assert any(path.endswith("/m") for path in mounts_below(pods))
        process = verbs("rm", "-f", "web")
        assert process.returncode == 0, process.stderr
        assert mounts_below(pods) == [] and [*pods.iterdir()] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["sandbox", "init container"])
def test_a_run_that_is_ended_by_a_signal_leaves_nothing(verbs: Verbs, number: int, moment: str) -> None:
    pods = verbs.folder / "pods"
    (verbs.folder / "pod.yaml").write_text(manifest("emptyDir: {}", "subPath: x", "sleep 100"))
    run = verbs.begin("run", "-f", "pod.yaml", "--cgroup-root", f"/{verbs.cgroup}")
    if moment == "sandbox":  # volumes are created right before it
        wait_for(lambda: any(pods.glob("*/volumes/data")), "the volume")
    else:
        wait_for(lambda: any(pods.glob("*/logs/first.log")), "the init container")
    run.send_signal(number)
    run.communicate(timeout=60)
    assert run.returncode == 128 + number
    assert [*pods.iterdir()] == [] and verbs("ps", "-a", "-q").stdout == b"" and verbs.cgroups() == []
