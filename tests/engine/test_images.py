"""Images from a real registry and from archives, and root file systems of containers."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from nri.engine.config import Registry
from nri.engine.images import Credentials, ImageStore, Progress, RegistryRules, Transport
from nri.engine.images.overlay import Stack
from nri.engine.images.transport import Transport as RealTransport
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError, InvalidRequest, MissingTool, NotFound
from nri.engine.support.kernel import is_mount_point
from tests.engine.machine import Machine
from tests.engine.registry import RegistryProcess, busybox
from tests.support.layout_registry import LayoutRegistry
from tests.support.needs import need_tool
from tests.support.oci_layouts import MEDIA, base_layer, digest, layer, layout

ME = Credentials("me", "secret")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry") / "r") as process:
        process.push("team/app:1")
        yield process


@pytest.fixture
def store(machine: Machine, registry: RegistryProcess) -> ImageStore:
    return new_store(machine, Registry(registry.host, insecure=True))


def new_store(machine: Machine, *registries: Registry, **options: str) -> ImageStore:
    need_tool("umoci")
    return ImageStore(machine.folder / "images", Transport(need_tool("skopeo"), RegistryRules(registries)), **options)  # type: ignore[arg-type]


def reopened(store: ImageStore) -> ImageStore:
    return ImageStore(store.root, store.transport)


def left_over(store: ImageStore) -> list[str]:
    return [path.name for path in (store.root / "pulls").iterdir()]


def test_a_pulled_image_survives_a_restart(store: ImageStore, registry: RegistryProcess) -> None:
    progress: list[Progress] = []
    image = store.pull(f"{registry.host}/team/app:1", progress=progress.append)
    assert image.repo_tags == (f"{registry.host}/team/app:1",)
    assert len(image.repo_digests) == 1 and image.repo_digests[0].startswith(f"{registry.host}/team/app@sha256:")
    assert image.id.startswith("sha256:") and image.size_bytes > 500_000
    assert image.entrypoint + image.cmd and any(word.startswith("PATH=") for word in image.env)
    assert progress[-1].done_bytes == progress[-1].total_bytes > 100_000
    reopened_store = reopened(store)
    assert reopened_store.complaints == []
    assert list(reopened_store.list()) == [image]
    for name in (image.id, image.id[7:], image.id[7:20], image.repo_tags[0], image.repo_digests[0]):
        assert reopened_store.get(name) == image
    assert left_over(store) == []
    assert reopened_store.fs_info().size_bytes == image.size_bytes


def test_the_digest_equals_the_registrys(store: ImageStore, registry: RegistryProcess) -> None:
    image = store.pull(f"{registry.host}/team/app:1")
    raw = subprocess.run(
        ["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{registry.host}/team/app:1"],
        capture_output=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    digest = subprocess.run(["sha256sum"], input=raw, capture_output=True, check=True).stdout.split()[0].decode()
    assert image.repo_digests == (f"{registry.host}/team/app@sha256:{digest}",)
    assert image.id == json.loads(raw)["config"]["digest"]
    by_digest = store.pull(f"{registry.host}/team/app@sha256:{digest}")
    assert by_digest == store.get(image.id)


def test_a_docker_image_has_the_same_id_as_in_other_runtimes(store: ImageStore, registry: RegistryProcess) -> None:
    name = registry.push("docker/app:1", "", "--format=v2s2")
    raw = subprocess.run(
        ["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{name}"], capture_output=True, check=True
    ).stdout
    image = store.pull(name)
    assert "docker" in json.loads(raw)["mediaType"] and image.id == json.loads(raw)["config"]["digest"]
    assert image.entrypoint + image.cmd


def test_two_names_can_share_an_image_and_a_name_can_move(store: ImageStore, registry: RegistryProcess) -> None:
    first = store.pull(registry.push("moving:1"))
    second = store.pull(registry.push("moving:2"))
    assert first.id == second.id and len(store.list()) == 1
    assert store.get(first.id).repo_tags == (f"{registry.host}/moving:1", f"{registry.host}/moving:2")
    other = other_image(store, registry, "moving:1")
    moved = store.pull(other)
    assert moved.id != first.id
    assert store.get(f"{registry.host}/moving:1").id == moved.id
    assert store.get(first.id).repo_tags == (f"{registry.host}/moving:2",)


def other_image(store: ImageStore, registry: RegistryProcess, name: str) -> str:
    """The tests' image with another configuration, pushed."""
    layout = store.root.parent / f"layout-{name.replace(':', '-')}"
    subprocess.run(
        ["skopeo", "--insecure-policy", "copy", "-q", busybox(store.root.parent), f"oci:{layout}:x"],
        check=True,
        timeout=60,
    )
    subprocess.run(["umoci", "config", "--image", f"{layout}:x", "--config.user=nobody"], check=True, timeout=60)
    return registry.push(name, f"oci:{layout}:x")


