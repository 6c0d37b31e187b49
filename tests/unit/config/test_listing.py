"""All settings as rows, and all keys with their meanings."""

import dataclasses

from nri.config import Source, read
from nri.config.listing import rows
from nri.engine.config import ENGINE_SETTINGS, EngineConfig, OciRuntime, Registry


def test_every_setting_is_a_row_with_a_plain_value_and_its_origin() -> None:
    config = dataclasses.replace(EngineConfig(), runtimes={"runc": OciRuntime("/r", ("-a",))})
    found = {row.key: (row.value, row.origin) for row in rows(config, {"runtimes.runc.path": "f:1"})}
    assert found["runtimes.runc.path"] == ("/r", "f:1")
    assert found["runtimes.runc.arguments"] == (["-a"], "default")
    assert found["runtimes.runc.timeout"] == ("30s", "default")
    assert found["nri.plugin_request_timeout"] == ("2s", "default")
    assert found["images.registries"] == ([], "default")
    assert found["network.plugin_dirs"][0] == ["/opt/cni/bin", "/usr/lib/cni"]


def test_tables_of_a_list_are_counted() -> None:
    config = EngineConfig(images=dataclasses.replace(EngineConfig().images, registries=(Registry("a"), Registry("b"))))
    assert ("images.registries[1].host", "b", "default") in rows(config, {})


def test_every_key_has_a_meaning_and_a_type() -> None:
    assert [key.key for key in ENGINE_SETTINGS.known_keys() if not key.meaning or not key.kind] == []
    assert {key.key for key in ENGINE_SETTINGS.known_keys()} >= {
        "socket",
        "runtimes.NAME.path",
        "images.registries[].host",
        "nri.disable",
    }


def test_every_key_without_parts_can_be_written_in_a_file_with_its_default() -> None:
    for key in ENGINE_SETTINGS.known_keys():
        if "NAME" in key.key or "[]" in key.key or not key.default or "list" in key.kind:
            continue
        value = key.default if key.kind in ("number", "true or false") else f'"{key.default}"'
        assert read(EngineConfig, [Source("f", f"{key.key} = {value}", "toml")]) == EngineConfig(), key.key
