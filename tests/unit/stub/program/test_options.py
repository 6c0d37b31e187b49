"""Flags, environment and file name, and their precedence."""

from __future__ import annotations

import pytest

import nri
from nri.api import naming
from nri.errors import ConfigError
from nri.stub.program.options import FLAGS, Flag, Options, help_text, parse


def parsed(*arguments: str, environment: dict[str, str] | None = None, program: str = "10-pin.py") -> Options:
    return parse(list(arguments), environment or {}, program, "class-name")


@pytest.mark.parametrize("arguments", [["--idx", "33"], ["-idx", "33"], ["--idx=33"], ["-idx=33"], ["-i", "33"]])
def test_flags_may_have_one_or_two_dashes_and_an_equals_sign(arguments: list[str]) -> None:
    assert parsed(*arguments).index == "33"


def test_precedence_is_flag_environment_file_name_class() -> None:
    environment = {naming.ENV_IDX: "22", naming.ENV_NAME: "env"}
    by_flag = parsed("--idx", "33", "--name", "flag", environment=environment)
    by_environment = parsed(environment=environment)
    by_file, by_class = parsed(), parsed("--idx", "44", program="pin.py")
    results = [(entry.index, entry.name) for entry in (by_flag, by_environment, by_file, by_class)]
    assert results == [("33", "flag"), ("22", "env"), ("10", "pin"), ("44", "class-name")]


def test_defaults_are_the_default_index_and_the_class_name() -> None:
    options = parsed(program="/opt/pin.py"), parse([], {}, "pin.py", "class-name", default_index="51")
    assert [(entry.index, entry.name) for entry in options] == [("50", "class-name"), ("51", "class-name")]


@pytest.mark.parametrize("program", ["10_pin.py", "/opt/10pin.py", "1010-pin"])
def test_a_file_name_with_a_malformed_index_is_refused(program: str) -> None:
    with pytest.raises(nri.ConfigError, match=r"file name 10.*rename it to NN-name, or give --idx NN"):
        parsed(program=program)
    assert parsed("--idx", "10", program=program).name == "class-name"


def test_the_socket_comes_from_flag_environment_or_default() -> None:
    environment = {"NRI_SOCKET": "/env.sock"}
    sockets = [
        parsed("--socket-path", "/flag.sock", environment=environment).socket,
        parsed("--socket", "/alias.sock").socket,
        parsed(environment=environment).socket,
        parsed().socket,
    ]
    assert sockets == ["/flag.sock", "/alias.sock", "/env.sock", naming.DEFAULT_SOCKET]


def test_the_environment_enables_the_check_of_messages() -> None:
    texts = {"1": True, "0": False, "": False}
    assert {
        text: parsed(environment={naming.ENV_CHECK_MESSAGES: text}).check_messages for text in texts
    } == texts and not parsed().check_messages


def test_the_descriptor_of_a_launched_plugin_comes_from_the_environment() -> None:
    assert parsed().socket_fd is None
    assert parsed(environment={naming.ENV_SOCKET: "3"}).socket_fd == 3
    with pytest.raises(nri.ConfigError, match="set by the runtime"):
        parsed(environment={naming.ENV_SOCKET: "three"})


def test_boolean_flags_may_have_a_value() -> None:
    assert parsed("--no-reconnect").no_reconnect and parsed("--no-reconnect=true").no_reconnect
    assert not parsed("--no-reconnect=false").no_reconnect
    assert parsed("-v").log_level == "debug"
    with pytest.raises(nri.ConfigError, match="takes no value"):
        parsed("--no-reconnect=maybe")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--log-format", "xml"], "'xml' is not a format"),
        (["--log-level", "loud"], "'loud' is not a level"),
        (["--health-addr", "localhost"], "'localhost' is not HOST:PORT"),
        (["--metrics", "localhost"], "--metrics: 'localhost' is not HOST:PORT"),
        (["--health-addr", "localhost:65536"], "'localhost:65536' is not HOST:PORT"),
        (["--health-addr", "localhost:\u00b2"], "is not HOST:PORT"),
        (["--idx", "10", "--name", "a b"], "--name: invalid plugin name \"a b\": contains invalid character ' '"),
        (["--events", "pods"], 'unknown event "pods"'),
        (["stray"], "stray: unknown argument"),
        (["--name"], "write --name NAME"),
        (["--idx", "1"], "must be 2 digits"),
    ],
)
def test_a_wrong_value_is_an_error_with_flag_and_expected_value(arguments: list[str], text: str) -> None:
    with pytest.raises(nri.ConfigError, match=text):
        parsed(*arguments)


