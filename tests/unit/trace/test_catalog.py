"""Methods and their messages, of NRI and of a descriptor set."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from nri.api import messages as m
from nri.api.naming import PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.errors import ConfigError
from nri.trace.catalog import Catalog, from_json, parse, raw_fields, to_json
from nri.wire import bytes_field
from tests.support.greeter import GREETER, file_set


def written(path: Path, files: descriptor_pb2.FileDescriptorSet) -> Path:
    path.write_bytes(files.SerializeToString())
    return path


def test_nris_methods_have_the_messages_of_this_process() -> None:
    method = Catalog().find(PLUGIN_SERVICE, "Configure")
    assert method is not None
    assert (method.request, method.reply) == (m.ConfigureRequest, m.ConfigureResponse)


def test_a_descriptor_set_adds_its_methods(tmp_path: Path) -> None:
    catalog = Catalog(written(tmp_path / "greeter.pb", file_set()))
    method = catalog.find(GREETER, "Hello")
    assert method is not None
    assert method.request(name="Ada").name == "Ada"
    assert catalog.find(PLUGIN_SERVICE, "Configure") is not None


def test_an_unknown_method_is_none() -> None:
    assert Catalog().find(RUNTIME_SERVICE, "RegisterPlugn") is None
    assert Catalog().find(GREETER, "Hello") is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Runtime/RegisterPlugin", (RUNTIME_SERVICE, "RegisterPlugin")),
        (f"/{PLUGIN_SERVICE}/Configure", (PLUGIN_SERVICE, "Configure")),
        ("a.b.C/D", ("a.b.C", "D")),
    ],
)
def test_a_method_is_resolved_and_nris_services_need_no_package(text: str, names: tuple[str, str]) -> None:
    assert Catalog().resolve(text) == names


@pytest.mark.parametrize("text", ["", "Hello", "/Hello", "Hello/"])
def test_an_invalid_method_name_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError, match="not SERVICE/METHOD") as caught:
        Catalog().resolve(text)
    assert caught.value.source == text


def test_an_invalid_descriptor_set_is_an_error_that_shows_how_to_create_one(tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(b"\xff\xff")
    with pytest.raises(ConfigError) as caught:
        Catalog(path)
    assert (caught.value.source, caught.value.reason) == (str(path), "not a descriptor set")
    assert caught.value.suggestion == f"create one: protoc --include_imports --descriptor_set_out={path} ..."


def test_a_descriptor_set_without_imports_has_a_separate_error(tmp_path: Path) -> None:
    files = file_set()
    files.file[0].dependency.append("gone.proto")
    with pytest.raises(ConfigError, match="incomplete") as caught:
        Catalog(written(tmp_path / "half.pb", files))
    assert caught.value.suggestion == "create it with --include_imports"


def test_messages_survive_a_round_trip_through_json() -> None:
    message = m.RegisterPluginRequest(plugin_name="me", plugin_idx="10")
    tree = to_json(message)
    assert tree == {"pluginName": "me", "pluginIdx": "10"}
    assert from_json(m.RegisterPluginRequest, tree, "-d") == message


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (5, "-d: not a RegisterPluginRequest: expected a JSON object, not 5"),
        ({"plugin": 1}, "-d: not a RegisterPluginRequest: "),
    ],
)
def test_json_of_a_wrong_type_is_a_config_error(value: object, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_json(m.RegisterPluginRequest, value, "-d")
    assert str(caught.value).startswith(reason)


def test_bytes_of_another_message_are_shown_as_raw_fields_with_the_reason() -> None:
    assert parse(m.Empty, b"") == ({}, "")
    assert parse(m.RegisterPluginRequest, b"\x0a\x01\xff") == ({"1": "ff"}, "not a RegisterPluginRequest")
    assert parse(m.RegisterPluginRequest, b"\xff") == ("ff", "varint is cut short")


def test_raw_fields_are_shown_as_text_message_or_hex() -> None:
    inner = m.Empty().SerializeToString() + b"\x08\x01"
    data = b"\x08\x05\x12\x02hi\x1a\x02" + inner + b"\x08\x06\x22\x01\xff"
    assert raw_fields(data) == ({"1": [5, 6], "2": "hi", "3": {"1": 1}, "4": "ff"}, "")


def test_raw_fields_are_bounded_in_depth_and_deeper_ones_are_hex() -> None:
    data = b"\x08\x01"
    for _ in range(3000):
        data = bytes_field(1, data)
    shown, problem = raw_fields(data)
    depth = 0
    while isinstance(shown, dict):
        shown, depth = shown["1"], depth + 1
    assert (depth, problem) == (100, "")
    assert isinstance(shown, str)
    assert bytes.fromhex(shown).endswith(b"\x08\x01")
