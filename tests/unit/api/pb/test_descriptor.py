"""The generated code matches the table of the API and the .proto file."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from nri.api.pb import api_pb2
from tests.support.needs import need

ROOT = Path(__file__).parents[4]
TABLE = json.loads((ROOT / "tests" / "data" / "nri-api-fields.json").read_text())
FILE = api_pb2.DESCRIPTOR
SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}


def type_name(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return field.message_type.name
    if field.enum_type is not None:
        return field.enum_type.name
    return SCALARS[field.type]


def field_row(field: FieldDescriptor) -> tuple[str, int, str, str, str]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        return field.name, field.number, f"map<{type_name(entry['key'])},{type_name(entry['value'])}>", "map", "map"
    label = "repeated" if field.is_repeated else "singular"
    kind = "message" if field.message_type else "enum" if field.enum_type else "scalar"
    return field.name, field.number, type_name(field), label, kind


def message_rows(descriptor: Descriptor) -> set[tuple[str, int, str, str, str]]:
    return {field_row(field) for field in descriptor.fields}


def all_enums() -> dict[str, EnumDescriptor]:
    enums = dict(FILE.enum_types_by_name)
    for message in FILE.message_types_by_name.values():
        enums |= {f"{message.name}.{enum.name}": enum for enum in message.enum_types}
    return enums


def test_the_package_and_syntax_match_the_table() -> None:
    assert FILE.package == TABLE["package"]
    assert all(
        not field.has_presence or field.message_type for d in FILE.message_types_by_name.values() for field in d.fields
    )


def test_the_pool_path_cannot_collide_with_another_api_proto() -> None:
    assert FILE.name == "nri/pkg/api/v1alpha1/api.proto"


def test_the_messages_match_the_table() -> None:
    assert set(FILE.message_types_by_name) == {message["name"] for message in TABLE["messages"]}


def test_every_message_has_the_fields_of_the_table() -> None:
    expected = {
        message["name"]: {(f["name"], f["number"], f["type"], f["label"], f["kind"]) for f in message["fields"]}
        for message in TABLE["messages"]
    }
    assert {name: message_rows(FILE.message_types_by_name[name]) for name in expected} == expected


def test_the_enums_and_their_values_match_the_table() -> None:
    local = {name: [(value.name, value.number) for value in enum.values] for name, enum in all_enums().items()}
    table = {enum["name"]: [(value["name"], value["number"]) for value in enum["values"]] for enum in TABLE["enums"]}
    assert local == table


def test_the_services_and_their_methods_match_the_table() -> None:
    local = {
        (service.full_name, method.name, method.input_type.name, method.output_type.name)
        for service in FILE.services_by_name.values()
        for method in service.methods
    }
    table = {
        (service["full_name"], rpc["name"], rpc["request"], rpc["response"])
        for service in TABLE["services"]
        for rpc in service["rpcs"]
    }
    assert local == table


def test_the_json_names_are_those_of_protobuf() -> None:
    fields = {field.name: field.json_name for d in FILE.message_types_by_name.values() for field in d.fields}
    assert fields["NRI_version"] == "NRIVersion"
    assert fields["CDI_devices"] == "CDIDevices"
    assert fields["oom_score_adj"] == "oomScoreAdj"


def test_the_checked_in_code_equals_the_generators_output() -> None:
    need(importlib.util.find_spec("grpc_tools"), "grpcio-tools")
    need(importlib.util.find_spec("mypy_protobuf"), "mypy-protobuf")
    command = [sys.executable, str(ROOT / "tools" / "generate_api.py"), "--check"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_the_generated_code_requires_no_newer_protobuf_than_the_package() -> None:
    import tomllib

    expected = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lower = next(text for text in expected if text.startswith("protobuf")).split(">=")[1].split(",")[0]
    floor = tuple(int(part) for part in [*lower.split("."), "0"][:3])
    source = (ROOT / "src" / "nri" / "api" / "pb" / "api_pb2.py").read_text()
    demand = source.split("Domain.PUBLIC,")[1].split("''")[0]
    assert tuple(int(part) for part in demand.split(",") if part.strip()) <= floor, (
        "pyproject.toml allows a protobuf that the generated code refuses to load with"
    )
