"""Images as messages, and credentials of requests."""

from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.images import credentials_for, image_message
from nri.engine.images import Credentials, Image
from nri.errors import RequestError


@pytest.mark.parametrize(
    ("user", "uid", "username"),
    [("", None, ""), ("1000", 1000, ""), ("1000:50", 1000, ""), ("www", None, "www"), ("www:www", None, "www"),
     ("0", 0, ""), ("²", None, "²"), ("٣", None, "٣"), ("4294967295", None, "4294967295"),
     ("9" * 5000, None, "9" * 5000), ("-1", None, "-1"), (" 5", None, " 5")],
)  # fmt: skip
def test_an_images_user_is_an_id_or_a_name(user: str, uid: int | None, username: str) -> None:
    message = image_message(Image("sha256:1", ("a:1",), ("a@sha256:2",), 5, config={"User": user}))
    assert (message.id, message.repo_tags, message.repo_digests, message.size) == (
        "sha256:1",
        ["a:1"],
        ["a@sha256:2"],
        5,
    )
    assert (message.uid.value if message.HasField("uid") else None, message.username) == (uid, username)


@pytest.mark.parametrize("server", ["", "reg.example:5000", "https://reg.example:5000/v2/", "http://reg.example:5000"])
def test_credentials_apply_to_the_registry_that_they_name_or_to_the_requested_one(server: str) -> None:
    auth = pb.AuthConfig(username="me", password="p", server_address=server)
    assert credentials_for(auth, "reg.example:5000", "reg.example:5000") == Credentials("me", "p")


def test_credentials_for_another_registry_and_empty_ones_are_ignored() -> None:
    auth = pb.AuthConfig(username="me", password="p", server_address="https://other.example")
    assert credentials_for(auth, "reg.example", "reg.example") is None
    assert credentials_for(pb.AuthConfig(), "reg.example", "reg.example") is None
    assert credentials_for(pb.AuthConfig(password="p"), "reg.example", "reg.example") is None


def test_credentials_without_a_registry_are_not_sent_to_the_registries_of_short_names() -> None:
    auth = pb.AuthConfig(username="me", password="p")
    assert credentials_for(auth, "reg.example", "docker.io") is None
    auth.server_address = "reg.example"
    assert credentials_for(auth, "reg.example", "docker.io") == Credentials("me", "p")


def test_docker_hub_has_several_names() -> None:
    auth = pb.AuthConfig(auth="bWU6cA==", server_address="https://index.docker.io/v1/")
    assert credentials_for(auth, "docker.io", "docker.io") == Credentials(auth="bWU6cA==")


def test_a_registry_token_is_refused_without_being_shown() -> None:
    with pytest.raises(RequestError) as caught:
        credentials_for(pb.AuthConfig(registry_token="hidden"), "reg.example", "reg.example")
    assert caught.value.field == "auth.registry_token" and "hidden" not in str(caught.value)
