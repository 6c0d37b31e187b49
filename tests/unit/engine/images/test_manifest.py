"""Documents of images are read strictly; errors name image and key."""

from __future__ import annotations

from typing import Any

import pytest

from nri.engine.images.manifest import (
    config_digest,
    container_config,
    diff_ids,
    for_this_machine,
    is_index,
    layers,
    not_for_this_machine,
    other_machine,
    parse,
)
from nri.engine.support.errors import InvalidRequest

DIGEST, OTHER = "sha256:" + "aa" * 32, "sha256:" + "bb" * 32
INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '"x"', "null", "[" * 100_000, '{"a":' * 100_000, '{"a": 1, "a": 1}', '{"b": {"a": 1, "a": 2}}',
     "\xff", '{"a": NaN}', '{"a": -Infinity}', r'{"User": "\ud8zz"}', "\0{\0}"],
)  # fmt: skip
def test_an_invalid_document_is_an_error_with_the_images_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match="image evil:1: a manifest or configuration"):
        parse(text.encode("latin-1"), "evil:1")


def test_a_document_is_an_object_of_bounded_length() -> None:
    assert parse(rb'{"a": {"b": ["\ud800"]}}', "x") == {"a": {"b": ["\ufffd"]}}
    with pytest.raises(InvalidRequest, match="exceeds 4194304 bytes"):
        parse(b" " * ((4 << 20) + 1), "x")


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"config": {"digest": DIGEST}, "Config": {"digest": OTHER}}, "config is spelled 'Config'"),
        ({"config": {"digest": DIGEST, "DIGEST": OTHER}}, "config.digest is spelled 'DIGEST'"),
        ({"con\ufb01g": {"digest": OTHER}}, "config is spelled"),
        ({"config": 7}, "config is 7; it must be an object"),
        ({"config": {"digest": 7}}, "config.digest is 7; it must be a string"),
        ({"config": {"digest": "sha256:../../x"}}, "config.digest is 'sha256:../../x', which is not a digest"),
        ({"config": {"digest": "md5:aa"}}, "which is not a digest"),
        ({"config": {"size": 1}}, "config.digest is '', which is not a digest"),
        ({}, "its manifest has no configuration"),
        ({"config": None}, "its manifest has no configuration"),
    ],
)
def test_a_manifest_must_have_one_unambiguous_configuration(manifest: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        config_digest(manifest, "evil:1")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (7, "layers is 7; it must be a list"),
        ([7], r"layers\[0\] is 7; it must be an object"),
        ([{"digest": DIGEST, "size": "1"}], r"layers\[\].size is '1'; it must be a number"),
        ([{"digest": DIGEST, "size": True}], r"layers\[\].size is True; it must be a number"),
        ([{"digest": DIGEST, "size": -1}], r"layers\[\].size is -1"),
        ([{"digest": DIGEST, "size": 10**4290}], r"layers\[\].size is 10{63}; it must be a number"),
        ([{"size": 1}], r"layers\[\].digest is '', which is not a digest"),
    ],
)
def test_invalid_layers_are_refused(rows: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        layers({"layers": rows}, "evil:1")


def test_layers_are_counted_with_their_sizes() -> None:
    row = {"digest": DIGEST, "size": 5, "mediaType": "tar"}
    assert layers({"layers": [row, row]}, "x") == [(DIGEST, 5, "tar")] * 2
    assert layers({}, "x") == layers({"layers": None}, "x") == []


@pytest.mark.parametrize("config", [{}, {"rootfs": None}, {"rootfs": {"diff_ids": None}}, {"rootfs": {"diff_ids": []}}])
def test_a_configuration_may_have_no_layers(config: dict[str, Any]) -> None:
    assert diff_ids(config, "x") == []


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ([], "config is an object or a list; it must be an object"),
        ({"User": 7}, "config.User is 7; it must be a string"),
        ({"user": "0"}, "config.User is spelled 'user'"),
        ({"Entrypoint": "sh"}, "config.Entrypoint is 'sh'; it must be a list"),
        ({"Env": ["A=1", 7]}, r"config.Env\[1\] is 7; it must be a string"),
        ({"Cmd": [["sh"]]}, r"config.Cmd\[0\] is an object or a list; it must be a string"),
        ({"Labels": {"a": 1}}, r"config.Labels\[0\] is 1; it must be a string"),
        ({"StopSignal": 9}, "config.StopSignal is 9"),
        ({"WorkingDir": []}, "config.WorkingDir is an object or a list"),
        ({"User": "\ud800"}, r"config contains text that is not Unicode, at .*\\ud800"),
        ({"Labels": {"\udcff": "a"}}, r"config contains text that is not Unicode, at .*\\udcff"),
    ],
)
def test_a_value_of_a_wrong_type_is_an_error_with_image_and_key(config: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=f"image evil:1: {problem}"):
        container_config({"config": config or [1]}, "evil:1")