def test_concurrent_pulls_of_an_image_download_it_once(store: ImageStore, registry: RegistryProcess) -> None:
    copies: list[str] = []
    real = RealTransport.copy

    class Counting(Transport):
        def copy(self, source: str, *arguments: object, **options: object) -> None:  # type: ignore[override]
            copies.append(source)
            real(self, source, *arguments, **options)  # type: ignore[arg-type]

    store.transport = Counting(store.transport.skopeo, store.transport.registries)
    actual: list[str] = []
    names = [f"{registry.host}/team/app:1"] * 3 + [registry.push("elsewhere:9")]
    threads = [threading.Thread(target=lambda name=name: actual.append(store.pull(name).id)) for name in names]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(actual) == 4 and len(set(actual)) == 1 and len(copies) == 1


@pytest.mark.parametrize("kind", ["oci-archive", "docker-archive", "oci"])
def test_archives_can_be_loaded(store: ImageStore, kind: str) -> None:
    path = store.root.parent / "archive"
    origin = busybox(store.root.parent)
    argv = [
        "skopeo",
        "--insecure-policy",
        "copy",
        "-q",
        origin,
        f"{kind}:{path}:app:1" if kind == "docker-archive" else f"{kind}:{path}:x",
    ]
    subprocess.run(argv, check=True, timeout=60)
    image = store.load(f"{kind}:{path}", "app:1")
    assert image.repo_tags == ("docker.io/library/app:1",)
    assert store.get("app:1") == image
    rootfs = store.mount(image, "c1")
    assert (rootfs / "bin/busybox").stat().st_mode & stat.S_IXUSR
    store.unmount("c1")


def test_a_source_other_than_an_archive_is_refused(store: ImageStore) -> None:
    for source in ("docker://evil/x", "oci-archive:relative", "dir:/etc", "-h"):
        with pytest.raises(InvalidRequest, match="is not an archive"):
            store.load(source, "app")


# --- registries with rules ----------------------------------------------------------------------------------------


def test_credentials_are_used_and_never_appear_on_a_command_line(machine: Machine, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "r", password=True) as registry:
        name = registry.push("private:1")
        store = new_store(machine, Registry(registry.host, insecure=True))
        for wrong in (None, Credentials("me", "wrong")):
            with pytest.raises(CommandFailed, match=r"authentication required|unauthorized"):
                store.pull(name, wrong)
        names: list[str] = []
        spy = machine.folder / "skopeo"
        spy.write_text(f'#!/bin/sh\necho "$@" >> {machine.folder}/argv\nexec {store.transport.skopeo} "$@"\n')
        spy.chmod(0o755)
        store.transport.skopeo = str(spy)
        assert store.pull(name, ME).repo_tags == (name,)
        names = (machine.folder / "argv").read_text().splitlines()
        assert len(names) == 2 and not any("secret" in line or "bWU6" in line for line in names)
        assert store.pull(name, Credentials(auth="bWU6c2VjcmV0")).repo_tags == (name,)
        assert left_over(store) == []


def test_a_pull_without_credentials_uses_the_nodes_credentials_file(machine: Machine, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "r", password=True) as registry:
        name, file = registry.push("team/private:1"), tmp_path / "auth.json"
        store = new_store(machine, Registry(registry.host, insecure=True))
        store.transport = Transport(need_tool("skopeo"), store.transport.registries, credentials_file=str(file))
        with pytest.raises(EngineError, match=rf"images.credentials_file {file} cannot be read"):
            store.pull(name)
        file.write_text(json.dumps({"auths": {f"{registry.host}/other": {"auth": "bWU6c2VjcmV0"}}}))
        with pytest.raises(CommandFailed, match=r"authentication required|unauthorized"):
            store.pull(name)
        logins = {registry.host: {"auth": "bWU6d3Jvbmc="}, f"{registry.host}/team": {"auth": "bWU6c2VjcmV0"}}
        file.write_text(json.dumps({"auths": logins}))
        with pytest.raises(CommandFailed):
            store.pull(name, Credentials("me", "wrong"))
        assert store.pull(name).repo_tags == (name,), "the file is read at each pull, and the longest key is used"
        assert left_over(store) == []


