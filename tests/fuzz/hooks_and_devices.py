"""Targets for what bundled plugins read: files of hooks with their patterns, and annotations of network devices."""

from __future__ import annotations

from nri.config import Source
from nri.config.hooks.conditions import ConditionError, Facts
from nri.config.hooks.hook_file import parse_hook
from nri.config.hooks.pattern import Budget, Pattern, TooCostly
from nri.errors import ConfigError, Reject
from nri.plugins.network_device_injector.devices import wanted_devices
from nri.testing import make_pod
from tests.fuzz import inputs
from tests.fuzz.engine import Target

__all__ = ["TARGETS"]

_PROGRAM = {"path": "/bin/sh", "args": ["sh", "-c", "a"], "env": ["A=1"], "timeout": 5}
_WHEN = {"always": True, "annotations": {"^a$": "b|c"}, "commands": ["(^|/)sh$"], "hasBindMounts": True}
_HOOKS = (
    {"version": "1.0.0", "hook": _PROGRAM, "when": _WHEN, "stages": ["prestart", "poststop"]},
    {"hook": "/bin/sh", "arguments": ["a"], "stage": ["prestart"], "cmd": ["^a"], "annotation": ["b"]},
    {"version": "0.1.0", "hook": "/bin/sh", "stages": [], "cmds": ["a"], "annotations": ["b"], "hasbindmounts": True},
)
_HOOK_KEYS = ("version", "hook", "when", "stages", "stage", "arguments", "cmd", "cmds", "annotation", "annotations",
              "hasbindmounts", "Hook", *_PROGRAM, *_WHEN)  # fmt: skip
_PATTERNS = (
    "(a+)+$\naaaaaaaaaaaaaaaaaaaaaaaa!", "(?i)^[[:alpha:]_]{2,30}\\b\\pL|[^\\d\\n-z]*\nab", "\\Qa.b\\E(?P<n>x|)*?\nx",
    "((a?){30}){30}[^b]$\nabab", "(?s:.)(?m)^x$\\x{41}\\101\n\nx",
)  # fmt: skip
_DEVICES = (
    "- {name: eth1, new_name: net1, address: 192.0.2.7, prefix: 24, mtu: 1400}",
    "- name: eth1\n  address: '2001:db8::7'\n- name: eth2",
)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _hook(data: bytes) -> None:
    hook, warnings = parse_hook("a.json", Source("a.json", data.decode(errors="surrogateescape")))
    assert all(str(warning).isprintable() for warning in warnings)
    for args in ([], ["/bin/sh"]):
        try:
            hook.when.match(Facts(args, {"a": "b", "x": ""}, True, Budget()))
        except ConditionError as error:
            assert str(error)


def _pattern(data: bytes) -> None:
    text, _, searched = _text(data).partition("\n")
    compiled = Pattern(text)
    assert compiled.matches(searched, Budget()) == compiled.matches(searched, Budget())


def _devices(data: bytes) -> None:
    devices, _ = wanted_devices(make_pod(annotations={"netdevice.noderesource.dev": _text(data)}))
    for device in devices:
        assert device.new_name and len(device.packed) in (0, 4, 16)
        assert 0 <= device.prefix <= 8 * len(device.packed)


TARGETS = (
    Target("hook-file", inputs.documents(_HOOKS, _HOOK_KEYS), _hook, (ConfigError,)),
    Target("hook-pattern", inputs.texts(_PATTERNS), _pattern, (ValueError, TooCostly), share=0.5),
    Target("network-devices", inputs.texts(_DEVICES), _devices, (Reject,)),
)
