"""Rules for registries: which rule an image gets, what its name stands for, and what skopeo reads."""

from __future__ import annotations

import tomllib

import pytest

from nri.engine.config import Registry
from nri.engine.config.registries_file import Mirror, RegistriesFile, RegistryRule
from nri.engine.images import RegistryRules
from nri.engine.support.errors import InvalidRequest
from nri.errors import ConfigError

TEAM = RegistryRule("r.example/team", "inner.example:5000/t", mirrors=(Mirror("near.example"), Mirror("far.example/m")))
RULES = RegistryRules(
    [Registry("quay.io", blocked=True)],
    RegistriesFile(
        {rule.prefix: rule for rule in (RegistryRule("quay.io"), RegistryRule("r.example", "r.example"), TEAM,
                                        RegistryRule("*.wild.example", blocked=True),
                                        RegistryRule("hub.wild.example", "hub.wild.example"))},
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("image", "prefix"),
    [
        ("r.example/app:1", "r.example"),
        ("r.example/team/app:1", "r.example/team"),
        ("r.example/teams/app:1", "r.example"),
        ("a.b.wild.example/app:1", "*.wild.example"),
        ("a.wild.example:5000/app:1", "*.wild.example"),
        ("wild.example/app:1", "wild.example"),
        ("hub.wild.example/app:1", "hub.wild.example"),
        ("other.example/a.wild.example/app", "other.example"),
        ("r.example.org/app:1", "r.example.org"),
    ],
)
def test_the_longest_prefix_counts(image: str, prefix: str) -> None:
    assert RULES.rule(image).prefix == prefix


def test_settings_of_the_engine_replace_those_of_the_file() -> None:
    assert RULES.rule("quay.io/a:1").blocked
    assert not RULES.rule("r.example/a:1").blocked


def test_a_name_is_requested_at_mirrors_and_at_the_location() -> None:
    assert RULES.endpoints("r.example/team/app:1") == [
        "near.example/app:1",
        "far.example/m/app:1",
        "inner.example:5000/t/app:1",
    ]
    assert RULES.endpoints("other.example/app:1") == ["other.example/app:1"]


@pytest.mark.parametrize("key", ["insecure", "blocked"])
def test_rules_that_skopeo_would_refuse_are_an_error_with_both_prefixes(key: str) -> None:
    file = RegistriesFile({"inner": RegistryRule("inner", "r.example:5000")})
    with pytest.raises(ConfigError, match=f'"inner" and "r.example:5000" have one location, .* values of {key}'):
        RegistryRules([Registry("r.example:5000", **{key: True})], file)


def short(search: tuple[str, ...] | None, mode: str = "permissive") -> RegistryRules:
    return RegistryRules((), RegistriesFile({}, search, mode, {"app": "r.example/team/app"}))


@pytest.mark.parametrize(
    ("search", "name", "names"),
    [
        (None, "busybox:1", ["busybox:1"]),
        (("a.io", "b.io"), "busybox:1", ["a.io/busybox:1", "b.io/busybox:1"]),
        (("a.io",), "team/x", ["a.io/team/x"]),
        ((), "app:1", ["r.example/team/app:1"]),
        (("a.io",), "app@sha256:0", ["r.example/team/app@sha256:0"]),
        (("a.io",), "b.io/app", ["b.io/app"]),
        (("a.io",), "localhost/app", ["localhost/app"]),
    ],
)
def test_a_short_name_stands_for_an_alias_or_for_names_in_registries(
    search: tuple[str, ...] | None, name: str, names: list[str]
) -> None:
    assert short(search).candidates(name) == names


def test_an_ambiguous_or_unknown_short_name_is_refused_with_the_next_step() -> None:
    with pytest.raises(InvalidRequest, match=r"can be in several registries \(a.io, b.io\). Use a whole name"):
        short(("a.io", "b.io"), "enforcing").candidates("x")
    assert short(("a.io",), "enforcing").candidates("x") == ["a.io/x"]
    with pytest.raises(InvalidRequest, match="has no registry for short names"):
        short(()).candidates("x")


def test_an_image_of_this_node_is_found_by_every_name_that_a_short_name_stands_for() -> None:
    assert short(("a.io",), "enforcing").local_names("x:1") == ["a.io/x:1", "x:1"]
    assert short(()).local_names("app") == ["r.example/team/app", "app"]
    assert short(("a.io",)).local_names("b.io/x") == ["b.io/x"]


def test_skopeo_gets_all_rules_and_no_short_names() -> None:
    mirrors = ("http://m:5000", "https://n")
    rules = RegistryRules(
        [Registry("quay.io", mirrors, insecure=True), Registry('a"b'), Registry("c", location="d/e"), Registry("*.y")],
        RegistriesFile({"*.x": RegistryRule("*.x", blocked=True), TEAM.prefix: TEAM}, ("a.io",), "enforcing"),
    )
    document = tomllib.loads(rules.conf())
    rows = {row["prefix"]: row for row in document["registry"]}
    assert document["unqualified-search-registries"] == [] and "aliases" not in document
    assert rows["quay.io"]["mirror"] == [
        {"location": "m:5000", "insecure": True, "pull-from-mirror": "all"},
        {"location": "n", "insecure": False, "pull-from-mirror": "all"},
    ]
    assert (rows['a"b']["location"], rows["c"]["location"]) == ('a"b', "d/e")
    assert rows["*.x"] == {"prefix": "*.x", "insecure": False, "blocked": True}
    assert rows["*.y"] == {"prefix": "*.y", "insecure": False, "blocked": False}
    assert rows["r.example/team"]["location"] == "inner.example:5000/t"
