"""Objects are decoded with only the used fields, within a memory limit."""

from __future__ import annotations

import json

import pytest

from nri.agent.koordinator.documents import DEFAULTS
from nri.kube.decoder import Document, Pod, TooCostly, make_decoder


def labels(number: int) -> bytes:
    return json.dumps({"metadata": {"name": "a", "labels": {f"k{index}": "v" for index in range(number)}}}).encode()


def test_unused_fields_are_skipped() -> None:
    document = (
        b'{"metadata": {"name": "a", "managedFields": [{}]}, "spec": {"containers": [{"name": "c", "env": [{}]}]}}'
    )
    assert make_decoder(Pod)(document).value == {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}


def test_a_pod_of_many_short_texts_is_too_costly() -> None:
    read, document = make_decoder(Pod), labels(3000)
    with pytest.raises(TooCostly, match=f"{len(document)} bytes of short texts"):
        read(document)
    long = json.dumps({"metadata": {"name": "a", "annotations": {"k": "v" * len(document)}}}).encode()
    assert read(long).size < 2 * len(long)


def test_a_pod_of_a_hundred_labels_and_a_nodeslo_are_not_too_costly() -> None:
    assert make_decoder(Pod)(labels(100)).value["metadata"]["labels"]["k99"] == "v"
    slo = json.dumps({"metadata": {"name": "n"}, "spec": {"parts": [DEFAULTS] * 20}}).encode()
    assert make_decoder(Document)(slo).value["spec"]["parts"][19] == json.loads(json.dumps(DEFAULTS))


def test_half_a_character_becomes_a_replacement_character_like_in_go() -> None:
    assert make_decoder(Pod)(rb'{"metadata": {"name": "a\ud800"}}').value["metadata"]["name"] == "a\ufffd"


@pytest.mark.parametrize(
    "text", [b'{"metadata": {"name": 7}}', b"[]", b"{", b'{"metadata": {"name": "\xff"}}', b'{"x":' + b"[" * 100_000]
)
def test_an_object_of_another_kind_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make_decoder(Pod)(text)
