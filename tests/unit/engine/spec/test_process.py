from __future__ import annotations

import signal

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import ImageConfig, adjusted_signal, stop_signal
from nri.engine.spec.process import PATH, args, cwd, environment
from nri.errors import RequestError

IMAGE = ImageConfig(entrypoint=("/entry",), cmd=("cmd", "x"), env=("PATH=/image", "A=1", "B=2"), working_dir="/work")


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ([], [], ["/entry", "cmd", "x"]),
        ([], ["mine"], ["/entry", "mine"]),
        (["sh"], [], ["sh"]),
        (["sh"], ["-c", "true"], ["sh", "-c", "true"]),
    ],
)
def test_command_and_args_replace_the_images(command: list[str], arguments: list[str], expected: list[str]) -> None:
    assert args(pb.ContainerConfig(command=command, args=arguments), IMAGE) == expected


def test_an_entry_point_of_one_empty_word_is_ignored() -> None:
    assert args(pb.ContainerConfig(), ImageConfig(entrypoint=("",), cmd=("sh",))) == ["sh"]


def test_a_missing_command_is_an_error_that_names_the_image() -> None:
    with pytest.raises(RequestError, match=r'^command: "": is required, because image busybox:1 has no command$'):
        args(pb.ContainerConfig(image=pb.ImageSpec(image="busybox:1")), ImageConfig())


def test_a_zero_byte_in_an_argument_is_an_error() -> None:
    with pytest.raises(RequestError, match="contains a zero byte"):
        args(pb.ContainerConfig(command=["a\0b"]), IMAGE)


def test_the_requests_variables_override_the_images_in_place() -> None:
    config = pb.ContainerConfig(envs=[pb.KeyValue(key="B", value=b"9"), pb.KeyValue(key="C", value=b"")], tty=True)
    assert environment(config, IMAGE, "web") == ["PATH=/image", "TERM=xterm", "HOSTNAME=web", "A=1", "B=9", "C="]


def test_a_key_with_an_equals_sign_sets_the_variable_before_it() -> None:
    config = pb.ContainerConfig(envs=[pb.KeyValue(key="A=x", value=b"y")])
    assert environment(config, IMAGE) == ["PATH=/image", "A=x=y", "B=2"]


def test_the_variable_path_always_exists() -> None:
    assert environment(pb.ContainerConfig(), ImageConfig()) == [f"PATH={PATH}"]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("", b"", r'envs\[0\]\.key: "": is not a valid name'),
        ("=B", b"", r"is not a valid name"),
        ("A", b"\xff", r"envs\[0\]\.value: .* is not UTF-8"),
        ("A", b"\0", r"zero byte"),
    ],
)
def test_an_invalid_variable_is_an_error(key: str, value: bytes, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        environment(pb.ContainerConfig(envs=[pb.KeyValue(key=key, value=value)]), IMAGE)


def test_the_working_directory_comes_from_request_image_or_default() -> None:
    assert cwd(pb.ContainerConfig(working_dir="/mine"), IMAGE) == "/mine"
    assert cwd(pb.ContainerConfig(), IMAGE) == "/work"
    assert cwd(pb.ContainerConfig(), ImageConfig()) == "/"
    assert cwd(pb.ContainerConfig(working_dir="mine"), IMAGE) == "/mine"
    assert cwd(pb.ContainerConfig(), ImageConfig(working_dir="srv/web")) == "/srv/web"


@pytest.mark.parametrize(
    ("signal_number", "image", "number"),
    [
        (pb.SIGNAL_RUNTIME_DEFAULT, "", signal.SIGTERM),
        (pb.SIGNAL_RUNTIME_DEFAULT, "SIGQUIT", signal.SIGQUIT),
        (pb.SIGNAL_RUNTIME_DEFAULT, "3", 3),
        (pb.SIGNAL_RUNTIME_DEFAULT, "RTMIN+3", 37),
        (pb.SIGNAL_SIGINT, "SIGQUIT", signal.SIGINT),
        (pb.SIGNAL_SIGRTMIN, "", 34),
        (pb.SIGNAL_SIGRTMINPLUS15, "", 49),
        (pb.SIGNAL_SIGRTMAXMINUS14, "", 50),
        (pb.SIGNAL_SIGRTMAX, "", 64),
    ],
)
def test_the_stop_signal_comes_from_request_image_or_default(signal_number: int, image: str, number: int) -> None:
    assert stop_signal(pb.ContainerConfig(stop_signal=signal_number), ImageConfig(stop_signal=image)) == number


def test_every_signal_of_the_cri_has_a_number() -> None:
    actual = {value: stop_signal(pb.ContainerConfig(stop_signal=value), ImageConfig()) for value in pb.Signal.values()}
    assert [name for name, value in pb.Signal.items() if value and not 1 <= actual[value] <= 64] == []


@pytest.mark.parametrize(
    "text",
    ["SIGNOPE", "99", "0", "SIGRTMIN+31", "SIGTERM+1", "SIGRTMIN+", "RTMINx", "٣", "9" * 5000, "RTMIN+" + "9" * 5000],
)
def test_an_unknown_signal_is_an_error(text: str) -> None:
    with pytest.raises(RequestError, match="is not a signal"):
        stop_signal(pb.ContainerConfig(), ImageConfig(stop_signal=text))


KEY = "org.opencontainers.image.stopSignal"


@pytest.mark.parametrize(
    ("request_signal", "annotations", "number"),
    [
        (pb.SIGNAL_RUNTIME_DEFAULT, {}, "15"),
        (pb.SIGNAL_RUNTIME_DEFAULT, {KEY: ""}, "15"),
        (pb.SIGNAL_RUNTIME_DEFAULT, {KEY: "SIGRTMIN+3"}, "37"),
        (pb.SIGNAL_SIGINT, {KEY: "SIGRTMIN+3"}, "15"),
    ],
)
def test_plugins_set_the_stop_signal_unless_the_request_does(
    request_signal: pb.Signal.ValueType, annotations: dict[str, str], number: str
) -> None:
    assert adjusted_signal(pb.ContainerConfig(stop_signal=request_signal), annotations, "15") == number


def test_a_stop_signal_of_a_plugin_that_does_not_exist_is_refused_by_its_annotation() -> None:
    with pytest.raises(
        RequestError, match=r'annotations\["org.opencontainers.image.stopSignal"\]: "SIGX": is not a signal'
    ):
        adjusted_signal(pb.ContainerConfig(), {KEY: "SIGX"}, "15")
