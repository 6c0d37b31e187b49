"""`nri version`, in all forms of output."""

from __future__ import annotations

import json

from nri.config import Source, read


def test_version_prints_everything_for_a_bug_report(nri) -> None:
    document = json.loads(nri("version", "-o", "json").stdout)
    assert set(document) == {
        "nri",
        "compiled",
        "nri_api",
        "python",
        "protobuf",
        "protobuf_backend",
        "kernel",
        "machine",
    }
    assert document["nri_api"] == "v0.12.5"
    table = nri("version").stdout
    assert "protobuf backend" in table
    assert ["NRI", "release", "v0.12.5"] in [line.split() for line in table.splitlines()]
    assert nri("version", "-q").stdout.strip() == document["nri"]
    assert nri("--version").stdout == table
    assert isinstance(document["compiled"], bool), "a program must be able to test it"
    assert ["compiled", "yes" if document["compiled"] else "no"] in [line.split() for line in table.splitlines()]


def test_yaml_has_the_same_content_as_json(nri) -> None:
    class Versions:
        nri: str
        compiled: bool
        nri_api: str
        python: str
        protobuf: str
        protobuf_backend: str
        kernel: str
        machine: str

    content = read(Versions, [Source("output", nri("version", "-o", "yaml").stdout)])
    assert content.nri_api == json.loads(nri("version", "-o", "json").stdout)["nri_api"]