def test_a_blocked_registry_and_its_mirrors_are_not_contacted(machine: Machine, registry: RegistryProcess) -> None:
    mirrors = (f"http://{registry.host}",)
    store = new_store(machine, Registry("registry.example.invalid", mirrors=mirrors, blocked=True))
    with pytest.raises(InvalidRequest, match=r"the registry registry\.example\.invalid is blocked on this node"):
        store.pull("registry.example.invalid/team/app:1")
    assert left_over(store) == []


def test_the_signature_policy_decides_which_registries_are_accepted(
    machine: Machine, registry: RegistryProcess, tmp_path: Path
) -> None:
    policy, name = tmp_path / "policy.json", f"{registry.host}/team/app:1"
    store = new_store(machine, Registry(registry.host, insecure=True))
    store.transport = Transport(need_tool("skopeo"), store.transport.registries, policy=str(policy))
    policy.write_text(json.dumps({"default": [{"type": "reject"}]}))
    with pytest.raises(CommandFailed, match="rejected by policy"):
        store.pull(name)
    accepted = {"docker": {f"{registry.host}/team": [{"type": "insecureAcceptAnything"}]}}
    policy.write_text(json.dumps({"default": [{"type": "reject"}], "transports": accepted}))
    assert store.pull(name).repo_tags == (name,)
    policy.unlink()
    with pytest.raises(CommandFailed, match="policy"):
        store.load(busybox(store.root.parent), "localhost/x:1")


def test_a_registry_with_a_private_ca_requires_its_certificate_file(machine: Machine, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "r", tls=True) as registry:
        name = registry.push("app:1")
        with pytest.raises(CommandFailed, match="certificate"):
            new_store(machine).pull(name)
        trusting = new_store(machine, Registry(registry.host, certificates=str(tmp_path / "r/certs")))
        assert trusting.pull(name).repo_tags == (name,)


def test_a_mirror_is_asked_in_place_of_a_registry_that_is_not_there(
    machine: Machine, registry: RegistryProcess
) -> None:
    absent = Registry("registry.example.invalid", mirrors=(f"http://{registry.host}",))
    image = new_store(machine, absent).pull("registry.example.invalid/team/app:1")
    assert image.repo_tags == ("registry.example.invalid/team/app:1",)


def test_plain_http_for_a_registry_does_not_switch_off_the_checks_of_its_mirror(
    machine: Machine, registry: RegistryProcess, tmp_path: Path
) -> None:
    with RegistryProcess(tmp_path / "mirror", tls=True) as mirror:
        mirror.push("team/app:1")
        requests = mirror.log.read_text().count("GET /v2/team/app/manifests")
        insecure = Registry(registry.host, mirrors=(mirror.host,), insecure=True)
        assert new_store(machine, insecure).pull(f"{registry.host}/team/app:1").repo_tags
        assert mirror.log.read_text().count("GET /v2/team/app/manifests") == requests


def test_a_rule_for_the_hosts_of_a_domain_leaves_their_names_unchanged(machine: Machine) -> None:
    with pytest.raises(CommandFailed, match=r'Get "http://r\.engine-test\.invalid:1/v2/"'):
        new_store(machine, Registry("*.engine-test.invalid", insecure=True)).pull("r.engine-test.invalid:1/app:1")


def test_lists_in_a_list_are_gone_through_to_the_image_for_this_machine(machine: Machine, tmp_path: Path) -> None:
    index = f"{MEDIA}.index.v1+json"
    with LayoutRegistry() as registry:

        def put(name: str, *rows: dict[str, object]) -> dict[str, object]:
            data = json.dumps({"schemaVersion": 2, "mediaType": index, "manifests": rows}).encode()
            registry.put(name, data, index)
            return {"mediaType": index, "digest": digest(data), "size": len(data)}

        def row(name: str, **more: object) -> dict[str, object]:
            data = registry.tags[name][1]
            return {"mediaType": f"{MEDIA}.manifest.v1+json", "digest": digest(data), "size": len(data), **more}

        registry.push("team/mine:1", layout(tmp_path / "mine", [base_layer()]))
        alien = {"os": "linux", "architecture": "alien", "rootfs": {"type": "layers", "diff_ids": []}}
        registry.push("team/alien:1", layout(tmp_path / "alien", [], whole_config=alien))
        other_platforms = put("team/others:1", row("team/alien:1", platform={"os": "linux", "architecture": "alien"}))
        unsaid = put("team/unsaid:1", row("team/alien:1"), row("team/mine:1"))
        put("team/all:1", other_platforms, unsaid)
        store = new_store(machine, Registry(registry.host, insecure=True))
        image = store.pull(f"{registry.host}/team/all:1")
        assert image.id == json.loads(registry.tags["team/mine:1"][1])["config"]["digest"]
        with pytest.raises(InvalidRequest, match=r"is not for linux/.*; it is for linux/alien"):
            store.pull(f"{registry.host}/team/others:1")
        assert left_over(store) == []


