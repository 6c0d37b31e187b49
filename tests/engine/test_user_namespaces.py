"""Pods with user namespaces on real runtimes: users outside, owners inside, and the cleanup."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import DomainConfig, OciRuntime
from nri.engine.images import snapshots
from nri.engine.state import PodState
from nri.engine.support.errors import EngineError
from nri.errors import RequestError
from tests.engine.node import IMAGE, Node
from tests.engine.registry import busybox
from tests.support.needs import need
from tools.runtimes.machine import MissingError
from tools.runtimes.newer_runc import install_runc

pytestmark = pytest.mark.timeout(600)  # the first one may have to build a runtime

FIRST, COUNT = 700_000, 65_536
FIELD = r"linux\.security_context\.namespace_options"


def mapped(node: Node, name: str = "pod", *, network: int = pb.POD, first: int = FIRST, inside: int = 0):
    config = node.pod_config(name, network=network)
    ids = [pb.IDMapping(host_id=first, container_id=inside, length=COUNT)]
    options = config.linux.security_context.namespace_options
    options.userns_options.CopyFrom(pb.UserNamespace(mode=pb.POD, uids=ids, gids=ids))
    return config


def container(node: Node, config: pb.PodSandboxConfig, name: str, *command: str, **security: object):
    config_ = node.container_config(name, command) if command else node.container_config(name)
    context = config_.linux.security_context
    context.CopyFrom(pb.LinuxContainerSecurityContext(**security))
    context.namespace_options.CopyFrom(config.linux.security_context.namespace_options)
    return config_


def inside(node: Node, container_id: str, text: str) -> str:
    execution = node.engine.running_containers.exec_sync(container_id, ("sh", "-c", text), 20)
    assert execution.code == 0, execution
    return execution.stdout.decode().strip()


def exposed(top: Path) -> list[str]:
    """What another user of the node could read below a folder of the engine."""
    actual = []
    for path in top.iterdir():
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            if mode & stat.S_IROTH:
                actual.append(str(path))
            elif mode & stat.S_IXOTH and not path.is_mount():
                actual += exposed(path)
        elif mode & stat.S_IROTH and not stat.S_ISLNK(mode):
            actual.append(str(path))
    return actual


@pytest.mark.parametrize("handler", ["runc", "crun"])
@pytest.mark.parametrize("driver", ["overlay", "copy", "no-idmap"])
def test_root_inside_is_an_unprivileged_user_outside_and_owns_its_files(
    node: Node, handler: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if driver == "no-idmap":  # a file system that cannot map: the image's files are copied
        monkeypatch.setattr(snapshots.IdMapping, "mount", lambda *_: None)
    elif driver == "copy":
        node.start(replace(node.config, images=replace(node.config.images, snapshots="copy")))
    engine, config = node.engine, mapped(node)
    pod = engine.pod_creation.run(config, handler)
    container_id = engine.container_creation.create(pod, container(node, config, "c"))
    engine.container_start.start(container_id)
    record = engine.inventory.container(container_id).record
    status = Path(f"/proc/{record.pid}/status").read_text()
    assert [line.split()[1] for line in status.splitlines() if line.startswith(("Uid", "Gid"))] == [str(FIRST)] * 2
    assert inside(node, container_id, "id -u; cat /proc/self/uid_map").split() == ["0", "0", str(FIRST), str(COUNT)]
    assert inside(node, container_id, "stat -c %u:%g / /bin/busybox /etc/hosts /dev/shm").split() == ["0:0"] * 4
    inside(node, container_id, "echo mine > /file; chown 33:44 /file; echo shared > /dev/shm/x; hostname > /name")
    merged = Path(record.rootfs)
    status_ = (merged / "file").stat()
    assert (status_.st_uid, status_.st_gid) == (FIRST + 33, FIRST + 44)
    assert inside(node, container_id, "cat /name") == engine.inventory.pod(pod).record.hostname
    assert "lo" in inside(node, container_id, "cat /proc/net/dev")
    # An image's own files stay as they are, for all others.
    plain = node.run(node.pod("plain"), "plain")
    assert inside(node, plain, "stat -c %u:%g /bin/busybox") == "0:0"
    assert exposed(node.config.root) == exposed(node.config.state) == []
    engine.pod_removal.remove(engine.inventory.container(plain).record.pod_id)
    engine.pod_removal.remove(pod)
    node.assert_nothing_left()


def test_an_image_user_a_terminal_and_a_probe_work(node: Node) -> None:
    engine, config = node.engine, mapped(node)
    pod = engine.pod_creation.run(config)
    config_ = container(node, config, "c", run_as_user=pb.Int64Value(value=1000))
    container_id = engine.container_creation.create(pod, config_)
    engine.container_start.start(container_id)
    status = Path(f"/proc/{engine.inventory.container(container_id).record.pid}/status").read_text()
    assert f"Uid:\t{FIRST + 1000}\t" in status
    assert inside(node, container_id, "id -u") == "1000"


def test_pods_share_no_ids_and_a_pod_with_a_shared_pid_namespace_is_mapped(node: Node) -> None:
    engine = node.engine
    pods, uids = [], []
    for number, name in enumerate(("a", "b")):
        config = mapped(node, name, first=FIRST + number * COUNT)
        config.linux.security_context.namespace_options.pid = pb.POD
        pods.append(engine.pod_creation.run(config))
        container_id = engine.container_creation.create(pods[-1], container(node, config, name))
        engine.container_start.start(container_id)
        pids = (engine.inventory.pod(pods[-1]).record.pid, engine.inventory.container(container_id).record.pid)
        uids += [os.stat(f"/proc/{pid}").st_uid for pid in pids]
    assert uids == [FIRST, FIRST, FIRST + COUNT, FIRST + COUNT]
    for pod in pods:
        engine.pod_removal.remove(pod)
    node.assert_nothing_left()


def test_a_mapped_pod_survives_a_restart_of_the_engine(node: Node) -> None:
    config = mapped(node)
    pod = node.engine.pod_creation.run(config)
    container_id = node.engine.container_creation.create(pod, container(node, config, "c"))
    node.engine.container_start.start(container_id)
    node.restart()
    assert inside(node, container_id, "id -u; cat /proc/self/uid_map").split()[2] == str(FIRST)
    second = node.engine.container_creation.create(pod, container(node, config, "second"))
    node.engine.container_start.start(second)
    assert os.stat(f"/proc/{node.engine.inventory.container(second).record.pid}").st_uid == FIRST
    assert node.engine.inventory.pod(pod).record.state is PodState.READY
    node.engine.pod_removal.remove(pod)
    node.assert_nothing_left()


def test_a_volume_is_mapped_or_refused_with_its_field(node: Node) -> None:
    try:
        runc = str(install_runc(print))
    except MissingError as error:
        need(False, str(error))
    runtimes = {**node.config.runtimes, "runc13": OciRuntime(runc)}
    engine = node.start(replace(node.config, runtimes=runtimes))
    volume = node.folder / "volume"
    volume.mkdir()
    (volume / "file").touch()
    ids = [pb.IDMapping(host_id=FIRST, container_id=0, length=COUNT)]
    for handler in ("runc13", "runc"):
        config = mapped(node, handler)
        config_ = container(node, config, "c")
        config_.mounts.add(container_path="/volume", host_path=str(volume), uidMappings=ids, gidMappings=ids)
        pod = engine.pod_creation.run(config, handler)
        if handler == "runc":
            with pytest.raises(RequestError, match=r"mounts\[0\]\.uidMappings.*ID-mapped mounts are not supported"):
                engine.container_creation.create(pod, config_)
            continue
        container_id = engine.container_creation.create(pod, config_)
        engine.container_start.start(container_id)
        assert inside(node, container_id, "stat -c %u:%g /volume/file; touch /volume/new") == "0:0"
        assert (volume / "new").stat().st_uid == 0, "written by root inside, it is root's outside"


def test_an_impossible_mapping_is_refused_with_its_field_and_leaves_nothing(node: Node) -> None:
    engine = node.engine
    for kind in ("ipc", "pid"):
        shared = mapped(node)
        setattr(shared.linux.security_context.namespace_options, kind, pb.NODE)
        with pytest.raises(RequestError, match=rf'{FIELD}\.{kind}: "NODE"'):
            engine.pod_creation.run(shared)
    with pytest.raises(RequestError, match=rf"{FIELD}\.userns_options\.uids: .*must start at id 0"):
        engine.pod_creation.run(mapped(node, inside=1))
    config = mapped(node)
    pod = engine.pod_creation.run(config)
    with pytest.raises(RequestError, match=rf"{FIELD}\.userns_options: .*differs from the pod's"):
        engine.container_creation.create(pod, container(node, mapped(node, first=1_000_000), "c"))
    engine.pod_removal.remove(pod)
    node.assert_nothing_left()


@pytest.mark.parametrize("handler", ["runc", "crun"])
@pytest.mark.parametrize("pid", [pb.CONTAINER, pb.POD])
def test_a_pod_on_the_nodes_network_is_mapped_and_sees_the_nodes_sys_read_only(
    node: Node, handler: str, pid: int
) -> None:
    engine, config = node.engine, mapped(node, network=pb.NODE)
    config.linux.security_context.namespace_options.pid = pid  # type: ignore[assignment]
    pod = engine.pod_creation.run(config, handler)
    container_id = engine.container_creation.create(pod, container(node, config, "c"))
    engine.container_start.start(container_id)
    process = Path(f"/proc/{engine.inventory.container(container_id).record.pid}")
    assert os.readlink(process / "ns/net") == os.readlink("/proc/self/ns/net")
    assert os.readlink(process / "ns/user") != os.readlink("/proc/self/ns/user")
    assert f"Uid:\t{FIRST}\t" in (process / "status").read_text()
    interfaces = sorted(path.name for path in Path("/sys/class/net").iterdir())
    assert inside(node, container_id, "ls /sys/class/net").split() == interfaces
    assert "Read-only" in inside(node, container_id, "mkdir /sys/x 2>&1 || true")
    rows = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    below = {row[4]: row[5] for row in rows if f"{row[4]}/".startswith("/sys/")}
    below.pop("/sys/fs/cgroup")  # of cgroup v1 the OCI runtime's own tmpfs, as in other pods with a user namespace
    assert all("ro" in options.split(",") for options in below.values()), below
    assert inside(
        node, container_id, "cat /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs 2>/dev/null | head -1"
    )
    engine.pod_removal.remove(pod)
    node.assert_nothing_left()


#: Opens both streams by their names, as the log files of nginx and httpd do.
STREAMS = "for name in stdout stderr; do echo $name > /dev/$name || exit 1; done"


@pytest.mark.parametrize("handler", ["runc", "crun"])
@pytest.mark.parametrize("user", [0, 1000])
def test_a_program_can_open_its_streams_by_path(node: Node, handler: str, user: int) -> None:
    engine, config = node.engine, mapped(node)
    pod = engine.pod_creation.run(config, handler)
    config_ = container(node, config, "c", "sh", "-c", f"{STREAMS}; sleep 1000", run_as_user=pb.Int64Value(value=user))
    container_id = engine.container_creation.create(pod, config_)
    engine.container_start.start(container_id)
    log = node.folder / "logs/pod/c.log"
    node.wait_for(lambda: len(log.read_text().splitlines()) == 2, "both lines in the log")
    assert sorted(line.split()[-1] for line in log.read_text().splitlines()) == ["stderr", "stdout"]
    # A program of ExecSync, and a program of Exec with an input.
    execution = engine.running_containers.exec_sync(container_id, ("sh", "-c", STREAMS), 20)
    assert (execution.stdout, execution.stderr, execution.code) == (b"stdout\n", b"stderr\n", 0)
    streamed = engine.running_containers.exec(
        container_id, ("sh", "-c", f"cat /dev/stdin > /dev/stdout; {STREAMS}"), stdin=True
    )
    try:
        assert streamed.stdin is not None and streamed.stdout is not None
        os.write(streamed.stdin, b"input\n")
        streamed.close_stdin()
        assert streamed.wait(20) == 0
        assert os.read(streamed.stdout, 100) == b"input\nstdout\n"
    finally:
        streamed.close()


@pytest.mark.parametrize("handler", ["runc", "crun"])
@pytest.mark.parametrize("driver", ["overlay", "copy"])
def test_an_image_volume_has_the_owners_of_the_pod(node: Node, handler: str, driver: str) -> None:
    engine = node.start(replace(node.config, images=replace(node.config.images, snapshots=driver)))
    config = mapped(node)
    pod = engine.pod_creation.run(config, handler)
    config_ = container(node, config, "c")
    users = config.linux.security_context.namespace_options.userns_options
    # The kubelet maps each mount of such a pod, the images, too.
    image = pb.ImageSpec(image=IMAGE)
    config_.mounts.add(
        container_path="/tools", image=image, readonly=True, uidMappings=users.uids, gidMappings=users.gids
    )
    config_.mounts.add(container_path="/applets", image=image, readonly=True, image_sub_path="bin")
    container_id = engine.container_creation.create(pod, config_)
    engine.container_start.start(container_id)
    assert inside(node, container_id, "stat -c %u:%g /tools/bin/busybox /applets/busybox").split() == ["0:0"] * 2
    assert inside(node, container_id, "touch /tools/x 2>&1 || echo refused").endswith("refused")
    engine.pod_removal.remove(pod)
    node.assert_nothing_left()


def test_a_closed_parent_folder_is_an_error_with_its_path_and_is_not_opened(node: Node) -> None:
    engine, config = node.engine, mapped(node)
    node.folder.chmod(0o700)
    pod = engine.pod_creation.run(config)
    with pytest.raises(EngineError, match=f"cannot enter {node.folder}, which is not the engine's folder"):
        engine.container_creation.create(pod, container(node, config, "c"))
    config.linux.security_context.namespace_options.pid = pb.POD
    config.metadata.uid = "another"
    with pytest.raises(EngineError, match=f"cannot enter {node.folder}, which is not the engine's folder"):
        engine.pod_creation.run(config)
    assert stat.S_IMODE(node.folder.stat().st_mode) == 0o700
    node.folder.chmod(0o711)
    engine.pod_removal.remove(pod)
    node.assert_nothing_left()


def test_a_mapped_pod_of_another_domain_can_enter_its_folders(node: Node) -> None:
    node.start(replace(node.config, domains={"other": DomainConfig()}))
    domain, config = node.engine.domains["other"], mapped(node)
    domain.images.load(busybox(node.folder), IMAGE)
    pod = domain.pod_creation.run(config)
    container_id = domain.container_creation.create(pod, container(node, config, "c"))
    domain.container_start.start(container_id)
    execution = domain.running_containers.exec_sync(container_id, ("id", "-u"), 20)
    assert execution.stdout == b"0\n"
    domain.pod_removal.remove(pod)
