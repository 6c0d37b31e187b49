"""The table of the spec's fields."""

from nri.oci.fields import OBJECTS, Field, fields_of


def test_rows_are_parsed() -> None:
    fields = fields_of("Spec")
    assert fields["hostname"] == Field("text", "", "?")
    assert fields["ociVersion"] == Field("text", "", "")
    assert fields["linux"] == Field("Linux", "", "*")
    assert fields["mounts"] == Field("Mount", "[", "?")
    assert fields["annotations"] == Field("text", "{", "?")


def test_every_kind_is_a_scalar_or_an_object_of_the_table() -> None:
    scalars = {"text", "bool", "int32", "int64", "uint16", "uint32", "uint64"}
    kinds = {field.kind for name in OBJECTS for field in fields_of(name).values()}
    assert kinds - scalars == OBJECTS.keys() - {"Spec"}
