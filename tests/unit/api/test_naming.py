"""Names, indices and file names of plugins, with the reference's error messages."""

import re

import pytest

from nri.api import naming
from nri.api.pb.api_pb2 import DESCRIPTOR


@pytest.mark.parametrize("name", ["foo", "a", "Foo_1.2+x-y", "-"])
def test_a_valid_name_is_returned(name: str) -> None:
    assert naming.check_name(name) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "invalid plugin name: name is empty"),
        ("a b", "invalid plugin name \"a b\": contains invalid character ' '"),
        ("a/b", "invalid plugin name \"a/b\": contains invalid character '/'"),
        ("plügin", "invalid plugin name \"plügin\": contains invalid character 'ü'"),
    ],
)
def test_an_invalid_name_has_the_reference_error_message(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        naming.check_name(name)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ("", 'invalid plugin index "", must be 2 digits'),
        ("1", 'invalid plugin index "1", must be 2 digits'),
        ("123", 'invalid plugin index "123", must be 2 digits'),
        ("1a", 'invalid plugin index "1a" (not [0-9][0-9])'),
        ("-1", 'invalid plugin index "-1" (not [0-9][0-9])'),
        ("é", 'invalid plugin index "é" (not [0-9][0-9])'),
        ("²³", 'invalid plugin index "²³", must be 2 digits'),
    ],
)
def test_an_invalid_index_has_the_reference_error_message(index: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        naming.check_index(index)


@pytest.mark.parametrize(
    ("file_name", "parts"),
    [("10-foo", ("10", "foo")), ("00-a-b", ("00", "a-b")), ("99-", ("99", "")), ("05-a b", ("05", "a b"))],
)
def test_a_file_name_is_split_at_the_first_dash(file_name: str, parts: tuple[str, str]) -> None:
    assert naming.split_file_name(file_name) == parts


@pytest.mark.parametrize(
    ("file_name", "text"),
    [
        ("foo", 'invalid plugin name "foo", idx-pluginname expected'),
        ("", 'invalid plugin name "", idx-pluginname expected'),
        ("foo-bar", 'invalid plugin index "foo", must be 2 digits'),
        ("ab-bar", 'invalid plugin index "ab" (not [0-9][0-9])'),
    ],
)
def test_an_invalid_file_name_has_the_reference_error_message(file_name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        naming.split_file_name(file_name)


def test_the_service_names_match_the_proto_file() -> None:
    services = DESCRIPTOR.services_by_name
    assert services["Plugin"].full_name == naming.PLUGIN_SERVICE
    assert services["Runtime"].full_name == naming.RUNTIME_SERVICE


def test_the_configuration_with_the_full_name_comes_first() -> None:
    assert naming.config_file_names("10", "foo") == ("10-foo.conf", "foo.conf")
    assert naming.full_name("10", "foo") == "10-foo"
