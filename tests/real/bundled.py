"""Bundled plugins on real containers: how each is run, what pods ask of it, and where the effect is read back.

:func:`measure` returns the outcome of each row of :data:`CASES` on one runtime and OCI runtime. Plugins are separate
programs. One container has all annotations that cannot refuse it; each of the others has its own container. The
expected outcomes are in bundled_matrix.py. test_bundled_plugins.py here and in tests/engine implement :class:`Side`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from nri.conformance.fields import View
from nri.plugins.memory_policy import plugin as memory_policy
from nri.plugins.memory_policy.plugin import INJECTED
from tests.real.bundled_cases import (
    BACK,
    BAD,
    CASES,
    CPUS,
    EFFECTIVE,
    GONE,
    HOOKED,
    IGNORED,
    NETDEVICE,
    NOT_DELEGATED,
    PLACED,
    PLACING,
    STATES,
    WATCHED,
    WATCHED_ANNOTATIONS,
    WRITABLE,
    Case,
    state_file,
)
from tests.support.needs import need
from tests.support.networks import host_device, ip
from tests.support.plugin_program import PluginProgram
from tools.runtimes.images import BUSYBOX
from tools.runtimes.machine import PATIENCE

#: A host whose cgroup v2 has `nsdelegate`.
DELEGATING = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


#: The container that has all cases that cannot refuse it.
SHARED = "app"
#: The plugin's own words where the runtime has no event for it; it ends with them.
NO_EVENT = "knows none of the events"


class Refused(Exception):
    """The runtime's answer to a pod or container that it does not make."""


