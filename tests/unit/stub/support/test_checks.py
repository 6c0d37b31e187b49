"""Mistakes in a plugin's class are errors when the class is created."""

from __future__ import annotations

import functools
import logging
from typing import Any, TypedDict

import pytest

import nri
from nri.stub.support.checks import kebab_case


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("create_containr", "create_container"),
        ("create_containers", "create_container"),
        ("craete_container", "create_container"),
        ("run_pod_sandbx", "run_pod_sandbox"),
        ("synchronise", "synchronize"),
        ("configur", "configure"),
        ("CreateContainer", "create_container"),
        ("StopPodSandbox", "stop_pod_sandbox"),
        ("on_stop_container", "stop_container"),
        ("on_stop_containr", "stop_container"),
        ("handle_create_container", "create_container"),
        ("create_container_handler", "create_container"),
        ("pre_create_container", "create_container"),
        ("post_stop_container", "stop_container"),
        ("stop_pod", "stop_pod_sandbox"),
        ("on_update_pod", "update_pod_sandbox"),
        ("create_pod", "run_pod_sandbox"),
        ("delete_container", "remove_container"),
        ("validate_container", "validate_container_adjustment"),
        ("on_closed", "closed"),
        ("on_close", "closed"),
        ("on_shutdown", "shutdown"),
        ("on_sync", "synchronize"),
        ("on_create", "create_container"),
        ("start_hook", "start_container"),
        ("on_container_create", "create_container"),
        ("on_container_started", "post_start_container"),
        ("post_start", "post_start_container"),
        ("on_deleted", "remove_container"),
        ("on_validate", "validate_container_adjustment"),
        ("createContainer", "create_container"),
        ("runPodSandbox", "run_pod_sandbox"),
        ("postupdatepodsandbox", "post_update_pod_sandbox"),
        ("CREATE_CONTAINER", "create_container"),
        ("onUpdateContainer", "update_container"),
        ("measurement", "measurements"),
    ],
)
def test_a_misspelt_handler_is_an_error_with_a_suggestion(name: str, suggestion: str) -> None:
    handlers = {"create_container": lambda self, pod, container: None} | {name: lambda self, pod, container: None}
    with pytest.raises(TypeError, match=rf"Wrong\.{name} is not an NRI event; did you mean {suggestion}\?"):
        type("Wrong", (nri.Plugin,), handlers)


@pytest.mark.parametrize(
    "name",
    [
        "_create_containr",
        "close",
        "helper",
        "container_zone",
        "remove",
        "lookup_pod",
        "validate",
        "sync",
        "pod_of",
        "on_change",
        "handle",
        "pre_check",
        "do_it",
        "event",
        "_stop_pod",
        "containers",
        "run",
        "start",
        "update",
    ],
)
def test_methods_with_other_names_are_accepted(name: str) -> None:
    plugin_class = type("Right", (nri.Plugin,), {name: lambda self: None})
    assert plugin_class.name == "right"


def test_a_handler_with_the_wrong_arguments_is_an_error() -> None:
    with pytest.raises(
        TypeError, match=r"Wrong\.create_container is called with \(pod, container\), but takes \(container\)"
    ):

        class Wrong(nri.Plugin):
            def create_container(self, container): ...


def test_a_handler_without_self_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"takes \(container\); its first parameter must be self"):
        type("Wrong", (nri.Plugin,), {"create_container": lambda pod, container: None})


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("create_container", ("container", "pod")),
        ("start_container", ("_container", "_pod")),
        ("update_container", ("pod", "resources", "container")),
        ("update_pod_sandbox", ("pod", "resources", "overhead")),
        ("synchronize", ("containers", "pods")),
    ],
)
def test_arguments_in_the_wrong_order_are_an_error(name: str, takes: tuple[str, ...]) -> None:
    handler = eval(f"lambda self, {', '.join(takes)}: None")
    with pytest.raises(TypeError, match=rf"Wrong\.{name} is called with \(.*\), but takes \({', '.join(takes)}\)"):
        type("Wrong", (nri.Plugin,), {name: handler})