def test_an_image_that_is_not_there_is_named(store: ImageStore, registry: RegistryProcess) -> None:
    for name in (f"{registry.host}/team/app:none", f"{registry.host}/no/such:1"):
        with pytest.raises(NotFound, match=name):
            store.pull(name)
    with pytest.raises(NotFound):
        store.get("team/app:none")
    assert (list(store.list()), left_over(store)) == ([], [])


def test_a_registry_that_is_not_there_is_named(store: ImageStore) -> None:
    with pytest.raises(CommandFailed, match=r"localhost:1/x.*refused"):
        store.pull("localhost:1/x")


def test_a_registry_that_stands_still_is_given_up(machine: Machine, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "r") as registry:
        name = registry.push("app:1")
        store = new_store(machine, Registry(registry.host, insecure=True))
        store.transport.stall_s = 1
        registry.pause(True)
        with pytest.raises(CommandTimeout, match=name):
            store.pull(name)
        registry.pause(False)
        assert (list(store.list()), left_over(store)) == ([], [])
        store.transport.stall_s = 60
        store.pull(name)


def test_stalled_registries_do_not_delay_pulls_of_others(machine: Machine, tmp_path: Path) -> None:
    """Eight pulls of four registries that send the manifest and then only a part of a layer, or a byte now and then."""
    with ExitStack() as stack:
        bad = [stack.enter_context(StallingRegistry(drips=number % 2 == 0)) for number in range(4)]
        good = stack.enter_context(RegistryProcess(tmp_path / "good"))
        names = list[str]()
        for registry in [*bad, *bad]:
            source = layout(tmp_path / f"layout{len(names)}", [layer({"x": os.urandom(5000)})])
            names.append(registry.push(f"app{len(names)}:1", source))
        store = new_store(machine, *(Registry(host, insecure=True) for host in (*(r.host for r in bad), good.host)))
        store.transport.stall_s, store.transport.total_s = 15, 20
        errors: dict[str, str] = {}

        def pull(name: str) -> None:
            with pytest.raises(CommandTimeout) as error:
                store.pull(name)
            errors[name] = str(error.value)

        threads = [threading.Thread(target=pull, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        machine.wait_for(lambda: all(registry.stalled for registry in bad), "the registries to stall")
        assert store.pull(good.push("app:1")).repo_tags
        assert errors == {}, "the others are still waiting for their registries"
        for thread in threads:
            thread.join(120)
        kinds = {name: "without progress" in error for name, error in errors.items()}
        assert kinds == {name: not bad[index % 4].drips for index, name in enumerate(names)}
        assert (len([*store.list()]), left_over(store)) == (1, [])


class StallingRegistry(LayoutRegistry):
    """Sends half of each layer, and then nothing, or with `drips` a byte every second."""

    def __init__(self, *, drips: bool) -> None:
        super().__init__()
        self.drips, self.stalled, self.go = drips, False, threading.Event()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        data = self.blobs.get(request.path.rpartition("/")[2], b"")
        if request.command != "GET" or "/blobs/" not in request.path or len(data) < 1000:
            super().answer(request)
            return
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data[:1000])
        self.stalled = True
        for number in range(1000, len(data)):
            if self.go.wait(1) or not self.drips:
                break
            try:
                request.wfile.write(data[number : number + 1])
                request.wfile.flush()
            except OSError:  # the pull was cancelled
                break
        self.go.wait(120)

    def __exit__(self, *_: object) -> None:
        self.go.set()
        super().__exit__()


def test_an_unpacker_that_hangs_is_ended_and_the_next_pull_works(machine: Machine, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "r") as registry:
        name = registry.push("app:1")
        store = new_store(machine, Registry(registry.host, insecure=True))
        slow = tmp_path / "umoci"
        slow.write_text("#!/bin/sh\nexec sleep 1000\n")
        slow.chmod(0o755)
        umoci, store.umoci, store.transport.stall_s = store.umoci, str(slow), 1
        with pytest.raises(CommandTimeout, match="unpacking without progress"):
            store.pull(name)
        assert (list(store.list()), left_over(store)) == ([], [])
        store.umoci, store.transport.stall_s = umoci, 60
        store.pull(name)


def test_a_missing_program_is_named(store: ImageStore, registry: RegistryProcess) -> None:
    store.umoci = "/no/such/umoci"
    with pytest.raises(MissingTool, match="/no/such/umoci"):
        store.pull(f"{registry.host}/team/app:1")
    store.transport.skopeo = "/no/such/skopeo"
    with pytest.raises(MissingTool, match="/no/such/skopeo"):
        store.pull(f"{registry.host}/team/app:1")
    assert (list(store.list()), left_over(store), list((store.root / "images").iterdir())) == ([], [], [])


@pytest.mark.parametrize("size", ["1m", "2m"])  # too small for the layers; too small for what is in them
def test_a_full_disk_fails_the_pull_by_name_and_leaves_nothing(
    machine: Machine, registry: RegistryProcess, size: str
) -> None:
    small = machine.folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], check=True)
    try:
        transport = Transport(need_tool("skopeo"), RegistryRules([Registry(registry.host, insecure=True)]))
        store = ImageStore(small / "images", transport, driver="copy")
        with pytest.raises(EngineError, match="no space left"):
            store.pull(f"{registry.host}/team/app:1")
        assert (list(store.list()), left_over(store)) == ([], [])
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)  # what was killed may still be ending


