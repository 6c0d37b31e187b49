"""Detection of private names of the product in tests."""

import pytest

from tests.support.private_names import accesses


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("box._absent_name = 1", []),
        ("adaptation._reporting.lines", ["adaptation._reporting"]),
        ("from nri.mux.trunk import _x", []),
        ("from nri.text import _OTHER, plain", []),
        ('monkeypatch.setattr(invoker, "_reporting", None)', ["monkeypatch.setattr(invoker, '_reporting', None)"]),
        ('setattr("nri.dispatch.invoker._reporting", 1)', ["setattr('nri.dispatch.invoker._reporting', 1)"]),
        ("class A:\n    def __init__(self):\n        self._reporting = 1\n\nA()._reporting", []),
        ("row._replace(a=1)", []),
    ],
    ids=[
        "no name of the product's",
        "attribute",
        "no such name",
        "nor this",
        "setattr",
        "setattr by path",
        "its own",
        "named tuple",
    ],
)
def test_only_private_names_of_the_product_are_reported(source: str, names: list[str]) -> None:
    assert [text for _, text in accesses(source)] == names