@pytest.mark.parametrize(("name", "hint"), [("config", "did you mean configure"), ("state", "rename it")])
def test_a_method_that_hides_an_attribute_of_plugin_is_an_error(name: str, hint: str) -> None:
    with pytest.raises(
        TypeError, match=rf"Wrong\.{name} is a method, which hides the plugin's attribute self\.{name}; {hint}"
    ):
        type("Wrong", (nri.Plugin,), {name: lambda self: None})


def test_a_handler_with_a_required_keyword_is_an_error() -> None:
    with pytest.raises(TypeError, match="is called with"):

        class Wrong(nri.Plugin):
            def create_container(self, pod, container, *, zone): ...


def test_a_handler_can_have_defaults_and_variable_arguments() -> None:
    class Right(nri.Plugin):
        def create_container(self, *args, **kwargs): ...

        def start_container(self, pod, container, zone="a"): ...

    assert Right.name == "right"


def test_a_handler_that_is_not_a_method_is_an_error() -> None:
    with pytest.raises(TypeError, match="must be a method"):
        type("Wrong", (nri.Plugin,), {"create_container": 5})


def _generator(self, pod, container):
    yield nri.Adjustment()


async def _async_generator(self, pod, container):
    yield nri.Adjustment()


@pytest.mark.parametrize("handler", [_generator, _async_generator])
def test_a_handler_that_yields_is_an_error_with_advice(handler: object) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.create_container contains yield.*: return the answer instead"):
        type("Wrong", (nri.Plugin,), {"create_container": handler})


class Inner:
    depth: int = 1.5  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (str, 5, "Config.x is 5, not of type str"),
        ("int", "5", "Config.x is '5', not of type int"),
        (int, True, "Config.x is True, not of type int"),
        (float, "1.5", "Config.x is '1.5', not of type float"),
        (bool, "yes", "Config.x is 'yes', not of type bool"),
        (list[str], ("a",), r"Config.x is \('a',\), not of type list\[str\]"),
        ("dict[str, int]", [], r"Config.x is \[\], not of type dict\[str, int\]"),
        (int | None, "", r"Config.x is '', not of type int \| None"),
        ("str", None, r"Config.x is None, not of type str; write str \| None"),
        (Inner, ..., r"Config.x.depth is 1.5, not of type int"),
    ],
)
def test_a_default_of_another_type_than_its_annotation_is_an_error(annotation, value: object, text: str) -> None:
    config = {"__annotations__": {"x": annotation}} | ({} if value is ... else {"x": value})
    for kind in (type("Config", (), config), type("Config", (type("Base", (), config),), {})):
        with pytest.raises(TypeError, match=rf"^the default of Wrong\.{text}$"):
            type("Wrong", (nri.Plugin,), {"Config": kind})


@pytest.mark.parametrize("default", [5, "five"])
def test_a_recursive_config_class_is_checked_once(default: object) -> None:
    kind = type("Config", (), {"__annotations__": {"x": int}, "x": default})
    between = type("Between", (), {"__annotations__": {"inside": kind}})
    kind.__annotations__ |= {"child": kind, "between": between}
    if default == 5:
        assert issubclass(type("Right", (nri.Plugin,), {"Config": kind}), nri.Plugin)
    else:
        with pytest.raises(TypeError, match=r"^the default of Wrong\.Config\.x is 'five', not of type int$"):
            type("Wrong", (nri.Plugin,), {"Config": kind})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, 1),
        ("str | None", None),
        (int | None, 5),
        (list, []),
        ("list[str] | None", ["a"]),
        ("Literal['a', 'b']", "a"),
        ("Path", "/etc"),
        ("dict[str, str | int]", {}),
        (int, property(lambda self: 5)),
    ],
)
def test_valid_defaults_and_defaults_of_unknown_types_are_accepted(annotation, value: object) -> None:
    config = type("Config", (), {"__annotations__": {"x": annotation, "_own": "int"}, "x": value, "_own": "any"})
    assert type("Right", (nri.Plugin,), {"Config": config}).Config is config


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("PodName", "pod-name"),
        ("HTTPInjector", "http-injector"),
        ("Pin", "pin"),
        ("My_Plugin", "my-plugin"),
        ("A2B", "a2-b"),
    ],
)
def test_the_name_is_the_class_name_in_kebab_case(class_name: str, name: str) -> None:
    assert kebab_case(class_name) == name


