"""All settings as rows, and all keys with their descriptions."""

import dataclasses
import datetime as dt
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from nri.api.events import EventMask
from nri.config import Duration, Source, read
from nri.config.listing import keys, rows
from nri.config.typed import Between, OneOf
from nri.engine.config import ENGINE_SETTINGS, EngineConfig, OciRuntime, Registry


def test_every_setting_is_a_row_with_value_and_origin() -> None:
    config = dataclasses.replace(EngineConfig(), runtimes={"runc": OciRuntime("/r", ("-a",))})
    listed = {row.key: (row.value, row.origin) for row in rows(config, {"runtimes.runc.path": "f:1"})}
    assert listed["runtimes.runc.path"] == ("/r", "f:1")
    assert listed["runtimes.runc.arguments"] == (["-a"], "default")
    assert listed["runtimes.runc.timeout"] == ("30s", "default")
    assert listed["nri.plugin_request_timeout"] == ("2s", "default")
    assert listed["images.registries"] == ([], "default")
    assert listed["network.plugin_dirs"][0] == ["/opt/cni/bin", "/usr/lib/cni"]


def test_tables_of_a_list_are_numbered() -> None:
    config = EngineConfig(images=dataclasses.replace(EngineConfig().images, registries=(Registry("a"), Registry("b"))))
    assert ("images.registries[1].host", "b", "default") in rows(config, {})


def test_every_key_has_a_description_and_a_type() -> None:
    assert [key.key for key in ENGINE_SETTINGS.known_keys() if not key.meaning or not key.kind] == []
    assert {key.key for key in ENGINE_SETTINGS.known_keys()} >= {
        "socket",
        "runtimes.NAME.path",
        "images.registries[].host",
        "nri.disable",
    }


def test_every_default_can_be_written_into_a_file() -> None:
    for key in ENGINE_SETTINGS.known_keys():
        if key.default and "NAME" not in key.key and "[]" not in key.key:
            text = f"{key.key} = {key.default}"
            assert read(EngineConfig, [Source("f", text, "toml")]) == EngineConfig(), key.key


class Level(enum.Enum):
    LOW, HIGH = "low", "high"


@dataclasses.dataclass
class Part:
    """A part.

    Attributes:
        name: what it is called.
    """

    name: str
    size: int | None = None
    parts: "list[Part]" = dataclasses.field(default_factory=list)


class Every:
    """One key of each kind.

    Attributes:
        first: the one part
    """

    first: Part = Part("a", 3)
    many: tuple[Part, ...] = ()
    maybe: Part | None = None
    named: dict[str, Part] = {}  # noqa: RUF012 - defaults are copied
    either: Part | Level = Level.LOW
    level: Level = Level.HIGH
    word: Literal["", "a", "b"] = "a"
    words: list[Literal["a", "b"]] = ["a"]  # noqa: RUF012 - defaults are copied
    chosen: Annotated[str, OneOf(lambda: ["x", "y"])] = "x"
    index: Annotated[int, Between(0, 99)] = 7
    noted: Annotated[int, "a note"] = 0
    amount: str | int | float | None = None
    pair: tuple[int, str] = (1, "x")
    numbers: set[int] = {5}  # noqa: RUF012 - defaults are copied
    waits: list[Duration] = []  # noqa: RUF012 - defaults are copied
    table: dict[str, Any] = {"a": 1}  # noqa: RUF012 - defaults are copied
    labels: Mapping[str, str] = {}
    bare: list = ["x"]  # noqa: RUF012 - defaults are copied
    free: Any = None
    place: Path = Path("/a")
    places: dict[str, Path] = {"a": Path("/a")}  # noqa: RUF012 - defaults are copied
    day: dt.date = dt.date(2026, 1, 2)
    own: EventMask = EventMask.of("CreateContainer")
    name: str
    rate: float = 0.5
    text: str = 'say "é"'
    quiet: bool = False


def test_each_type_of_key_has_a_name_and_a_default() -> None:
    shapes = {key.key: key.shape for key in keys(Every)}
    assert shapes == {
        "first.name": 'string, default "a"',
        "first.size": "integer, default 3",
        "first.parts": "list of maps",
        "many[].name": "string, required",
        "many[].size": "integer",
        "many[].parts": "list of maps",
        "maybe.name": "string, required",
        "maybe.size": "integer",
        "maybe.parts": "list of maps",
        "named.NAME.name": "string, required",
        "named.NAME.size": "integer",
        "named.NAME.parts": "list of maps",
        "either": 'map or one of low, high, default "low"',
        "level": 'one of low, high, default "high"',
        "word": 'one of a, b, default "a"',
        "words": 'list of a, b, default ["a"]',
        "chosen": 'one of x, y, default "x"',
        "index": "integer from 0 to 99, default 7",
        "noted": "integer, default 0",
        "amount": "string or integer or number",
        "pair": 'list of integers, strings, default [1, "x"]',
        "numbers": "list of integers, default [5]",
        "waits": "list of durations",
        "table": 'map, default {"a": 1}',
        "places": 'map of paths, default {"a": "/a"}',
        "labels": "map of strings",
        "bare": 'list, default ["x"]',
        "free": "anything",
        "place": 'path, default "/a"',
        "day": 'date, default "2026-01-02"',
        "own": f"string, default {int(EventMask.of('CreateContainer'))}",
        "name": "string, required",
        "rate": "number, default 0.5",
        "text": 'string, default "say \\"é\\""',
        "quiet": "boolean, default false",
    }


def test_the_description_of_a_table_precedes_those_of_its_keys() -> None:
    assert {key.key: key.meaning for key in keys(Every)}["first.name"] == "the one part: what it is called."
