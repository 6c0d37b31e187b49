"""The generated CRI messages equal the table of the API."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from nri.cri.pb import api_pb2
from tests.support.needs import need

ROOT = Path(__file__).parents[4]
PROTO = ROOT / "proto/k8s.io/cri-api/pkg/apis/runtime/v1/api.proto"
TABLE = json.loads((ROOT / "tests" / "data" / "cri-api-fields.json").read_text())
FILE = api_pb2.DESCRIPTOR
SINCE = re.compile(r" (v0\.\d+\.\d+)$")
SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}


def plain(row: str) -> str:
    """A row of the table without the release that it is new in."""
    return SINCE.sub("", row)


def full(descriptor: Descriptor) -> str:
    return descriptor.full_name.removeprefix(f"{FILE.package}.")


def type_name(field: FieldDescriptor) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        return f"map<{type_name(entry['key'])},{type_name(entry['value'])}>"
    if field.message_type is not None:
        return full(field.message_type)
    if field.enum_type is not None:
        return full(field.enum_type)
    return SCALARS[field.type]


def field_row(field: FieldDescriptor) -> str:
    kind = type_name(field)
    repeated = "repeated " if field.is_repeated and not kind.startswith("map<") else ""
    deprecated = " deprecated" if field.GetOptions().deprecated else ""
    return f"{field.number} {field.name} {repeated}{kind}{deprecated}"


def test_the_package_equals_the_tables_and_its_pool_path_is_unique() -> None:
    assert FILE.package == TABLE["package"]
    assert FILE.name == "k8s.io/cri-api/pkg/apis/runtime/v1/api.proto"


def test_there_are_exactly_175_messages() -> None:
    assert len(TABLE["messages"]) == 175
    assert sorted(FILE.message_types_by_name) == sorted(map(plain, TABLE["messages"]))


def test_each_message_has_the_tables_fields() -> None:
    messages = {plain(message): sorted(map(plain, rows)) for message, rows in TABLE["messages"].items()}
    assert messages == {
        name: sorted(field_row(field) for field in FILE.message_types_by_name[name].fields) for name in messages
    }


def test_enums_and_values_equal_the_tables() -> None:
    enums = [*FILE.enum_types_by_name.values()]
    for message in FILE.message_types_by_name.values():
        enums += message.enum_types
    descriptor_rows = {full(enum): [f"{value.number} {value.name}" for value in enum.values] for enum in enums}
    assert descriptor_rows == {name: list(map(plain, values)) for name, values in TABLE["enums"].items()}
    assert len(descriptor_rows) == 11


def test_services_and_calls_equal_the_tables() -> None:
    def row(method) -> str:
        assert not method.client_streaming
        stream = " stream" if method.server_streaming else ""
        return f"{method.name} {full(method.input_type)} {full(method.output_type)}{stream}"

    descriptor_rows = {name: list(map(row, service.methods)) for name, service in FILE.services_by_name.items()}
    assert descriptor_rows == {name: list(map(plain, calls)) for name, calls in TABLE["services"].items()}


def test_the_proto_has_the_version_of_each_newer_item() -> None:
    """The comment `// since v0.N.x` follows the item."""
    descriptor_rows = set()
    above = ""
    for line in PROTO.read_text().splitlines():
        if match := re.match(r"(message|enum|service|  enum) (\w+)", line):
            above = match[2]
        if match := re.match(r"\s+(?:rpc (\w+)|.*?(\w+) = \d+).*;  // since (v[\d.]+)$", line):
            descriptor_rows.add((above, match[1] or match[2], match[3]))
    table = set()
    for name, rows in TABLE["services"].items():
        table |= {(name, row.split()[0], match[1]) for row in rows if (match := SINCE.search(row))}
    for kind in ("messages", "enums"):
        for name, rows in TABLE[kind].items():
            home = plain(name).rpartition(".")[2]
            table |= {(home, row.split()[1], match[1]) for row in rows if (match := SINCE.search(row))}
    assert descriptor_rows == table


def test_the_committed_code_equals_the_generators_output() -> None:
    need(importlib.util.find_spec("grpc_tools"), "grpcio-tools")
    need(importlib.util.find_spec("mypy_protobuf"), "mypy-protobuf")
    command = [sys.executable, str(ROOT / "tools" / "generate_cri.py"), "--check"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
