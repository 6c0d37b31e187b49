"""Logins that skopeo reads, and the node's file of logins."""

import base64
import json
from pathlib import Path

import pytest

from nri.engine.images.credentials import Credentials, auth_file, node_credentials
from nri.engine.images.transport import fatal_message
from nri.engine.support.errors import EngineError, InvalidRequest


def auths(host: str, **credentials: str) -> object:
    return json.loads(auth_file({host: Credentials(**credentials)}))["auths"]


def test_credentials_are_written_for_the_registry_and_the_server_that_they_name() -> None:
    encoded = base64.b64encode(b"me:se:cret").decode()
    assert auths("quay.io", username="me", password="se:cret") == {"quay.io": {"auth": encoded}}
    assert auths("quay.io", auth=encoded, server_address="https://q.example:8443/v1/") == {
        "quay.io": {"auth": encoded},
        "q.example:8443": {"auth": encoded},
    }
    assert auths("quay.io", identity_token="tok")["quay.io"]["identitytoken"] == "tok"  # type: ignore[index]


def test_credentials_that_are_none_are_refused_without_being_shown() -> None:
    with pytest.raises(InvalidRequest, match="not valid base64") as caught:
        auth_file({"quay.io": Credentials(auth="secret!")})
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Credentials("me", "secret", "secret", "secret"))


def test_the_words_of_skopeo_are_its_last_sentence() -> None:
    log = 'time="x" level=warning msg="a"\ntime="x" level=fatal msg="reading \\"q\\": denied"\n'
    assert fatal_message(log) == 'reading "q": denied'
    assert fatal_message("panic: oh\n\n") == "panic: oh"
    assert fatal_message("") == ""


@pytest.mark.parametrize(
    ("key", "image", "matches"),
    [
        ("https://index.docker.io/v1/", "docker.io/library/app:1", True),
        ("quay.io", "quay.io/team/app@sha256:0", True),
        ("quay.io/team", "quay.io/team/app:1", True),
        ("quay.io/team/app", "quay.io/team/app:1", True),
        ("quay.io/tea", "quay.io/team/app:1", False),
        ("quay.io", "quay.io.evil.example/app:1", False),
        ("r.example:5000", "r.example:5000/app", True),
        ("r.example", "r.example:5000/app", False),
    ],
)
def test_a_login_of_the_node_counts_for_its_registry_or_path(
    tmp_path: Path, key: str, image: str, matches: bool
) -> None:
    file = tmp_path / "auth.json"
    file.write_text(json.dumps({"auths": {key: {"auth": "bWU6eA=="}}}))
    assert node_credentials(str(file), image) == (Credentials(auth="bWU6eA==") if matches else None)


@pytest.mark.parametrize("text", ["secret", "[]", '{"auths": []}', '{"auths": {"q": "secret"}}', "[" * 100_000])
def test_an_invalid_file_of_logins_is_named_and_not_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "auth.json"
    file.write_text(text)
    with pytest.raises(EngineError, match=f"images.credentials_file {file}") as caught:
        node_credentials(str(file), "q/x")
    assert "secret" not in str(caught.value)
