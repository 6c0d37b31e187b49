"""Images with misleading users: a container runs with the requested number, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.images import image_message
from nri.errors import RequestError
from tests.engine.node import Node
from tests.support.oci_layouts import base_layer, layout

PASSWD = b"1000:x:0:0::/:\nroot:x:0:0::/:\nlong:x:4294967295:0::/:\ndigits:x:\xc2\xb2:0::/:\nme:x:33:33::/:\n"
GROUP = b"2000:x:0:me\nwheel:x:10:me\n"
IMAGE = "localhost/evil:1"

Loaded = Callable[..., str]


@pytest.fixture
def loaded(node: Node) -> Loaded:
    """Return a function that loads the image with a given user and returns its name."""

    def load(user: str = "") -> str:
        layout_folder = layout(node.folder / "evil", [base_layer(passwd=PASSWD, group=GROUP)], config={"User": user})
        return node.engine.images.load(layout_folder, IMAGE).repo_tags[0]

    return load


def config_of(node: Node, image: str, **security: object) -> pb.ContainerConfig:
    config = node.container_config("c", ("sleep", "1000000"))
    config.image.image = image
    config.linux.security_context.CopyFrom(pb.LinuxContainerSecurityContext(**security))  # type: ignore[arg-type]
    return config


def number(value: int) -> pb.Int64Value:
    return pb.Int64Value(value=value)


@pytest.mark.parametrize("handler", ["runc", "crun"])
@pytest.mark.parametrize(
    ("user", "security", "ids"),
    [
        ("", {"run_as_user": number(1000)}, "1000 0"),
        ("", {"run_as_user": number(1000), "run_as_group": number(2000)}, "1000 2000"),
        ("1000", {}, "1000 0"),
        ("1000:2000", {}, "1000 2000"),
        ("", {"run_as_username": "1000"}, "1000 0"),
        ("me:wheel", {}, "33 10"),
    ],
)
def test_a_numeric_user_has_the_same_number_on_the_node(
    node: Node, loaded: Loaded, handler: str, user: str, security: dict[str, object], ids: str
) -> None:
    image = loaded(user)
    pod = node.pod(handler=handler)
    container_id = node.engine.container_creation.create(pod, config_of(node, image, **security))
    node.engine.container_start.start(container_id)
    execution = node.engine.running_containers.exec_sync(container_id, ("sh", "-c", "echo $(id -u) $(id -g)"), 20)
    pid = node.engine.inventory.container(container_id).record.pid
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if line.startswith(("Uid", "Gid")))
    node.remove(pod)
    assert execution.stdout.decode().strip() == ids
    assert [set(status[key].split("\t")) for key in ("Uid", "Gid")] == [{entry} for entry in ids.split()]


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ("²", r'the user of image localhost/evil:1: "²": must be between 0 and 4294967294'),
        ("4294967295", r'the user of image localhost/evil:1: "4294967295": must be between'),
        ("9" * 5000, r"the user of image localhost/evil:1: .* must be between"),
        ("me:" + "9" * 5000, r"the user of image localhost/evil:1: .* must be between"),
        ("long", r"the image's /etc/passwd has '4294967295' for 'long', which is not an id"),
        ("digits", r"the image's /etc/passwd has '²' for 'digits', which is not an id"),
        ("nobody", r'"nobody": the image has no such user'),
        ("me:2001x", r'"2001x": the image has no such group'),
    ],
)
def test_an_invalid_user_is_refused_before_the_creation(node: Node, loaded: Loaded, user: str, problem: str) -> None:
    image = loaded(user)
    pod = node.pod()
    before = node.leftovers()
    with pytest.raises(RequestError, match=problem):
        node.engine.container_creation.create(pod, config_of(node, image))
    assert (node.leftovers(), node.engine.inventory.containers()) == (before, [])
    assert not image_message(node.engine.images.get(image)).HasField("uid"), "a kubelet would take it for a number"
    node.remove(pod)
