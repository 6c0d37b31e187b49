"""Names of CDI devices."""

import re

import pytest

from nri.oci.cdi.names import QualifiedName, parse


def test_a_qualified_name_has_three_parts() -> None:
    assert parse("vendor.com/gpu=card0:1") == QualifiedName("vendor.com", "gpu", "card0:1")
    assert str(parse("v/c.d=0")) == "v/c.d=0"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpu0", '"gpu0" is no qualified name; write vendor.com/class=name'),
        ("/dev/x=1", "is no qualified name"),
        ("vendor=1", '"vendor" has no "/"; write vendor.com/class'),
        ("1v/c=1", 'the vendor "1v" must begin with a letter'),
        ("v/c_=1", 'the class "c_" must begin with a letter, end with a letter or digit'),
        ("/c=1", "is no qualified name"),
        ("v/=1", 'the class ""'),
        ("v/c=", 'the name ""'),
        ("v/c=-1", 'the name "-1" must begin and end with a letter or digit'),
        ("v/c=a=b", 'the name "a=b"'),
        ("v/c=1\n", 'the name "1\n"'),
    ],
)
def test_what_is_no_name_is_told(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse(text)