class Side(Protocol):
    """A runtime with the plugins. Errors of pods and containers are `Refused`."""

    def pod(self, name: str, annotations: Mapping[str, str], handler: str) -> Any:
        """A pod that runs, with its own network."""

    def container(self, pod: Any, name: str, annotations: Mapping[str, str]) -> View:
        """A container of it that runs."""

    def stop(self, pod: Any) -> None: ...
    def remove(self, pod: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Program:
    """A plugin as it is run here: index, name, flags; `{folder}` is the test's, `called` the names at the runtime."""

    index: str
    plugin: str
    flags: tuple[str, ...] = ()
    called: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.called or (f"{self.index}-{self.plugin}",)

    def start(self, folder: Path, socket: Path) -> PluginProgram:
        """Start the plugin; its output is in a separate folder."""
        actual = folder / self.names[0]
        actual.mkdir()
        flags = [flag.replace("{folder}", str(folder)) for flag in self.flags]
        index = ["-idx", self.index] if self.index else []
        module = f"nri.plugins.{self.plugin.replace('-', '_')}.plugin"
        env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        return PluginProgram(actual, "-m", module, *index, "-socket", str(socket), *flags, env=env)


PROGRAMS = (
    Program("", "differ", ("-indices", "0,99"), ("00-differ", "99-differ")),
    Program("10", "logger", ("-add-env", "ADDED_BY", "-add-annotation", "added-by", "-events", "pod,CreateContainer")),
    Program("20", "device-injector"),
    Program("21", "ulimit-adjuster"),
    Program("22", "rdt"),
    Program("23", "writable-cgroups"),
    Program("24", "writable-cgroups", ("-host-mount-file", "{folder}/delegating")),
    Program("25", "hook-injector", ("-hooks-dirs={folder}/hooks.d",)),
    Program("26", "network-device-injector"),
    Program("27", "network-logger"),
    Program("28", "template"),
    Program("30", "memory-qos", ("-config", "{folder}/memory-qos.json")),
    Program("31", "memtierd", ("-config", "{folder}/memtierd.json", "-run-dir", "{folder}/memtierd")),
    Program("32", "sgx-epc"),
    Program("33", "resctrl-mon"),
    Program("34", "memory-policy", ("-config", "{folder}/memory-policy.json", "-mpolset", "{folder}/bin/mpolset")),
    Program("90", "default-validator"),
)
"""All plugins that run at once with one runtime; v010-adapter has a separate test."""
POLICIES = {name: (Program("90", name, ("-config", f"{{folder}}/{name}.json")),) for name in PLACING}
"""The placement policies. Each runs with the plugins above."""


def write_hook(folder: Path, stage: str, when: object) -> Path:
    """Write a hook that stores the state that it gets; returns the path, next to the folder of hooks."""
    state = state_file(folder.parent, stage)
    program = {"path": "/bin/sh", "args": ["sh", "-c", f"cat > {state}.new && mv {state}.new {state}"]}
    tree = {"version": "1.0.0", "hook": program, "when": when, "stages": [stage]}
    (folder / f"{stage}.json").write_text(json.dumps(tree))
    return state


def prepare(folder: Path) -> None:
    """What the plugins' flags name."""
    (folder / "hello").write_text("hello")
    (folder / "delegating").write_text(DELEGATING)
    (folder / "bin").mkdir()
    source = Path(memory_policy.__file__).with_name("mpolset.c")
    subprocess.run(["cc", "-O2", "-static", "-o", folder / "bin/mpolset", source], check=True)
    memtierd = folder / "bin/memtierd"
    memtierd.write_text("#!/bin/sh\nwhile sleep 1; do :; done\n")
    memtierd.chmod(0o755)
    classes: dict[str, dict[str, Any]] = {
        "memory-qos": {"unifiedannotations": ["memory.high"]},
        "memtierd": {"classes": [{"name": "idle", "memtierdconfig": "$CGROUP2_ABS_PATH"}]},
        "memory-policy": {"injectMpolset": True},
    }
    for name, config in PLACING.items():
        calm = {"name": "calm", "policy": "batch", "nice": 5}
        classes[name] = {**config, "schedulingClasses": [calm], "stateDir": str(folder / "placement")}
    for name, config in classes.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    (folder / "hooks.d").mkdir()
    for stage in STATES:
        write_hook(folder / "hooks.d", stage, {"annotations": {f"^{key}$": value for key, value in HOOKED.items()}})


@contextmanager
def programs(
    folder: Path, socket: Path, connected: Callable[[str], bool], which: Iterable[Program] = PROGRAMS
) -> Iterator[dict[str, PluginProgram]]:
    """Run plugins with a runtime until the end of the `with`; by the names that they have at the runtime."""
    with ExitStack() as stack:
        if not Path(INJECTED).exists():
            stack.callback(shutil.rmtree, INJECTED, ignore_errors=True)
        started = {}
        for program in which:
            running = program.start(folder, socket)
            stack.callback(_stop, running)
            started.update(dict.fromkeys(program.names, running))
        for name, running in started.items():
            _wait_settled(name, running, connected)
        yield started


def _stop(running: PluginProgram) -> None:
    if running.process.poll() is None:
        assert running.stop() == 0, running.text()


def _wait_settled(name: str, running: PluginProgram, connected: Callable[[str], bool]) -> None:
    """Wait until it is connected, or has ended by itself."""
    deadline = time.monotonic() + 30 * PATIENCE
    while not connected(name) and running.process.poll() is None:
        assert time.monotonic() < deadline, f"{name} has not connected: {running.text()}"
        time.sleep(0.02)


def _scoped(key: str, container: str) -> str:
    """The key of an annotation for one container of the pod, or, for "", for all."""
    return key + container if key.endswith("/") or not container else f"{key}/container.{container}"


def _annotations(folder: Path, device: str, cases: Mapping[str, Case] = CASES) -> dict[str, str]:
    """Those of a pod that asks for every case, each for its own container."""
    texts = {"FOLDER": str(folder), "SPARE": f"{device}s", "MOVED": device}
    results = {}
    for name, case in cases.items():
        container = "" if case.of_pod else name if case.alone or name in PLACED else SHARED
        for key, value in case.annotations.items():
            results[_scoped(key, container)] = re.sub("|".join(texts), lambda match: texts[match[0]], value)
    return results


def plain(side: Side, handler: str) -> dict[str, str]:
    """Every case as it reads in a container that nobody adjusts: before the plugins are there."""
    pod = side.pod("plain", {}, handler)
    view = side.container(pod, SHARED, {})
    results = {name: case.read(view) for name, case in {**CASES, **PLACED}.items()}
    side.remove(pod)
    return results


def ended(running: Mapping[str, PluginProgram]) -> set[str]:
    """The plugins that have ended for want of an event; one that ended for another reason fails the test."""
    results = {name: program.text() for name, program in running.items() if program.process.poll() is not None}
    assert all(NO_EVENT in text for text in results.values()), results
    return {name.partition("-")[2] for name in results}


def measure(side: Side, handler: str, folder: Path, before: Mapping[str, str]) -> dict[str, str]:
    """What becomes of every case: effective, ignored, refused with a text, or what else was read back.

    `before` is what `plain` found.
    """
    device = f"nri{os.getpid()}{handler[-2:]}"
    with host_device(device), host_device(f"{device}s"):
        pod = side.pod("made", _annotations(folder, device), handler)
        app = side.container(pod, SHARED, HOOKED)
        results = {}
        for name, case in CASES.items():
            make = partial(side.container, pod, name, {}) if case.alone else lambda: app
            results[name] = _outcome(case, before[name], make)
        app.remove()
        kubelet_state = state_file(folder, "poststop")
        assert kubelet_state.exists() and json.loads(kubelet_state.read_text())["id"] == app.id, "the hook of poststop"
        side.stop(pod)
        results[BACK] = _back(device)
        side.remove(pod)
    for stage in STATES:
        state_file(folder, stage).unlink()
    return results


def measure_policy(side: Side, handler: str, folder: Path, before: Mapping[str, str], policy: str) -> dict[str, str]:
    """The same of a policy, whose containers are all there when they are looked at."""
    need(len(CPUS) > 1, "two CPUs")
    cases = {name: case for name, case in PLACED.items() if case.plugin == policy}
    pod = side.pod("placed", _annotations(folder, "", cases), handler)
    views = {name: side.container(pod, name, {}) for name in cases}
    results = {name: _outcome(case, before[name], partial(views.get, name)) for name, case in cases.items()}
    side.remove(pod)
    return results


def _outcome(case: Case, before: str, container: Callable[[], View]) -> str:
    assert before != case.effect, f"{case.plugin}, {case.text}: a plain container has that as well"
    try:
        effect = case.read(container())
    except Refused as error:
        refusal = case.refusal and case.refusal in str(error)
        return EFFECTIVE if refusal else f"refused: {error}"
    return EFFECTIVE if effect == case.effect else IGNORED if effect == before else f"read back {effect!r}"


def _back(device: str) -> str:
    """Whether the device is on the host as it was, down and without the pod's address."""
    if not Path("/sys/class/net", device).exists():
        return GONE
    (link,) = json.loads(ip("-json", "addr", "show", device))
    good = link["mtu"] == 1500 and "UP" not in link["flags"] and "ifalias" not in link and not link["addr_info"]
    return EFFECTIVE if good else f"read back {link}"


def not_refused(side: Side) -> dict[str, str]:
    """The bad annotations that do not refuse their container by name: what comes instead."""
    wrong = {}
    keys = [_scoped(key, f"bad-{number}") for number, (key, _, _) in enumerate(BAD)]
    pod = side.pod("bad", {key: value for key, (_, value, _) in zip(keys, BAD, strict=True)}, "")
    for number, (_, _, text) in enumerate(BAD):
        try:
            side.container(pod, f"bad-{number}", {})
            wrong[keys[number]] = "it runs"
        except Refused as error:
            if f"annotation {keys[number]}: {text}" not in str(error):
                wrong[keys[number]] = str(error)
    side.remove(pod)
    return wrong


def assert_pods_refused(side: Side) -> None:
    """Pods that ask for network devices which they cannot have do not start, and the host keeps those that it has."""
    device = f"nri{os.getpid()}k"
    with host_device(device):
        for value, text in (
            (f"[{{name: {device}}}, {{name: nonesuch}}]", "nonesuch: not found on the host"),
            (f"[{{name: {device}, mtu: x}}]", f"annotation {NETDEVICE}: [0].mtu: 'x' is not a number"),
        ):
            try:
                side.remove(side.pod("refused", {NETDEVICE: value}, ""))
                raise AssertionError(f"{value}: the pod runs")
            except Refused as error:
                assert text.replace("'", '"') in str(error).replace("'", '"').replace("\\", ""), str(error)
            assert Path("/sys/class/net", device).exists()


def assert_policy_enforced(side: Side, folder: Path, run: Callable[[tuple[Program, ...]], Any], *, by: str) -> None:
    """The policy validator refuses what the operator's policy forbids to ulimit-adjuster, until the policy changes.

    Where the runtime has no validation (`by` is ""), the validator ends instead.
    """
    policy = folder / "policy.toml"
    policy.write_text('["21-ulimit-adjuster"]\nallow.fields = ["Env"]\n')
    with run((Program("91", "policy-validator", ("-policy", str(policy))),)) as running:
        if not by:
            assert ended(running) == {"policy-validator"}
            return
        key = _scoped("ulimits.noderesource.dev", "limited")
        pod = side.pod("policed", {key: "[{type: nofile, soft: 900, hard: 1000}]"}, "")
        side.container(pod, "free", {})
        try:
            side.container(pod, "limited", {})
            raise AssertionError("a container with a forbidden change runs")
        except Refused as error:
            cause = "plugin 21-ulimit-adjuster: its policy does not allow it to set Rlimits (allow.fields)"
            for text in (f'validator "{by}"', f"/policed/limited: {cause}"):
                assert text in str(error).replace("\\", ""), str(error)
        policy.write_text('["21-ulimit-adjuster"]\nallow.fields = ["Rlimits"]\n')
        assert "1000" in side.container(pod, "limited", {}).exec("/bin/sh", "-c", "ulimit -Hn")
        side.remove(pod)


def image_policy(folder: Path, index: str, **config: Any) -> tuple[Program, ...]:
    """An image policy with this configuration, as the only program."""
    path = folder / f"images-{index}.json"
    path.write_text(json.dumps(config))
    return (Program(index, "image-policy", ("-config", str(path))),)


#: A container that ends with 7 at SIGRTMIN+3; other signals do not end it.
AT_RTMIN_3 = ("sh", "-c", "trap '' TERM; trap 'exit 7' 37; while :; do sleep 0.1; done")


def systemd_container() -> tuple[Program, ...]:
    """The plugin for systemd, as if on a host that delegates control groups."""
    return (Program("44", "systemd-container", ("-host-mount-file", "{folder}/delegating")),)


def assert_prepared_for_systemd(side: Side, run: Callable[[tuple[Program, ...]], Any]) -> None:
    """A container of a pod with the annotation has tmpfs, the variable and a writable control group; others do not."""
    with run(systemd_container()):
        pod = side.pod("systemd", {"systemd.noderesource.dev/container.machine": "true"}, "")
        outputs = {name: side.container(pod, name, {}).exec("/bin/sh", "-c", SYSTEMD) for name in ("machine", "plain")}
        side.remove(pod)
    machine, plain = outputs["machine"].split(), outputs["plain"].split()
    assert machine == ["/run:rw", "/run/lock:rw", "/tmp:rw", "oci", "writable"], outputs
    assert plain[-1] == "read-only" and "oci" not in plain and "/run/lock:rw" not in plain, outputs


#: Prints the tmpfs mounts that systemd requires, its variable, and whether the control group is writable.
SYSTEMD = (
    'for path in /run /run/lock /tmp; do grep -q "^tmpfs $path tmpfs" /proc/mounts && touch $path/x && echo $path:rw;'
    f" done; echo $container; {WRITABLE}"
)


def assert_images_policed(
    side: Side, folder: Path, run: Callable[[tuple[Program, ...]], Any], *, reports_digest: bool
) -> None:
    """The image policy refuses by name and namespace, and by digest where the runtime reports the digest."""
    other = "sha256:" + "0" * 64
    name = {"name": [BUSYBOX], "namespaces": ["default"]}
    shown = f'image "{BUSYBOX}" in namespace "default"'
    unreported = "" if reports_digest else f"{shown}: rule 1 requires its digest, but cri_socket is not configured"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"rules": [{**name, "action": "deny"}]}, f"{shown}: deny by rule 1"),
        ({"rules": [{**name, "action": "allow"}], "default": "deny"}, ""),
        ({"rules": [{"digest": [other], "action": "deny"}], "unknown_image": "deny"}, unreported),
    ]
    for number, (config, cause) in enumerate(cases):
        with run(image_policy(folder, f"4{number}", **config)):
            pod = side.pod(f"images-{number}", {}, "")
            try:
                side.container(pod, "judged", {})
                refusal = ""
            except Refused as error:
                refusal = str(error).replace("\\", "")
            expected = f"container default/images-{number}/judged: " if cause else ""
            assert (expected + cause in refusal) if cause else not refusal, refusal
            side.remove(pod)


def assert_watched(side: Side, running: Mapping[str, PluginProgram], address: Callable[[Any], str]) -> None:
    """The plugins that watch have logged a pod and its container, and writable-cgroups has logged its host."""
    pod = side.pod("watched", WATCHED_ANNOTATIONS, "")
    ips = address(pod)
    side.container(pod, SHARED, {})
    side.remove(pod)
    host = running["23-writable-cgroups"]
    if "are mounted with nsdelegate" not in host.text():
        host.wait_text(NOT_DELEGATED)
    for name, lines in WATCHED.items():
        for line in lines:
            pattern = re.escape(line).replace("ADDRESS", re.escape(ips)).replace("NETWORK", r"/\S+")
            running[name].wait_match(pattern)
