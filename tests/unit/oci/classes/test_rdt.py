"""RDT classes."""

from pathlib import Path

import pytest

from nri.config import Source
from nri.errors import ConfigError, SpecError
from nri.oci import RdtClasses

EXAMPLE = """\
classes:
  gold:
    schemata: ["L3:0=ff0;1=f", "MB:0=100"]
    enableMonitoring: true
  silver: {closID: batch}
  bronze:
"""
GORESCTRL = """\
options: {l3: {optional: true}}
partitions:
  shared:
    l3Allocation: "40%"
    mbAllocation: ["50%"]
    classes:
      burstable: {l3Allocation: "100%"}
      system/default: {}
  empty: {}
"""


def test_without_configuration_any_name_is_the_name_of_a_group() -> None:
    classes = RdtClasses(prefix="me-")
    assert classes.names == []
    assert classes.resolve("gold") == {"closID": "me-gold"}
    assert classes.resolve("system/default") == classes.resolve("/") == {"closID": "/"}
    with pytest.raises(SpecError, match='RDT class "a/b": "a/b" is not a valid folder name'):
        classes.resolve("a/b")


def test_a_class_has_the_configured_settings(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(EXAMPLE)
    classes = RdtClasses.read(tmp_path / "r.yaml")
    assert classes.names == ["bronze", "gold", "silver"]
    assert classes.resolve("gold") == {
        "closID": "gold", "schemata": ["L3:0=ff0;1=f", "MB:0=100"], "enableMonitoring": True,
    }  # fmt: skip
    assert classes.resolve("silver") == {"closID": "batch"}
    assert classes.resolve("bronze") == {"closID": "bronze"}
    with pytest.raises(SpecError, match='no RDT class "iron"; known: bronze, gold, silver'):
        classes.resolve("iron")


def test_goresctrls_files_give_the_names_of_groups() -> None:
    classes = RdtClasses(Source("r", GORESCTRL))
    assert classes.names == ["burstable", "system/default"]
    assert classes.resolve("burstable") == {"closID": "burstable"}
    assert classes.resolve("system/default") == {"closID": "/"}


def test_an_empty_configuration_has_no_class() -> None:
    with pytest.raises(SpecError, match='no RDT class "a"; known: none'):
        RdtClasses(Source("r", "")).resolve("a")


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("classes: {a/b: {}}", 'classes."a/b"', '"a/b" is not a valid folder name'),
        ("classes: {a: {closID: ..}}", "classes.a.closID", '".." is not a valid folder name'),
        ("classes: {a: {schemata: [L3]}}", "classes.a.schemata[0]", '"L3" is not a schemata line such as'),
        ("classes: {a: {schemata: ['L3:0=f\\nMB:0=1']}}", "classes.a.schemata[0]", "is not a schemata line such as"),
        ("classes: {a: {clos: x}}", "classes.a.clos", "unknown key"),
        (
            "partitions: {p: {classes: {a: {}}}, q: {classes: {a: {}}}}",
            "partitions.q.classes.a",
            "two classes have this",
        ),
        ("partitions: {p: {classes: {a/b: {}}}}", 'partitions.p.classes."a/b"', '"a/b" is not a valid folder name'),
    ],
)
def test_an_invalid_configuration_is_an_error_with_line_and_key(text: str, key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RdtClasses(Source("r.yaml", text))
    assert caught.value.key == key
    assert caught.value.source.startswith("r.yaml")
    assert reason in caught.value.reason


def test_goresctrls_root_class_may_be_nameless_and_its_keys_are_read_in_any_letter_case() -> None:
    text = "Partitions:\n  empty:\n  one: {Classes: {'': {}, <class-name>: {l3allocation: 50%}}}\n"
    classes = RdtClasses(Source("r", text))
    assert classes.names == ["<class-name>", "system/default"]
    assert classes.resolve("") == classes.resolve("system/default") == {"closID": "/"}


@pytest.mark.parametrize(
    "text",
    [
        "classes: {gold: {kubernetes: {denyPodAnnotation: true}}}",
        "partitions: {p: {classes: {gold: {l3Allocation: 60%, kubernetes: {denyPodAnnotation: true}}}}}",
    ],
)
def test_a_class_can_refuse_annotations_of_pods(text: str) -> None:
    classes = RdtClasses(Source("r", text))
    assert classes.resolve_annotation("gold", is_of_pod=False) == classes.resolve("gold") == {"closID": "gold"}
    with pytest.raises(SpecError, match='RDT class "gold" must not be selected by annotations of pods'):
        classes.resolve_annotation("gold", is_of_pod=True)
