"""The default validator next to the reference's: same configuration, pod and adjustments, same messages."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

import nri
from nri.adaptation import ValidatorConfig
from nri.api import messages as m
from nri.errors import NriError
from nri.testing import FakeRuntime
from tests.peers.drivers import GoPlugin, GoRuntime, PeerError

HOOKS = {"hooks": {"prestart": [{"path": "/bin/true"}]}}
SECCOMP = {"linux": {"seccomp_policy": {"default_action": "SCMP_ACT_ALLOW"}}}
NAMESPACE = {"linux": {"namespaces": [{"type": "ipc", "path": "/proc/1/ns/ipc"}]}}
SYSCTL = {"linux": {"sysctl": {"net.core.somaxconn": "9"}}}
NOTHING: dict[str, Any] = {"env": [{"key": "A", "value": "1"}]}
TOLERATE = "tolerate.example.com"
REQUIRED = "required-plugins.noderesource.dev"

#: configuration, adjustments of the plugins 10-p, 20-p, ..., annotations of the pod, seccomp profile of the container
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, str], str]] = {
    "no rule": ({}, [HOOKS, SECCOMP, NAMESPACE, SYSCTL], {}, ""),
    "hooks of one": ({"rejectOCIHookAdjustment": True}, [HOOKS], {}, ""),
    "hooks of two": ({"rejectOCIHookAdjustment": True}, [HOOKS, HOOKS], {}, ""),
    "no hooks": ({"rejectOCIHookAdjustment": True}, [NOTHING], {}, ""),
    "seccomp where no profile was asked for": ({"rejectUnconfinedSeccompAdjustment": True}, [SECCOMP], {}, ""),
    "seccomp where unconfined was asked": ({"rejectUnconfinedSeccompAdjustment": True}, [SECCOMP], {}, "UNCONFINED"),
    "seccomp where the default was asked for": (
        {"rejectRuntimeDefaultSeccompAdjustment": True}, [SECCOMP], {}, "RUNTIME_DEFAULT"),
    "seccomp where a local one was asked for": ({"rejectCustomSeccompAdjustment": True}, [SECCOMP], {}, "LOCALHOST"),
    "seccomp under a rule for others": ({"rejectCustomSeccompAdjustment": True}, [SECCOMP], {}, "RUNTIME_DEFAULT"),
    "a namespace": ({"rejectNamespaceAdjustment": True}, [NAMESPACE], {}, ""),
    "a sysctl": ({"rejectSysctlAdjustment": True}, [NOTHING, SYSCTL], {}, ""),
    "a required plugin that is missing": ({"requiredPlugins": ["absent"]}, [NOTHING], {}, ""),
    "two required plugins that are missing": ({"requiredPlugins": ["absent", "p", "30-p"]}, [NOTHING], {}, ""),
    "a required plugin that is there": ({"requiredPlugins": ["p", "10-p"]}, [NOTHING], {}, ""),
    "an annotated list": ({}, [NOTHING], {REQUIRED: "[x, 'y']"}, ""),
    "a list for another container": ({}, [NOTHING], {REQUIRED + "/container.other": "[x]"}, ""),
    "a toleration": (
        {"requiredPlugins": ["absent"], "tolerateMissingPluginsAnnotation": TOLERATE}, [NOTHING], {TOLERATE: "T"}, ""),
    "a toleration of no": (
        {"requiredPlugins": ["absent"], "tolerateMissingPluginsAnnotation": TOLERATE}, [NOTHING], {TOLERATE: "0"}, ""),
    "a toleration that is not a boolean": (
        {"tolerateMissingPluginsAnnotation": TOLERATE}, [NOTHING], {TOLERATE + "/pod": 'so "so"'}, ""),
    "the order of checks": (
        {"rejectSysctlAdjustment": True, "requiredPlugins": ["absent"], "rejectNamespaceAdjustment": True},
        [NAMESPACE, SYSCTL], {}, ""),
}  # fmt: skip


class Scripted(nri.Plugin):
    name = "p"

    def __init__(self, adjust: dict[str, Any]) -> None:
        self.adjust = json_format.ParseDict(adjust, m.ContainerAdjustment())

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> nri.Adjustment:
        return nri.Adjustment.of(self.adjust)


def messages(annotations: dict[str, str], profile: str) -> tuple[dict[str, Any], dict[str, Any]]:
    pod = {"id": "pod0", "name": "p0", "namespace": "default", "annotations": annotations}
    container: dict[str, Any] = {"id": "ctr0", "pod_sandbox_id": "pod0", "name": "c0"}
    if profile:
        container["linux"] = {"seccomp_profile": {"profile_type": profile}}
    return pod, container


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-") as name:
        yield Path(name)


def reference(folder: Path, case: str) -> str:
    """The error of the reference, "" for none."""
    config, adjustments, annotations, profile = CASES[case]
    pod, container = messages(annotations, profile)
    socket = str(folder / "nri.sock")
    with GoRuntime() as runtime, contextlib.ExitStack() as plugins:
        runtime.start(socket, validator={"enable": True, **config})
        for place, adjust in enumerate(adjustments, 1):
            on = {"CreateContainer": {"adjust": adjust}}
            plugins.enter_context(GoPlugin(socket, name="p", idx=f"{place}0", on=on))
        runtime.wait_plugins(len(adjustments) + 1)
        try:
            runtime.event("CreateContainer", pod, container)
        except PeerError as error:
            return str(error.line["error"])
    return ""


def our_error(case: str) -> str:
    """Our error, "" for none."""
    config, adjustments, annotations, profile = CASES[case]
    pod, container = messages(annotations, profile)
    validator = ValidatorConfig.from_dict({"enable": True, **config})
    with FakeRuntime(compat="reference", default_validator=validator) as runtime:
        for place, adjust in enumerate(adjustments, 1):
            runtime.add(Scripted(adjust), idx=f"{place}0")
        try:
            runtime.create_container(
                json_format.ParseDict(pod, m.PodSandbox()), json_format.ParseDict(container, m.Container())
            )
        except NriError as error:
            return error.whole_text
    return ""


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_equals_the_references_word_for_word(case: str, folder: Path) -> None:
    assert our_error(case) == reference(folder, case)
