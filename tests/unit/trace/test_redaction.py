"""Redaction replaces values, keeps names, and keeps equal values equal."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from nri.api import messages as m
from nri.trace.redaction import Redactor
from nri.wire import bytes_field

HOOKS = m.Hooks(prestart=[m.Hook(path="/bin/hook", args=["hook", "S3CRET"], env=["PW=S3CRET"])])
MESSAGES = {
    "container": m.CreateContainerRequest(
        pod=m.PodSandbox(name="web", annotations={"token": "S3CRET"}, labels={"app": "web"}),
        container=m.Container(
            name="main", env=["PW=S3CRET", "EMPTY=", "ODD"], args=["prog", "S3CRET"], annotations={"a": "S3CRET"},
            hooks=HOOKS,
        ),
    ),
    "adjustment": m.CreateContainerResponse(
        adjust=m.ContainerAdjustment(
            env=[m.KeyValue(key="PW", value="S3CRET")], args=["prog", "S3CRET"], annotations={"a": "S3CRET"},
            hooks=HOOKS,
        )
    ),
    "state": m.SynchronizeRequest(
        pods=[m.PodSandbox(annotations={"a": "S3CRET"})], containers=[m.Container(env=["PW=S3CRET"])]
    ),
    "validation": m.ValidateContainerAdjustmentRequest(
        container=m.Container(env=["PW=S3CRET"]),
        adjust=m.ContainerAdjustment(env=[m.KeyValue(key="PW", value="S3CRET")]),
    ),
    "old event": m.StateChangeEvent(container=m.Container(env=["PW=S3CRET"])),
    "adjustment of Linux": m.CreateContainerResponse(
        adjust=m.ContainerAdjustment(
            mounts=[m.Mount(destination="/d", options=["ro", "password=S3CRET"])],
            linux=m.LinuxContainerAdjustment(
                sysctl={"kernel.domainname": "S3CRET"},
                seccomp_policy=m.LinuxSeccomp(
                    listener_metadata="S3CRET",
                    syscalls=[m.LinuxSyscall(names=["x"], args=[m.LinuxSeccompArg(index=1, value=5)])],
                ),
            ),
        )
    ),
    "container of Linux": m.StartContainerRequest(
        container=m.Container(
            mounts=[m.Mount(options=["username=S3CRET"])], linux=m.LinuxContainer(sysctl={"a": "S3CRET"})
        )
    ),
    "configuration": m.ConfigureRequest(config="S3CRET"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MESSAGES)
def test_every_value_is_replaced(kind: str) -> None:
    message = type(MESSAGES[kind])()
    message.CopyFrom(MESSAGES[kind])  # type: ignore[arg-type]
    assert Redactor().message(message)
    assert b"S3CRET" not in message.SerializeToString()


@pytest.mark.parametrize(
    "more", [b"", b"\x78\x01", b"\x7a\x06S3CRET", b"\x0a\x00"], ids=("", "number", "bytes", "twice")
)
@pytest.mark.parametrize("kind", MESSAGES)
def test_repeated_bytes_are_redacted_like_their_message(kind: str, more: bytes) -> None:
    redactor, type_ = Redactor(), type(MESSAGES[kind])
    data = more + MESSAGES[kind].SerializeToString()
    message = type_.FromString(data)
    redactor.message(message)
    for _ in range(2):
        redacted, changed = redactor.encoded(type_, data)
        assert changed and b"S3CRET" not in redacted and type_.FromString(redacted) == message
    assert redactor.encoded(type_, b"") == (b"", False)
    for number in range(200):  # more than the redactor remembers
        pod = m.PodSandbox(annotations={"a": f"S3CRET{number}"})
        assert (
            b"S3CRET"
            not in redactor.encoded(m.RunPodSandboxRequest, m.RunPodSandboxRequest(pod=pod).SerializeToString())[0]
        )
    big = m.RunPodSandboxRequest(pod=m.PodSandbox(annotations={"a": "S3CRET" * 20_000})).SerializeToString()
    assert len(redactor.encoded(m.RunPodSandboxRequest, big)[0]) < 100


def test_a_changed_pod_and_another_pod_with_its_id_are_redacted_again() -> None:
    redactor = Redactor()

    def shown(kind: Any, **parts: Any) -> Any:
        return kind.FromString(redactor.encoded(kind, kind(**parts).SerializeToString())[0])

    first, second = ({"token": f"S3CRET{number}", "a": "same"} for number in range(2))
    for message in (first, second, first):
        pod = shown(m.RunPodSandboxRequest, pod=m.PodSandbox(id="p1", name="web", annotations=message)).pod
        assert pod.annotations == {key: redactor.text(value) for key, value in message.items()}
    assert shown(m.RunPodSandboxRequest, pod=m.PodSandbox(id="p1", name="other")).pod.name == "other"


def test_a_container_with_the_bytes_of_a_pod_is_redacted_as_a_container() -> None:
    redactor = Redactor()
    part = bytes_field(7, b"prog") + bytes_field(7, b"S3CRET")  # a pod's runtime handler, or a container's args
    data = bytes_field(1, part) + bytes_field(2, part)
    message = m.CreateContainerRequest.FromString(data)
    redactor.message(message)
    encoded = m.CreateContainerRequest.FromString(redactor.encoded(m.CreateContainerRequest, data)[0])
    assert encoded == message
    assert list(encoded.container.args) == ["prog", redactor.text("S3CRET")]


@pytest.mark.parametrize(("count", "length"), [(2000, 20_000), (200, 200_000)], ids=["many", "large"])
def test_the_cache_of_pods_is_bounded(count: int, length: int) -> None:
    redactor = Redactor()
    tracemalloc.start()
    try:
        for number in range(count):
            pod = m.PodSandbox(annotations={"a": f"{number}".ljust(length)})
            redactor.encoded(m.RunPodSandboxRequest, m.RunPodSandboxRequest(pod=pod).SerializeToString())
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


def test_names_programs_and_labels_are_kept() -> None:
    message = m.CreateContainerRequest()
    message.CopyFrom(MESSAGES["container"])  # type: ignore[arg-type]
    Redactor().message(message)
    container = message.container
    assert [variable.partition("=")[0] for variable in container.env] == ["PW", "EMPTY", "ODD"]
    assert list(container.env)[1:] == ["EMPTY=", "ODD"], "a variable without a value is unchanged"
    assert list(container.annotations) == ["a"]
    assert container.args[0] == "prog"
    assert dict(message.pod.labels) == {"app": "web"}


def test_equal_values_stay_equal_only_within_one_recording() -> None:
    one, other = Redactor(), Redactor()
    assert one.text("a") == one.text("a") != one.text("b")
    assert one.text("a") != other.text("a")


@pytest.mark.parametrize(
    "message",
    [
        m.StartContainerRequest(pod=m.PodSandbox(name="web"), container=m.Container(name="main", args=["prog"])),
        m.CreateContainerResponse(update=[m.ContainerUpdate(container_id="x")]),
        m.Container(annotations={"a": ""}),
    ],
)
def test_a_message_without_values_is_not_changed(message: Any) -> None:
    before = message.SerializeToString()
    assert not Redactor().message(message)
    assert message.SerializeToString() == before


def test_unknown_fields_are_dropped() -> None:
    message = m.PodSandbox.FromString(m.PodSandbox(name="web").SerializeToString() + b"\xfa\x3f\x06S3CRET")
    Redactor().message(message)
    assert message.SerializeToString() == m.PodSandbox(name="web").SerializeToString()


def holds(message: Any) -> list[tuple[str, Any]]:
    """All that a message holds, field by field and in depth."""
    fields: list[tuple[str, Any]] = []
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            fields.append((field.name, dict(value) if hasattr(value, "items") else value))
        else:
            for variable in value if hasattr(value, "append") else (value,):
                fields += [(f"{field.name}.{name}", inner) for name, inner in holds(variable)]
    return fields


@pytest.mark.parametrize("kind", MESSAGES)
def test_only_values_are_changed(kind: str) -> None:
    message = type(MESSAGES[kind])()
    message.CopyFrom(MESSAGES[kind])  # type: ignore[arg-type]
    before = holds(message)
    redactor = Redactor()
    redactor.message(message)
    stand_in = redactor.text("S3CRET")
    assert [(name, repr(value)) for name, value in holds(message)] == (
        [(name, repr(value).replace("S3CRET", stand_in)) for name, value in before]
    )


def test_values_beyond_the_cache_are_replaced_consistently() -> None:
    redactor = Redactor()
    values = [f"value {number}" for number in range(10_000)] + ["x" * 1000]
    first = [redactor.text(value) for value in values]
    assert [redactor.text(value) for value in values] == first
    message = m.Container(env=[f"{number}={value}" for number, value in enumerate(values)])
    redactor.message(message)
    assert list(message.env) == [f"{number}={text}" for number, text in enumerate(first)]
