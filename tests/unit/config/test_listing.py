"""All settings as rows, and all keys with their meanings."""

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


def test_every_setting_is_a_row_with_a_plain_value_and_its_origin() -> None:
    config = dataclasses.replace(EngineConfig(), runtimes={"runc": OciRuntime("/r", ("-a",))})
    listed = {row.key: (row.value, row.origin) for row in rows(config, {"runtimes.runc.path": "f:1"})}
    assert listed["runtimes.runc.path"] == ("/r", "f:1")
    assert listed["runtimes.runc.arguments"] == (["-a"], "default")
    assert listed["runtimes.runc.timeout"] == ("30s", "default")
    assert listed["nri.plugin_request_timeout"] == ("2s", "default")
    assert listed["images.registries"] == ([], "default")
    assert listed["network.plugin_dirs"][0] == ["/opt/cni/bin", "/usr/lib/cni"]


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


def test_each_kind_of_key_is_in_words_with_its_default_as_a_file_has_it() -> None:
    shapes = {key.key: key.shape for key in keys(Every)}
    assert shapes == {
        "first.name": 'text, default "a"',
        "first.size": "number, default 3",
        "first.parts": "list of tables",
        "many[].name": "text, needed",
        "many[].size": "number",
        "many[].parts": "list of tables",
        "maybe.name": "text, needed",
        "maybe.size": "number",
        "maybe.parts": "list of tables",
        "named.NAME.name": "text, needed",
        "named.NAME.size": "number",
        "named.NAME.parts": "list of tables",
        "either": 'table or one of low, high, default "low"',
        "level": 'one of low, high, default "high"',
        "word": 'one of a, b, default "a"',
        "words": 'some of a, b, default ["a"]',
        "chosen": 'one of x, y, default "x"',
        "index": "number from 0 to 99, default 7",
        "noted": "number, default 0",
        "amount": "text or number",
        "pair": 'list of numbers, text, default [1, "x"]',
        "numbers": "list of numbers, default [5]",
        "waits": "list of durations",
        "table": 'table, default {"a": 1}',
        "places": 'table of paths by name, default {"a": "/a"}',
        "labels": "table of text by name",
        "bare": 'list, default ["x"]',
        "free": "anything",
        "place": 'path, default "/a"',
        "day": 'date, default "2026-01-02"',
        "own": f"text, default {int(EventMask.of('CreateContainer'))}",
        "name": "text, needed",
        "rate": "number, default 0.5",
        "text": 'text, default "say \\"é\\""',
        "quiet": "true or false, default false",
    }


def test_the_meaning_of_a_table_stands_before_those_of_its_keys() -> None:
    assert {key.key: key.meaning for key in keys(Every)}["first.name"] == "the one part: what it is called."
