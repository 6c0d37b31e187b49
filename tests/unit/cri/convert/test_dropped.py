"""Fields that a conversion cannot represent are reported."""

from nri.cri.convert.dropped import Conversion, DroppedField, left_over, shown
from nri.cri.pb import api_pb2 as cri


def test_each_unsupported_field_is_reported_with_its_value() -> None:
    config = cri.ContainerConfig(mounts=[cri.Mount(host_path="/a"), cri.Mount(container_path="/b", readonly=True)])
    config.labels["app"] = "web"
    config.metadata.name = "main"
    carried = {"metadata", "mounts[].host_path", "mounts[].container_path"}
    assert left_over(config, carried, "nowhere to put it") == [
        DroppedField("mounts[1].readonly", "True", "nowhere to put it"),
        DroppedField("labels", "{'app': 'web'}", "nowhere to put it"),
    ]


def test_a_present_empty_message_counts_as_set() -> None:
    config = cri.LinuxContainerConfig(security_context=cri.LinuxContainerSecurityContext())
    assert [str(one) for one in left_over(config, (), "why")] == ["security_context (set, but empty): why"]


def test_fields_that_are_converted_completely_are_not_reported() -> None:
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="main", attempt=2), args=["a", "b"])
    assert left_over(config, {"metadata", "args"}, "why") == []


def test_a_field_of_a_nested_message_has_a_full_path() -> None:
    assert DroppedField("readonly", "True", "why").below("mounts[0]").field == "mounts[0].readonly"


def test_a_value_is_shown_on_one_short_line() -> None:
    text = shown("a\nb" * 1000)
    assert "\n" not in text
    assert len(text) <= 120


def test_dropped_fields_are_computed_once_on_demand() -> None:
    looks: list[str] = []

    def find() -> list[DroppedField]:
        looks.append("look")
        return [DroppedField("a", "1", "no field")]

    converted = Conversion("value", find)
    assert (converted.value, looks) == ("value", [])
    assert converted.dropped == converted.dropped == (DroppedField("a", "1", "no field"),)
    assert looks == ["look"]