# --- kills in the middle ------------------------------------------------------------------------------------------


def test_what_a_kill_left_is_removed_at_the_start(store: ImageStore, registry: RegistryProcess) -> None:
    image = store.pull(f"{registry.host}/team/app:1")
    (store.root / "pulls/half/layout").mkdir(parents=True)
    torn = store.root / "images" / ("0" * 64)
    (torn / "rootfs").mkdir(parents=True)
    reopened_store = reopened(store)
    assert [line for line in reopened_store.complaints if str(torn) in line and "pulled again" in line]
    assert (left_over(reopened_store), torn.exists()) == ([], False)
    assert list(reopened_store.list()) == [image]


PULL = """
import sys
from pathlib import Path
from nri.engine.config import Registry
from nri.engine.images import ImageStore, RegistryRules, Transport
transport = Transport(sys.argv[1], RegistryRules([Registry(sys.argv[3].partition("/")[0], insecure=True)]))
ImageStore(Path(sys.argv[2]), transport, umoci=sys.argv[4]).pull(sys.argv[3])
"""


@pytest.mark.parametrize("moment", ["manifest", "copy", "unpack"])
def test_an_engine_killed_in_a_pull_leaves_nothing_to_the_next_one(
    machine: Machine, store: ImageStore, registry: RegistryProcess, moment: str
) -> None:
    slow = machine.folder / "slow"
    word = {"manifest": "inspect", "copy": " copy ", "unpack": "raw unpack"}[moment]
    real = store.transport.skopeo if moment != "unpack" else need_tool("umoci")
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *"{word}"*) touch {machine.folder}/reached; while :; do sleep 0.1; done;; esac\n'
        f'exec {real} "$@"\n'
    )
    slow.chmod(0o755)
    tools = [str(slow), need_tool("umoci")] if moment != "unpack" else [store.transport.skopeo, str(slow)]
    name = f"{registry.host}/team/app:1"
    engine = subprocess.Popen([sys.executable, "-c", PULL, tools[0], str(store.root), name, tools[1]])
    machine.wait_for((machine.folder / "reached").exists, moment)
    engine.kill()
    engine.wait()
    reopened_store = reopened(store)
    assert (reopened_store.complaints, left_over(reopened_store), list(reopened_store.list())) == ([], [], [])
    assert reopened_store.pull(name).repo_tags == (name,)


def test_names_that_cannot_be_read_leave_the_images(store: ImageStore, registry: RegistryProcess) -> None:
    image = store.pull(f"{registry.host}/team/app:1")
    (store.root / "names.json").write_text("{")
    reopened_store = reopened(store)
    assert "without names" in reopened_store.complaints[0]
    assert reopened_store.get(image.id).repo_tags == ()


# --- removal ------------------------------------------------------------------------------------------------------


