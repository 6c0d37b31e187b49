"""Selectors of the pods that a plugin receives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.api import messages as m
from nri.api.selectors import MAX_PATTERN, Filters, LabelSelector, Pattern, Selector, matches


def pod(namespace="prod", labels=(), annotations=()):
    return m.PodSandbox(namespace=namespace, labels=dict(labels), annotations=dict(annotations))


def patterns(*texts):
    return tuple(map(Pattern.parse, texts))


def selectors(*texts):
    return tuple(map(Selector.parse, texts))


NAMESPACES = [
    ((), "any", True),
    (("prod",), "prod", True),
    (("prod",), "production", False),
    (("prod",), "Prod", False),
    (("prod-*",), "prod-eu", True),
    (("prod-*",), "prod", False),
    (("team-?",), "team-a", True),
    (("[ab]*",), "cache", False),
    (("a", "b"), "b", True),
    (("!kube-*",), "prod", True),
    (("!kube-*",), "kube-system", False),
    (("*", "!kube-system"), "kube-system", False),
    (("kube-*", "!kube-system"), "kube-public", True),
    (("kube-*", "!kube-system"), "prod", False),
]


@pytest.mark.parametrize(("texts", "name", "expected"), NAMESPACES)
def test_namespaces_match_by_name_pattern_and_exclusion(texts, name, expected):
    assert matches(patterns(*texts), name) is expected


SELECTORS = [
    ("tier", {"tier": ""}, True),
    ("tier", {}, False),
    ("!tier", {}, True),
    ("!tier", {"tier": "x"}, False),
    ("app=web", {"app": "web"}, True),
    ("app=web", {"app": "website"}, False),
    ("app=web", {}, False),
    ("app!=web", {"app": "db"}, True),
    ("app!=web", {"app": "web"}, False),
    ("app!=web", {}, True),
    ("app=web-*", {"app": "web-1"}, True),
    ("app=", {"app": ""}, True),
    ("app=", {"app": "x"}, False),
    ("example.com/app=a=b", {"example.com/app": "a=b"}, True),
    ("app=two words", {"app": "two words"}, True),
    ("app==web", {"app": "web"}, True),
    ("app in (web, db-*)", {"app": "db-1"}, True),
    ("app in (web,db)", {"app": "cache"}, False),
    ("app in (web,db)", {}, False),
    ("app notin (web,db)", {"app": "db"}, False),
    ("app notin (web,db)", {}, True),
]


@pytest.mark.parametrize(("text", "pairs", "expected"), SELECTORS)
def test_selectors_match_by_presence_and_value(text, pairs, expected):
    assert Selector.parse(text).holds(pairs) is expected


@pytest.mark.parametrize("text", ["", "=web", "!a=b", "two words", "!", "!=x", "a!b"])
def test_an_invalid_selector_is_an_error_with_the_allowed_forms(text):
    with pytest.raises(ValueError, match="write key, !key, key=value, key!=value, key in"):
        Selector.parse(text)


@pytest.mark.parametrize(
    "text", ["", "!", "a b", " a", "a\n", "Prod", "a.b", "a_b", "-a", "!!a", "[ab", "a" * 64, "x" * 64 + "*"]
)
def test_an_invalid_namespace_is_refused(text):
    with pytest.raises(ValueError, match="is not a namespace"):
        Pattern.parse(text)


@pytest.mark.parametrize(("kind", "before"), [(Pattern, ""), (Selector, "tier=")])
def test_an_oversized_pattern_is_refused(kind: type[Pattern | Selector], before: str) -> None:
    kind.parse(before + "*" * MAX_PATTERN)
    with pytest.raises(ValueError, match=r'pattern "\*\*+\.\.\." has 1025 characters; at most 1024 are allowed'):
        kind.parse(before + "*" * (MAX_PATTERN + 1))


def test_without_filters_every_pod_is_admitted():
    assert Filters().admits(pod())


def test_all_three_kinds_of_filters_must_agree():
    filters = Filters(patterns("prod"), selectors("app=web", "!batch"), selectors("inject"))
    right = {"namespace": "prod", "labels": {"app": "web"}, "annotations": {"inject": "1"}}
    wrong = [{"namespace": "dev"}, {"labels": {"app": "web", "batch": ""}}, {"labels": {}}, {"annotations": {}}]
    assert filters.admits(pod(**right))
    assert not any(filters.admits(pod(**{**right, **one})) for one in wrong)


def test_filters_do_not_change_the_pod():
    requests = pod(labels={"a": "b"})
    before = requests.SerializeToString(deterministic=True)
    Filters(label=selectors("app=web"), annotation=selectors("x=y")).admits(requests)
    assert requests.SerializeToString(deterministic=True) == before, "a lookup in a protobuf map made an entry"


@given(st.text(), st.text())
def test_any_text_is_a_valid_pattern_or_a_value_error(text, name):
    try:
        pattern = Pattern.parse(text)
    except ValueError:
        return
    assert pattern.fits(name) in (True, False)


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_a_selector_and_its_opposite_never_both_match(key, pairs):
    try:
        present, absent = Selector.parse(key), Selector.parse("!" + key)
    except ValueError:
        return
    assert present.holds(pairs) is not absent.holds(pairs)


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (Pattern.parse, "prod,test", r'write a list: \["prod", "test"\]'),
        (Pattern.parse, "team-[b-a]", "its range in brackets is empty"),
        (LabelSelector.parse, "app=web, tier=a", r'write a list: \["app=web", "tier=a"\]'),
        (LabelSelector.parse, "app,tier", r'write a list: \["app", "tier"\]'),
        (LabelSelector.parse, "app=two words", '"two words" is not a valid label value'),
        (LabelSelector.parse, "app=-web", '"-web" is not a valid label value'),
        (LabelSelector.parse, "app in (web,a/b)", '"a/b" is not a valid label value'),
        (LabelSelector.parse, "app=" + "x" * 64, "at most 63 letters"),
        (LabelSelector.parse, "app=web-[", r'"web-\[" is not a valid label value'),
        (LabelSelector.parse, "Example.com/app", '"Example.com/app" is not the key of a label'),
        (LabelSelector.parse, "a/b/c=x", '"a/b/c" is not the key of a label'),
        (LabelSelector.parse, "a:b=x", '"a:b" is not the key of a label'),
        (Selector.parse, "zone example=x", "is not a selector"),
        (Selector.parse, "exists(x)", "is not a selector"),
        (Selector.parse, "zone;x=y", '"zone;x" is not a key'),
    ],
)
def test_a_selector_that_can_never_match_is_refused(parse, text, reason):
    with pytest.raises(ValueError, match=reason):
        parse(text)


@pytest.mark.parametrize(
    ("namespaces", "labels", "reason"),
    [
        (("prod", "!prod"), (), '"prod" is both included and excluded'),
        (("prod-*", "!prod-*"), (), "is both included and excluded"),
        (("!*",), (), "excludes every namespace"),
        (("prod", "!p*"), (), "is both included and excluded"),
        ((), ("app=web", "app=db"), '"app=web" and "app=db" exclude each other'),
        ((), ("app=web", "app!=w*"), "exclude each other"),
        ((), ("app", "!app"), '"!app" and "app" exclude each other'),
        ((), ("app in (a,b)", "app notin (b,a)"), "exclude each other"),
    ],
)
def test_filters_that_no_pod_can_match_are_refused(namespaces, labels, reason):
    with pytest.raises(ValueError, match=f"{reason}.*, so that no pod matches"):
        Filters(patterns(*namespaces), tuple(map(LabelSelector.parse, labels)))


@pytest.mark.parametrize(
    ("namespaces", "labels", "match"),
    [
        (("prod", "test", "!prod"), (), pod("test")),
        (("prod-*", "!prod-a"), (), pod("prod-b")),
        ((), ("app in (a,b)", "app!=a"), pod(labels={"app": "b"})),
        ((), ("app=web-*", "app!=web-1"), pod(labels={"app": "web-2"})),
        ((), ("app!=web", "!app"), pod()),
    ],
)
def test_filters_that_some_pod_can_match_are_accepted(namespaces, labels, match):
    assert Filters(patterns(*namespaces), tuple(map(LabelSelector.parse, labels))).admits(match)