def test_values_are_converted_to_their_types() -> None:
    options = parsed("--events", "StartContainer", "--log-level", "WARNING", "--health-addr", ":8080")
    assert options.events == nri.EventMask.of("StartContainer")
    assert (options.log_level, options.health_addr) == ("warning", ":8080")


def test_help_and_version_need_no_other_flag() -> None:
    assert parsed("--help", program="10_pin.py").help
    assert parsed("--version", program="10_pin.py").version


def test_the_help_names_every_flag_and_starts_with_the_summary() -> None:
    text = help_text("/opt/pin.py", "Pins containers.\n")
    assert text.startswith("Pins containers.\n")
    assert "python pin.py --idx 10" in text
    assert not [flag for flag in FLAGS if f"--{flag}" not in text]


OWN = {"add-env": Flag("add_env", "NAME", "add a variable"), "disableWatch": Flag("disable", "", "look once")}


def test_the_plugins_own_flags_are_collected_as_text() -> None:
    options = parse(["-add-env", "A", "--add-env=B", "-disableWatch", "--idx=10"], {}, "p.py", "pin", OWN)
    assert (options.own, options.index) == ({"add-env": ["A", "B"], "disableWatch": True}, "10")
    assert parse(["--disableWatch=false", "--idx=10"], {}, "p.py", "pin", OWN).own == {"disableWatch": False}


def test_a_misspelt_flag_is_an_error_with_a_suggestion() -> None:
    for wrong, suggestion in (
        ("--ad-env", "--add-env"),
        ("-disablewatch", "--disableWatch"),
        ("--log-flie", "--log-file"),
    ):
        with pytest.raises(nri.ConfigError, match=f"did you mean {suggestion}"):
            parse([wrong, "x"], {}, "10-p.py", "pin", OWN)


def test_the_help_lists_the_plugins_own_flags_last() -> None:
    text = help_text("p.py", "Pins.", OWN)
    assert (
        text.index("--help") < text.index("Flags of this plugin") < text.index("--add-env NAME             add a var")
    )


def test_the_help_of_a_module_names_the_module_and_of_a_bundled_plugin_its_name() -> None:
    assert "  python -m my.pin --idx 10 " in help_text("/x/pin.py", "", module="my.pin")
    assert "  nri run hook-injector --idx 10 " in help_text(
        "/x/plugin.py", "", module="nri.plugins.hook_injector.plugin"
    )


def test_flag_or_environment_can_refuse_unsupported_changes() -> None:
    assert parsed().unsupported == ""
    assert parsed("--unsupported", "refuse").unsupported == "refuse"
    assert parsed(environment={"NRI_UNSUPPORTED": "refuse"}).unsupported == "refuse"
    assert parsed("--unsupported=leave-out", environment={"NRI_UNSUPPORTED": "refuse"}).unsupported == "leave-out"


def test_an_unknown_choice_for_unsupported_changes_is_refused() -> None:
    with pytest.raises(ConfigError, match="--unsupported: 'drop' is not a choice"):
        parsed("--unsupported", "drop")
    with pytest.raises(ConfigError, match="NRI_UNSUPPORTED: 'drop' is not a choice"):
        parsed(environment={"NRI_UNSUPPORTED": "drop"})
