"""Messages under their own names."""

from nri.api import messages as m
from nri.api.pb import api_pb2

FILE = api_pb2.DESCRIPTOR


def test_the_module_exports_exactly_the_messages_and_enums() -> None:
    expected = set(FILE.message_types_by_name) | set(FILE.enum_types_by_name)
    assert set(m.__all__) == expected
    public = {name for name in vars(m) if not name.startswith(("_", "@"))}  # "@": pytest's rewriting of asserts
    assert public - {"TYPE_CHECKING"} == expected, "messages must export the API's names only"