def test_all_settings_for_containers_are_read() -> None:
    config = {"User": "1", "Env": None, "Labels": {"a": "b", "A": "c"}, "Healthcheck": {"Test": []}}
    assert container_config({"config": config}, "x") == config
    assert container_config({}, "x") == container_config({"config": None}, "x") == {}


# --- lists of manifests -------------------------------------------------------------------------------------------


def index(*rows: str) -> dict[str, Any]:
    """A list: each row is os/architecture[/variant], with a digest of its place."""
    result = []
    for place, text in enumerate(rows):
        system, architecture, *variant = text.split("/")
        platform = {"os": system, "architecture": architecture, **({"variant": variant[0]} if variant else {})}
        result.append({"digest": f"sha256:{place:064}", "platform": platform})
    return {"mediaType": INDEX, "manifests": result}


@pytest.mark.parametrize(
    ("machine", "rows", "chosen"),
    [
        ("x86_64", ["linux/arm64", "windows/amd64", "linux/amd64"], 2),
        ("x86_64", ["linux/amd64/v3", "linux/amd64"], 1),
        ("x86_64", ["linux/amd64/v1"], 0),
        ("aarch64", ["linux/arm64", "linux/arm64/v8"], 1),
        ("aarch64", ["linux/arm/v7", "linux/arm64"], 1),
        ("armv7l", ["linux/arm/v5", "linux/arm/v6", "linux/arm/v7"], 2),
        ("armv7l", ["linux/arm/v5", "linux/arm/v6"], 1),
        ("riscv64", ["linux/riscv64"], 0),
        ("loongarch64", ["linux/loongarch64"], 0),
    ],
)
def test_the_best_image_for_a_machine_comes_first(machine: str, rows: list[str], chosen: int) -> None:
    entries, _ = for_this_machine(index(*rows), "x", machine)
    assert entries[0] == (f"sha256:{chosen:064}", True)


def test_entries_without_a_platform_come_after_entries_for_this_platform() -> None:
    document = index("linux/amd64", "linux/arm64")
    document["manifests"][0:0] = [{"mediaType": INDEX, "digest": OTHER}, {"digest": DIGEST}]
    unsure = [(OTHER, False), (DIGEST, False)]
    assert for_this_machine(document, "x", "x86_64") == ([(f"sha256:{0:064}", True), *unsure], ["linux/arm64"])
    assert for_this_machine(document, "x", "s390x") == (unsure, ["linux/amd64", "linux/arm64"])


@pytest.mark.parametrize(
    ("config", "other"),
    [
        ({}, ""),
        ({"os": "linux", "architecture": "arm64"}, ""),
        ({"architecture": "arm64", "variant": "v8"}, ""),
        ({"os": "windows", "architecture": "arm64"}, "windows/arm64"),
        ({"os": "linux", "architecture": "arm", "variant": "v7"}, "linux/arm/v7"),
        ({"os": "linux", "architecture": "arm64", "variant": "v9"}, "linux/arm64/v9"),
    ],
)
def test_a_configuration_names_the_platform_of_its_image(config: dict[str, Any], other: str) -> None:
    assert other_machine(config, "x", "aarch64") == other


def test_an_image_for_other_platforms_is_an_error_that_names_them() -> None:
    entries, other_platforms = for_this_machine(index("linux/alien", "linux/amd64/v4"), "x", "x86_64")
    assert entries == []
    error_text = "x is not for linux/amd64; it is for linux/alien, linux/amd64/v4"
    assert str(not_for_this_machine("x", other_platforms, "x86_64")) == error_text
    assert "it is for nothing" in str(not_for_this_machine("x", [], "x86_64"))
    assert len(str(not_for_this_machine("x", ["\x1b" + "a" * 100_000], "x86_64"))) < 2000


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"manifests": [7]}, r"manifests\[0\] is 7"),
        ({"manifests": [{"platform": 7}]}, r"manifests\[\].platform is 7"),
        ({"manifests": [{"platform": {"os": 7}}]}, r"manifests\[\].platform.os is 7"),
        ({"manifests": [{"digest": "x"}]}, r"manifests\[\].digest is 'x', which is not a digest"),
        ({"manifests": {}, "Manifests": []}, "manifests is spelled 'Manifests'"),
    ],
)
def test_an_invalid_index_is_refused(manifest: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        for_this_machine(manifest, "x", "x86_64")


def test_an_index_and_a_manifest_are_distinguished() -> None:
    assert is_index(index("linux/amd64"), "x") and is_index({"mediaType": INDEX}, "x")
    assert is_index({"manifests": [{}]}, "x") and not is_index({"config": {"digest": DIGEST}}, "x")
    for both in ({"config": {"digest": DIGEST}}, {"layers": [{"digest": DIGEST}]}):
        with pytest.raises(InvalidRequest, match="both a list of manifests and a manifest"):
            is_index({**index("linux/amd64"), **both}, "x")
    with pytest.raises(InvalidRequest, match="schema 1"):
        is_index({"schemaVersion": 1}, "x")
