"""What skopeo reads of registries and credentials."""

import base64
import json
import tomllib

import pytest

from nri.engine.images.registries import Credentials, Registry, auth_file, registries_conf
from nri.engine.images.transport import fatal_message
from nri.engine.support.errors import InvalidRequest


def auths(host: str, **credentials: str) -> object:
    return json.loads(auth_file(host, Credentials(**credentials)))["auths"]


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
        auth_file("quay.io", Credentials(auth="secret!"))
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Credentials("me", "secret", "secret", "secret"))


def test_mirrors_are_written_as_toml() -> None:
    conf = registries_conf([Registry("quay.io", ("http://m:5000", "https://n"), insecure=True), Registry('a"b')])
    document = tomllib.loads(conf)
    assert document["unqualified-search-registries"] == []
    assert document["registry"][0]["mirror"] == [
        {"location": "m:5000", "insecure": True},
        {"location": "n", "insecure": False},
    ]
    assert [row["prefix"] for row in document["registry"]] == ["quay.io", 'a"b']


def test_the_words_of_skopeo_are_its_last_sentence() -> None:
    log = 'time="x" level=warning msg="a"\ntime="x" level=fatal msg="reading \\"q\\": denied"\n'
    assert fatal_message(log) == 'reading "q": denied'
    assert fatal_message("panic: oh\n\n") == "panic: oh"
    assert fatal_message("") == ""