def test_a_method_with_every_can_have_any_name() -> None:
    class Right(nri.Plugin):
        @nri.every(30)
        def stop_pod(self): ...

    assert Right.name == "right"


def _yields(self):
    yield 1


@pytest.mark.parametrize(
    ("name", "method", "text"),
    [
        ("tick", lambda self, pods: None, "but it requires pods; self.state has the pods"),
        ("_tick", lambda self, pods, more=1: None, "but it requires pods"),
        ("tick", lambda self, *, deep: None, "but it requires keywords"),
        ("tick", staticmethod(lambda pods: None), "but it requires pods"),
        ("tick", _yields, "but it contains yield"),
        ("create_container", lambda self, pod, container: None, "but it handles an event: mark another method"),
        ("closed", lambda self: None, "but it handles an event: mark another method"),
    ],
)
def test_background_work_with_required_arguments_is_an_error(name: str, method: Any, text: str) -> None:
    nri.every(30)(getattr(method, "__func__", method))
    with pytest.raises(TypeError, match=rf"Wrong\.{name} is marked with nri\.every.*{text}"):
        type("Wrong", (nri.Plugin,), {name: method})


def test_background_work_with_defaults_is_accepted() -> None:
    class Right(nri.Plugin):
        @nri.every(30)
        def tick(self, depth: int = 1, *, deep: bool = False) -> None: ...

        @nri.every(30)
        @staticmethod
        def tock() -> None: ...

        @nri.every(30)
        @classmethod
        def chime(cls) -> None: ...


@pytest.mark.parametrize("name", ["configure", "closed", "shutdown", "helper", "_helper"])
def test_a_pod_filter_on_a_method_without_a_pod_is_an_error(name: str) -> None:
    with pytest.raises(TypeError, match=rf"Wrong\.{name} is marked with nri\.when, which filters pods"):
        type("Wrong", (nri.Plugin,), {name: nri.when(labels="app")(lambda self: None)})


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("config_format", "ini", ValueError, "one of auto, json, yaml, toml, not 'ini'"),
        ("config_format", None, TypeError, "one of auto, json, yaml, toml, not None"),
        ("failure_policy", {"fail_request": True}, TypeError, "an nri.FailurePolicy or None, not "),
        ("log_file", 5, TypeError, "the path of a file or None, not 5"),
        ("log_file", "", ValueError, "the path of a file or None, not ''"),
        ("mirror", "yes", TypeError, "True or False, not 'yes'"),
        ("mirror", 1, TypeError, "True or False, not 1"),
        ("mirror", None, TypeError, "True or False, not None"),
        ("Config", {"cpus": "0-3"}, TypeError, "a class with annotations or None, not "),
        ("name", 5, TypeError, "a str, not 5"),
    ],
)
def test_an_invalid_class_attribute_is_an_error(name: str, value, error, text: str) -> None:
    with pytest.raises(error, match=rf"Wrong\.{name} must be .*{text}"):
        type("Wrong", (nri.Plugin,), {name: value})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("10-x", "begins with an index: write name = 'x' and start the plugin with --idx 10"),
        ("", "must not be empty: leave it out for the default, wrong"),
        ("a b", "contains invalid character ' '"),
        ("a/b", "contains invalid character '/'"),
    ],
)
def test_a_name_that_registration_refuses_or_with_an_index_is_an_error(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=rf"Wrong\.name.*{text}"):
        type("Wrong", (nri.Plugin,), {"name": name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log", logging.getLogger("x")),
        ("log", property(lambda self: 5)),
        ("runtime", "containerd"),
        ("runtime", None),
        ("state", {}),
        ("deadline", 5),
        ("time_left", 5),
        ("config_source", "x"),
    ],
)
def test_an_attribute_that_hides_what_a_plugin_finds_in_self_is_an_error(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"P\.{name} is .*, which hides .* self\.{name}: rename it"):
        type("P", (nri.Plugin,), {name: value})


