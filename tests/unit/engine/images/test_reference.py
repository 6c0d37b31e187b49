"""Names of images in their full form."""

import pytest

from nri.engine.images.reference import parse_reference
from nri.engine.support.errors import InvalidRequest

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("me/app", "docker.io/me/app:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/me/app:x", "docker.io/me/app:x"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/a/b:c", "localhost:5000/a/b:c"),
        ("REGISTRY/app", "REGISTRY/app:latest"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("quay.io/a/b__c.d-e", "quay.io/a/b__c.d-e:latest"),
        (f"quay.io/a@{DIGEST}", f"quay.io/a@{DIGEST}"),
        (f"quay.io/a:1@{DIGEST}", f"quay.io/a:1@{DIGEST}"),
    ],
)
def test_a_name_is_completed(text: str, full: str) -> None:
    assert str(parse_reference(text)) == full
    assert str(parse_reference(full)) == full


def test_a_digest_replaces_the_tag_in_requests() -> None:
    assert parse_reference(f"quay.io/a:1@{DIGEST}").pullable == f"quay.io/a@{DIGEST}"
    assert parse_reference("quay.io/a:1").pullable == "quay.io/a:1"


@pytest.mark.parametrize(
    "text",
    ["", ":1", "a:", "Upper", "a//b", "a/../b", "-a", "a b", "--help", "a:@", "a@sha256:12", "a@md5:" + "a" * 64,
     "host:port/a", "a:" + "t" * 129, "a/" * 130 + "b", "a\nb", "quay.io/", "http://quay.io/a", "a:tag:tag"],
)  # fmt: skip
def test_an_invalid_name_is_an_error_with_a_reason(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not an image name"):
        parse_reference(text)