def test_a_removed_image_is_gone_with_its_files_and_removing_it_again_is_no_error(
    store: ImageStore, registry: RegistryProcess
) -> None:
    image = store.pull(f"{registry.host}/team/app:1")
    for _ in range(2):
        store.remove(image.id)
    assert (list(store.list()), store.fs_info(), list((store.root / "images").iterdir())) == ([], (0, 0, True), [])
    assert reopened(store).complaints == []


def test_what_a_container_uses_stays_until_the_container_is_gone(store: ImageStore, registry: RegistryProcess) -> None:
    image = store.pull(f"{registry.host}/team/app:1")
    rootfs = store.mount(image, "c1")
    store.remove(f"{registry.host}/team/app:1")
    assert list(store.list()) == []
    with pytest.raises(NotFound):
        store.get(image.id)
    assert (rootfs / "bin/busybox").exists()
    reopened_store = reopened(store)
    assert list(reopened_store.list()) == [] and (rootfs / "bin/busybox").exists()
    reopened_store.unmount("c1")
    assert list((store.root / "images").iterdir()) == []
    assert reopened_store.pull(f"{registry.host}/team/app:1").id == image.id


def test_an_image_pulled_again_while_its_removal_waits_is_there(store: ImageStore, registry: RegistryProcess) -> None:
    image = store.pull(f"{registry.host}/team/app:1")
    store.mount(image, "c1")
    store.remove(image.id)
    assert store.pull(f"{registry.host}/team/app:1").repo_tags == image.repo_tags
    store.unmount("c1")
    assert store.get(image.id) == image


# --- root file systems --------------------------------------------------------------------------------------------


@pytest.fixture(params=["overlay", "copy"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def with_driver(machine: Machine, registry: RegistryProcess, driver: str) -> ImageStore:
    return new_store(machine, Registry(registry.host, insecure=True), driver=driver)


def test_each_container_writes_for_itself(with_driver: ImageStore, registry: RegistryProcess) -> None:
    store = with_driver
    image = store.pull(f"{registry.host}/team/app:1")
    first, second = store.mount(image, "c1"), store.mount(image, "c2")
    assert first == store.mount(image, "c1")  # twice is once
    (first / "etc/mine").write_bytes(b"x" * 100_000)
    (first / "bin/busybox").unlink()
    assert not (second / "etc/mine").exists() and (second / "bin/busybox").exists()
    assert store.snapshots.usage("c1").size_bytes >= 100_000
    assert is_mount_point(first) == (store.snapshots.driver == "overlay")
    for name in ("c1", "c2", "c2"):
        store.unmount(name)
    assert list((store.root / "snapshots").iterdir()) == []
    assert stat.S_IMODE(first.parent.parent.stat().st_mode) == 0o700


def test_what_was_written_is_there_after_a_restart_of_the_machine(
    with_driver: ImageStore, registry: RegistryProcess
) -> None:
    store = with_driver
    image = store.pull(f"{registry.host}/team/app:1")
    (store.mount(image, "c1") / "kept").write_text("x")
    store.snapshots.detach("c1")
    reopened_store = ImageStore(store.root, store.transport)
    assert reopened_store.snapshots.images() == {"c1": image.id}
    assert (reopened_store.mount(image, "c1") / "kept").read_text() == "x"
    reopened_store.unmount("c1")


def test_the_root_folder_has_the_images_mode_and_special_files_are_copied(
    with_driver: ImageStore, driver: str, machine: Machine
) -> None:
    lower = machine.folder / "lower"
    lower.mkdir(mode=0o755)
    lower.chmod(0o751)
    os.chown(lower, 12, 34)
    os.mknod(lower / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (lower / "link").symlink_to("/etc")
    os.setxattr(lower / "null", "trusted.x", b"1")
    merged = with_driver.snapshots.mount(Stack(machine.folder, ["lower"]), "c1")
    status = merged.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o751, 12, 34)
    assert stat.S_ISCHR((merged / "null").stat().st_mode) and os.readlink(merged / "link") == "/etc"
    assert os.getxattr(merged / "null", "trusted.x") == b"1"
    with_driver.unmount("c1")


def test_a_mount_that_fails_leaves_nothing(with_driver: ImageStore, machine: Machine) -> None:
    with pytest.raises(EngineError):
        with_driver.snapshots.mount(Stack(machine.folder, ["nothing"]), "c1")
    assert list((with_driver.root / "snapshots").iterdir()) == []