def test_a_value_of_config_that_each_connection_overwrites_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"P\.config is \{'a': 1\}, but each connection overwrites it: rename it"):
        type("P", (nri.Plugin,), {"config": {"a": 1}})


def test_the_default_of_a_config_that_is_a_typed_dict_is_a_dict() -> None:
    class Config(TypedDict):
        level: int

    assert type("P", (nri.Plugin,), {"Config": Config, "config": {"level": 1}})
    with pytest.raises(TypeError, match=r"P\.config is 5, but each connection overwrites it"):
        type("P", (nri.Plugin,), {"Config": Config, "config": 5})


class WithoutAnnotation:
    level = 5


class PartlyAnnotated:
    mode: str = "a"
    level = 5


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (WithoutAnnotation, r"has no annotations, so no configuration can set a field: write for example"),
        (type("Config", (), {}), r"has no annotations, .*, or leave Config out"),
        (int, r"has no annotations"),
        (PartlyAnnotated, r"\.level has no annotation, so no configuration can set it: write level: int = 5"),
    ],
)
def test_a_field_of_config_that_no_configuration_can_set_is_an_error(config: type, text: str) -> None:
    with pytest.raises(TypeError, match=rf"P\.Config{text}" if text.startswith(r"\.") else rf"P\.Config {text}"):
        type("P", (nri.Plugin,), {"Config": config})


def test_config_may_have_constants_methods_and_private_attributes() -> None:
    class Right(nri.Plugin):
        class Config:
            LEVELS = (1, 2)
            _cache = None
            level: int = 1

            @property
            def doubled(self) -> int:
                return 2 * self.level

    assert Right.Config is not None


@pytest.mark.parametrize("annotations", [{1: "x"}, {"a": 5}, {"": "x"}])
def test_an_annotation_without_a_meaning_is_an_error(annotations: object) -> None:
    with pytest.raises(TypeError, match=r"P\.annotations has .* both strings, are expected"):
        type("P", (nri.Plugin,), {"annotations": annotations})


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("events", ["CreateContainer", "StopContainr"], "a plugin receives the events whose methods it defines"),
        ("events", {"stop_container"}, "a plugin receives the events whose methods it defines"),
        ("events", "CreateContainer", "a plugin receives the events whose methods it defines"),
        ("events", "RunPodSandbox, stop_container", "a plugin receives the events whose methods it defines"),
        ("events", nri.EventMask.of("CreateContainer"), "a plugin receives the events whose methods it defines"),
        ("timeout", 5, "the runtime sets it"),
        ("index", 5, "start it with --idx NN"),
        ("idx", "100", "start it with --idx NN"),
        ("index", "first", "start it with --idx NN"),
        ("idx", "10", "start it with --idx NN"),
    ],
)
def test_unused_events_and_index_attributes_are_an_error(name: str, value: object, advice: str) -> None:
    with pytest.raises(TypeError, match=rf"P.{name} is .*, which nothing reads: {advice}"):
        type("P", (nri.Plugin,), {name: value})


