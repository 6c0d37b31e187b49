"""`nri.config.read` reads sources in order into an annotated class; errors name the next step."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from typing import Annotated, Any, ClassVar, Literal

import pytest

from nri.config import Between, Duration, Source, read
from nri.config.complaint import single_errors
from nri.errors import ConfigError


class Mode(enum.Enum):
    PACKED = "packed"
    SPREAD = "spread"


class Pool:
    cpus: str = "0"
    share: int = 1


class CpuList(frozenset[int]):
    @classmethod
    def parse(cls, text: str) -> CpuList:
        return cls(int(part) for part in text.split(","))


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    files: int
    names: list[str] = dataclasses.field(default_factory=list)


class Config:
    cpus: str = "0-3"
    count: int = 2
    ratio: float = 0.5
    enabled: bool = False
    mode: Mode = Mode.PACKED
    policy: Literal["strict", "relaxed"] = "strict"
    timeout: Duration = 2.0
    pool: Pool
    pools: list[Pool] = []  # noqa: RUF012  (defaults are copied)
    by_name: dict[str, int] = {}  # noqa: RUF012
    limit: int | None = None
    either: int | list[int] = 0
    bounded: Annotated[int, Between(1, 3)] = 1
    folder: pathlib.Path = pathlib.Path("/")
    owned: CpuList = CpuList()
    limits: Limits | None = None
    anything: Any = None
    PREFIX: ClassVar[str] = "x"


class Required:
    socket: str
    optional: str | None


def config(text: str, **kwargs: Any) -> Config:
    return read(Config, [Source("test.conf", text, **kwargs)])


def problem(text: str, cls: type = Config, **kwargs: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(cls, [Source("test.conf", text, **kwargs)])
    return caught.value


def test_without_sources_every_key_has_its_default() -> None:
    config = read(Config, [])
    assert isinstance(config, Config)
    assert (config.cpus, config.count, config.mode, config.pool.share) == ("0-3", 2, Mode.PACKED, 1)


def test_defaults_are_not_shared_between_instances() -> None:
    read(Config, []).pools.append(Pool())
    assert read(Config, []).pools == []
    assert Config.pools == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"cpus": "4-7", "pool": {"share": 3}}', "auto"),
        ("cpus: 4-7\npool:\n  share: 3\n", "auto"),
        ('cpus = "4-7"\n[pool]\nshare = 3\n', "toml"),
    ],
)
def test_json_yaml_and_toml_give_equal_results(text: str, kind: Any) -> None:
    instance = config(text, format=kind)
    assert (instance.cpus, instance.pool.share, instance.pool.cpus) == ("4-7", 3, "0")


@pytest.mark.parametrize("text", ["", "  \n", "# only a comment\n", "{}"])
def test_an_empty_text_sets_no_value(text: str) -> None:
    assert config(text).cpus == "0-3"


def test_later_sources_override_key_by_key_also_in_nested_classes() -> None:
    config = read(
        Config,
        [
            Source("a", '{"cpus": "1", "count": 9, "pool": {"cpus": "5", "share": 5}}'),
            Source("b", "cpus: '2'\npool: {share: 6}"),
        ],
    )
    assert (config.cpus, config.count, config.pool.cpus, config.pool.share) == ("2", 9, "5", 6)


def test_a_later_list_replaces_the_earlier_one() -> None:
    config = read(Config, [Source("a", "pools: [{share: 1}, {share: 2}]"), Source("b", "pools: [{share: 3}]")])
    assert [pool.share for pool in config.pools] == [3]


def test_every_kind_of_annotation_is_supported() -> None:
    instance = config(
        "ratio: 1\nenabled: true\nmode: spread\npolicy: relaxed\ntimeout: 1m30s\npools: [{cpus: '1'}]\n"
        "by_name: {a: 1}\n"
        "limit: 7\neither: [1, 2]\nbounded: 3\nfolder: /tmp\nowned: 1,2\nlimits: {files: 5}\nanything: {x: [1]}\n"
    )
    assert (instance.ratio, instance.enabled, instance.mode, instance.policy, instance.timeout) == (
        1.0,
        True,
        Mode.SPREAD,
        "relaxed",
        90.0,
    )
    assert (type(instance.pools[0]), instance.by_name, instance.limit, instance.either, instance.bounded) == (
        Pool,
        {"a": 1},
        7,
        [1, 2],
        3,
    )
    assert (instance.folder, instance.owned, instance.limits, instance.anything) == (
        pathlib.Path("/tmp"),
        {1, 2},
        Limits(5),
        {"x": [1]},
    )


def test_a_duration_can_be_a_number_of_seconds() -> None:
    assert config("timeout: 3").timeout == 3.0


def test_null_clears_an_optional_value() -> None:
    assert read(Config, [Source("a", "limit: 3"), Source("b", "limit: null")]).limit is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpus: 3", 'test.conf:1: cpus: expected a string, not 3 (write it in quotes: "3")'),
        ('count: "3"', 'test.conf:1: count: expected a whole number, not "3" (write it without quotes: 3)'),
        ("count: true", "test.conf:1: count: expected a whole number, not true"),
        ("count: 3.0", "test.conf:1: count: expected a whole number, not 3.0"),
        ("\nenabled: yes", 'test.conf:2: enabled: expected true or false, not "yes" (write true or false)'),
        ("mode: spred", 'test.conf:1: mode: expected one of packed, spread, not "spred" (did you mean "spread"?)'),
        (
            "policy: strictt",
            'test.conf:1: policy: expected one of strict, relaxed, not "strictt" (did you mean "strict"?)',
        ),
        ("timeout: 5", None),
        (
            "timeout: 5sec",
            'test.conf:1: timeout: "5sec" is not a duration (write a number with a unit, such as 2s, 500ms or 1m30s)',
        ),
        ("pools:\n- share: 1\n- share: x", 'test.conf:3: pools[1].share: expected a whole number, not "x"'),
        ("by_name:\n  a: x", 'test.conf:2: by_name.a: expected a whole number, not "x"'),
        ("either: x", 'test.conf:1: either: expected a whole number or a list, not "x"'),
        ("bounded: 9", "test.conf:1: bounded: expected a whole number from 1 to 3, not 9"),
        ("owned: a", "test.conf:1: owned: invalid literal for int() with base 10: 'a'"),
        ("limits: {}", "test.conf:1: limits.files: missing, and the key has no default (add the key)"),
        ("cpu: '3'", 'test.conf:1: cpu: unknown key (did you mean "cpus"?)'),
        ("by-name: {}", 'test.conf:1: by-name: unknown key (did you mean "by_name"?)'),
        ("pool: {colour: 1}", "test.conf:1: pool.colour: unknown key (known keys: cpus, share)"),
        ("pool: 3", "test.conf:1: pool: expected a mapping of keys to values, not 3"),
        ("- 1", "test.conf: expected a mapping of keys to values, not [1]"),
        ("cpus: a\ncpus: b", "test.conf:2: cpus: duplicate key (remove one of the two)"),
        ('{"cpus": "a", "cpus": "b"}', "test.conf:1: cpus: duplicate key (remove one of the two)"),
        (
            '{"cpus":\n]',
            "test.conf:2: not valid JSON: expecting value in column 1 (and not valid YAML either)",
        ),
        ("a: b: c", "test.conf:1: not valid YAML: mapping values are not allowed in this context"),
        ("a:\n\tb: 1", "test.conf:2: not valid YAML: found character that cannot start any token"),
    ],
)
def test_an_error_names_file_line_key_reason_and_next_step(text: str, message: str | None) -> None:
    if message is None:
        config(text)
    else:
        assert str(single_errors(problem(text))[0]) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[pool]\n\nshare = "x"', 'test.conf:3: pool.share: expected a whole number, not "x"'),
        ('pool.share = "x"', 'test.conf:1: pool.share: expected a whole number, not "x"'),
        ('\npool = { share = "x" }', 'test.conf:2: pool.share: expected a whole number, not "x"'),
        ("[pool]\ncolour = 1", "test.conf:2: pool.colour: unknown key (known keys: cpus, share)"),
        ("cpus = ", "test.conf:1: not valid TOML: invalid value"),
    ],
)
def test_lines_are_found_in_toml_too(text: str, message: str) -> None:
    assert str(problem(text, format="toml")) == message


def test_all_problems_of_all_sources_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read(
            Config,
            [Source("a.conf", "cpus: 1\ncount: x\n"), Source("b.conf", "{"), Source("c.toml", "nope = 1", "toml")],
        )
    first, further = caught.value, caught.value.others
    assert [first.source, *(other.source for other in further)] == ["a.conf:1", "a.conf:2", "b.conf:1", "c.toml:1"]
    assert str(first).count("; ") == 3


def test_a_required_key_can_come_from_any_source() -> None:
    assert read(Required, [Source("a", "socket: /s"), Source("b", "{}")]).socket == "/s"


def test_a_missing_required_key_is_an_error() -> None:
    assert str(problem("{}", Required)) == "test.conf: socket: missing, and the key has no default (add the key)"


def test_an_optional_annotation_without_default_is_none() -> None:
    assert read(Required, [Source("a", "socket: /s")]).optional is None


class Checked:
    low: int = 0
    high: int = 1

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")


def test_a_class_can_check_itself_as_a_whole() -> None:
    assert str(problem("low: 5", Checked)) == "test.conf: low (5) is above high (1)"


@pytest.mark.parametrize("text", ["no", "on", "1:30", "0644", "2026-01-01", "1_000"])
def test_ambiguous_yaml_scalars_stay_text(text: str) -> None:
    assert config(f"cpus: {text}").cpus == text


def test_yaml_anchors_and_merge_keys_work() -> None:
    instance = config("pools:\n- &base {cpus: '7', share: 4}\n- {<<: *base, share: 5}\n")
    assert [(pool.cpus, pool.share) for pool in instance.pools] == [("7", 4), ("7", 5)]


def test_yaml_cannot_create_python_objects() -> None:
    text = "test.conf:1: the tag !!python/object:os.system is not supported for a scalar (remove the tag)"
    assert str(problem("cpus: !!python/object:os.system x")) == text


@pytest.mark.parametrize("kind", ["yaml", "json", "toml"])
def test_thousands_of_problems_are_counted_after_the_first_hundred(kind: Any) -> None:
    keys = [f"key{n}" for n in range(5000)]
    text = {
        "yaml": "".join(f"{key}: 1\n" for key in keys),
        "json": "{" + ",\n".join(f'"{key}": 1' for key in keys) + "}",
        "toml": "".join(f"{key} = 1\n" for key in keys),
    }[kind]
    with pytest.raises(ConfigError) as caught:
        read(Config, [Source("file", text, kind)])
    assert len(caught.value.others) == 100
    assert str(caught.value.others[98]).startswith("file:100: key99: unknown key")
    assert str(caught.value.others[-1]) == "file: 4900 more problems like these"
