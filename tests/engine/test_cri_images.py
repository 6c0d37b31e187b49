"""The ImageService over gRPC: real pulls from a real registry, with and without a login."""

from __future__ import annotations

import base64
import json
import os
import socket
import stat
from collections.abc import Iterator

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.images import ImageCalls
from nri.engine.config import Registry
from nri.engine.images import ImageStore, RegistryRules, Transport
from nri.engine.server import Server
from nri.engine.support.errors import EngineError
from tests.engine.machine import Machine
from tests.engine.registry import RegistryProcess
from tests.support.cri_client import CriClient
from tests.support.needs import need_tool

Code = grpc.StatusCode


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry") / "r", password=True) as process:
        process.push("team/app:1")
        yield process


@pytest.fixture
def cri(machine: Machine, registry: RegistryProcess) -> Iterator[CriClient]:
    need_tool("umoci")
    transport = Transport(need_tool("skopeo"), RegistryRules([Registry(registry.host, insecure=True)]))
    server = Server(
        machine.folder / "cri.sock",
        [ImageCalls(ImageStore(machine.folder / "images", transport), lambda: ("*team/app*",))],
    )
    server.start()
    try:
        with CriClient(machine.folder / "cri.sock") as client:
            yield client
    finally:
        server.stop(0)


def spec(name: str) -> pb.ImageSpec:
    return pb.ImageSpec(image=name)


def login(**more: str) -> pb.AuthConfig:
    return pb.AuthConfig(username="me", password="secret", **more)


def test_an_image_is_pulled_listed_described_and_removed(cri: CriClient, registry: RegistryProcess) -> None:
    name = f"{registry.host}/team/app:1"
    assert not cri.call("ImageStatus", image=spec(name)).HasField("image")
    assert cri.call("ListImages").images == [] and next(iter(cri.stream("StreamImages"))).images == []
    ref = cri.call("PullImage", image=spec(name), auth=login()).image_ref
    assert ref.startswith("sha256:")
    response = cri.call("ImageStatus", image=spec(name), verbose=True)
    image = response.image
    assert (image.id, image.repo_tags, image.size > 500_000, image.pinned) == (ref, [name], True, True)
    assert [entry.pinned for entry in cri.call("ListImages").images] == [True]
    assert image.repo_digests[0].startswith(f"{registry.host}/team/app@sha256:")
    assert json.loads(response.info["info"])["imageSpec"]["config"]["Env"] == ["PATH=/bin"]
    assert not cri.call("ImageStatus", image=spec(ref)).info
    for image_name in (name, ref, ref[7:20], image.repo_digests[0]):
        filtered = cri.call("ListImages", filter=pb.ImageFilter(image=spec(image_name))).images
        assert [entry.id for entry in filtered] == [ref], image_name
    assert not cri.call("ListImages", filter=pb.ImageFilter(image=spec("elsewhere:1"))).images
    assert [entry.id for part in cri.stream("StreamImages") for entry in part.images] == [ref]
    usage = cri.call("ImageFsInfo")
    (images,), (containers,) = usage.image_filesystems, usage.container_filesystems
    assert images.used_bytes.value == image.size and images.inodes_used.value > 10 and images.timestamp > 1e18
    assert containers.fs_id.mountpoint == images.fs_id.mountpoint != "" and containers.used_bytes.value == 0
    for _ in range(2):
        cri.call("RemoveImage", image=spec(name))
    assert not cri.call("ListImages").images


@pytest.mark.parametrize(
    "auth",
    [
        pytest.param(login(server_address="https://{host}/v2/"), id="of this registry"),
        pytest.param(pb.AuthConfig(auth=base64.b64encode(b"me:secret").decode()), id="in one word"),
    ],
)
def test_every_form_of_login_is_used(cri: CriClient, registry: RegistryProcess, auth: pb.AuthConfig) -> None:
    auth.server_address = auth.server_address.replace("{host}", registry.host)
    assert cri.call("PullImage", image=spec(f"{registry.host}/team/app:1"), auth=auth).image_ref


@pytest.mark.parametrize(
    ("name", "auth", "code", "words"),
    [
        ("{host}/team/app:1", None, Code.UNKNOWN, "authentication required"),
        ("{host}/team/app:1", pb.AuthConfig(username="me", password="wrong"), Code.UNKNOWN, "authentication required"),
        ("{host}/team/app:1", login(server_address="other.example"), Code.UNKNOWN, "authentication required"),
        ("{host}/team/app:1", pb.AuthConfig(auth="?"), Code.INVALID_ARGUMENT, "not valid base64"),
        ("{host}/team/app:1", pb.AuthConfig(registry_token="t"), Code.INVALID_ARGUMENT, "auth.registry_token"),
        ("{host}/team/none:1", login(), Code.NOT_FOUND, "team/none:1"),
        ("UPPER", None, Code.INVALID_ARGUMENT, "is not an image name"),
        ("", None, Code.INVALID_ARGUMENT, "an image is required"),
        ("localhost:1/team/app:1", None, Code.UNKNOWN, "RegistryUnavailable: "),
        (
            "localhost:1/team/app:1",
            None,
            Code.UNKNOWN,
            "; without a registry: nri engine load ARCHIVE localhost:1/team/app:1",
        ),
    ],
)
def test_a_failed_pull_reports_the_reason_without_the_password(
    cri: CriClient, registry: RegistryProcess, name: str, auth: pb.AuthConfig | None, code: Code, words: str
) -> None:
    got, text = cri.refused("PullImage", image=spec(name.replace("{host}", registry.host)), auth=auth)
    assert (got, words in text) == (code, True), text
    assert "secret" not in text and "wrong" not in text
    assert not cri.call("ListImages").images


def test_a_call_without_a_handler_is_unimplemented(cri: CriClient) -> None:
    assert cri.refused("CheckpointPod")[0] is Code.UNIMPLEMENTED
    assert cri.refused("StreamContainers")[0] is Code.UNIMPLEMENTED


def test_the_socket_is_private_and_removed_with_the_server(machine: Machine) -> None:
    path = machine.folder / "deeper/cri.sock"
    server = Server(path, [])
    server.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    second = Server(path, [])
    with pytest.raises(EngineError, match="another process listens there"):
        second.start()
    second.stop(0)
    server.stop(0)
    assert not path.exists()


def test_a_dead_socket_is_replaced_and_a_folder_of_another_user_is_refused(machine: Machine) -> None:
    path = machine.folder / "cri.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    server = Server(path, [])
    server.start()
    server.stop(0)
    shared = machine.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    server = Server(shared / "cri.sock", [])
    with pytest.raises(EngineError, match="writable by other users"):
        server.start()
    server.stop(0)
    assert os.listdir(shared) == []


def test_messages_may_be_as_long_as_with_containerd(cri: CriClient) -> None:
    text = "x" * (5 << 20)  # over gRPC's own limit of 4 MiB
    assert cri.refused("PullImage", image=spec("UPPER"), auth=pb.AuthConfig(password=text))[0] is Code.INVALID_ARGUMENT
    assert cri.refused("PullImage", image=spec("x" * (17 << 20)))[0] is Code.RESOURCE_EXHAUSTED