def test_events_and_index_attributes_of_other_types_are_accepted() -> None:
    for actual in ({"events": [], "index": [1000], "idx": None}, {"events": ["oom", 5], "index": (), "idx": {}}):
        plugin_class = type("P", (nri.Plugin,), actual)
        assert {name: getattr(plugin_class, name) for name in actual} == actual


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("miror", "mirror"),
        ("mirrors", "mirror"),
        ("Mirror", "mirror"),
        ("failure_polcy", "failure_policy"),
        ("failurepolicy", "failure_policy"),
        ("failurePolicy", "failure_policy"),
        ("FailurePolicy", "failure_policy"),
        ("FAILURE_POLICY", "failure_policy"),
        ("failure_policies", "failure_policy"),
        ("policy", "failure_policy"),
        ("set", "sets"),
        ("Sets", "sets"),
        ("config_fromat", "config_format"),
        ("configFormat", "config_format"),
        ("flag", "flags"),
        ("FLAGS", "flags"),
        ("annotation", "annotations"),
        ("anotations", "annotations"),
        ("logfile", "log_file"),
        ("log_fiel", "log_file"),
        ("log_path", "log_file"),
        ("plugin_name", "name"),
        ("names", "name"),
        ("NAME", "name"),
        ("Confg", "Config"),
        ("CONFIG", "Config"),
        ("configuration", "Config"),
        ("createContainers", "create_container"),
        ("stop_containr", "stop_container"),
    ],
)
@pytest.mark.parametrize("value", [True, "text", type("Inner", (), {}), functools.partial(print), property(str)])
def test_an_unused_attribute_with_a_nearly_right_name_is_an_error(name: str, nearest: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"P\.{name} has no effect: nothing reads it; did you mean {nearest}\?"):
        type("P", (nri.Plugin,), {name: value, "create_container": lambda self, pod, container: None})


def test_a_class_named_config_in_lower_case_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"P\.config is a class, .*; did you mean Config\?"):
        type("P", (nri.Plugin,), {"config": type("config", (), {"__annotations__": {"a": int}})})


@pytest.mark.parametrize(
    "name", ["zone", "labels", "level", "Mode", "cache", "nets", "same", "_miror", "log_level", "config_file"]
)
def test_attributes_with_other_names_are_accepted(name: str) -> None:
    assert getattr(type("P", (nri.Plugin,), {name: "text"}), name) == "text"


class Reader(nri.Plugin):
    """Reads its attributes in each way in which a class can, and overrides one that it does not read again."""

    names = ("a", "b")
    annotation = "example.com/zone"
    flag = "x"
    logfile = "/tmp/x"
    plugin_name = "y"
    timeout = 5

    @property
    def _first(self) -> str:
        return self.names[0]

    @classmethod
    def _key(cls) -> str:
        return cls.annotation

    @functools.cached_property
    def _flag(self) -> str:
        return getattr(self, "flag")  # noqa: B009

    def create_container(self, pod, container):
        return [open(file) for file in (self.logfile, self.plugin_name, self.timeout)] and None


def test_an_attribute_that_a_method_reads_is_accepted() -> None:
    class Further(Reader):
        names = ("c",)

    assert Further.names == ("c",)


def test_all_valid_class_attributes_are_accepted() -> None:
    class Right(nri.Plugin):
        config_format = "toml"
        failure_policy = nri.FailurePolicy(fail_request=True)
        log_file = "/dev/null"
        mirror = True
        name = "x10-y"

        class Config:
            level: int = 1

    class Other(Right):
        failure_policy = None
        log_file = None
        Config = None

        @property
        def config_format(self) -> str:
            return "json"

    assert (Right.name, Other().config_format) == ("x10-y", "json")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"x": ("y", "Y", "sets y")}, r"P.flags\['x'\] sets 'y', which is not a field of P.Config"),
        ({"x": "y"}, r"P.flags\['x'\] is 'y': a Flag\(field, value_name, help\) is expected"),
        ([], r"P.flags must be a dict of flags by name"),
    ],
)
def test_a_flag_for_an_unknown_key_is_an_error(flags: object, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        type("P", (nri.Plugin,), {"flags": flags, "Config": type("Config", (), {"__annotations__": {"z": str}})})
