"""`nri version`, in all forms of output."""

from __future__ import annotations

import json

from nri.config import Source, read


def test_version_tells_everything_that_a_report_needs(nri) -> None:
    found = json.loads(nri("version", "-o", "json").stdout)
    assert set(found) == {"nri", "compiled", "nri_api", "python", "protobuf", "protobuf_backend", "kernel", "machine"}
    assert found["nri_api"] == "v0.12.5"
    table = nri("version").stdout
    assert "protobuf backend" in table
    assert nri("version", "-q").stdout.strip() == found["nri"]
    assert nri("--version").stdout == table
    assert isinstance(found["compiled"], bool), "a program must be able to test it"
    assert ["compiled", "yes" if found["compiled"] else "no"] in [line.split() for line in table.splitlines()]


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

    made = read(Versions, [Source("output", nri("version", "-o", "yaml").stdout)])
    assert made.nri_api == json.loads(nri("version", "-o", "json").stdout)["nri_api"]
