"""The course of one attack on the engine: 20 polite pods, the attack beside them, and everything that was counted.

The engine is a process of its own, with real runtimes. While an attack goes on, each polite pod is visited in turn: a
program is run in it, its state is asked for, and a container comes and goes. An attack leaves nothing behind. Next:
`tests.torture.engine_attacks`, the rows.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import grpc
from google.protobuf.message_factory import GetMessageClass

from nri.cri.pb import api_pb2 as pb
from nri.engine.server.server import MAX_CALLS
from tests.engine.machine import settled
from tests.support.layout_registry import LayoutRegistry
from tests.support.traces import traces
from tests.torture.holdings import status_of
from tools.runtimes.cri import CALL_TIMEOUT_S, Pod
from tools.runtimes.engine import PROGRAM, Engine
from tools.runtimes.machine import PATIENCE

POLITE = 20
#: What an engine may grow by in an attack, in MiB.
MEMORY_MIB = 192
#: Descriptors and threads that may be left over: the pool keeps the threads of calls at a time, gRPC some of its own.
DESCRIPTORS, THREADS = 4, MAX_CALLS + 24
_METHODS = {method.name: method for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods}


@dataclass(frozen=True)
class EngineAttack:
    """One way to hurt an engine.

    Attributes:
        does, happens: for the table.
        run: the attack; gives how many things it has done, and raises AssertionError for what came through.
        short: it is part of the short run, which CI has.
    """

    name: str
    does: str
    happens: str
    run: Callable[[Target], int]
    short: bool = True


@dataclass
class EngineOutcome:
    """Everything that was counted, and what is wrong with it."""

    attack: EngineAttack
    done: int = 0
    visits: int = 0
    worst_s: float = 0.0
    memory_mib: float = 0.0
    log_lines: int = 0
    wrong: list[str] = field(default_factory=list)


class Target:
    """The engine as an attacker has it: its socket, a registry of its own, and a folder."""

    def __init__(self, setting: EngineSetting, folder: Path) -> None:
        self.cri, self.registry, self.folder = setting.engine.cri, setting.registry, folder
        self.pid, self._channel = setting.engine.pid, setting.channel
        self.cri_socket = setting.engine.cri_socket

    def call(self, name: str, **fields: Any) -> Any:
        """The answer to a call of either service. Raises `grpc.RpcError`."""
        method = _METHODS[name]
        invoke = self._channel.unary_unary(
            f"/{method.containing_service.full_name}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        return invoke(GetMessageClass(method.input_type)(**fields), timeout=CALL_TIMEOUT_S)

    def refused(self, name: str, **fields: Any) -> tuple[str, str]:
        """The status and text of a call; ("OK", "") for one that is answered."""
        try:
            self.call(name, **fields)
        except grpc.RpcError as error:
            return error.code().name, error.details() or ""
        return "OK", ""

    def pull(self, name: str) -> str:
        """Bring an image; its id."""
        return str(self.call("PullImage", image=pb.ImageSpec(image=name)).image_ref)

    def forget(self, *names: str) -> None:
        """Remove images again."""
        for name in names:
            self.call("RemoveImage", image=pb.ImageSpec(image=name))


class EngineSetting:
    """An engine with its polite pods, ready for attacks one after the other; ends with the block."""

    def __init__(self, program: Sequence[str] = PROGRAM) -> None:
        self.registry = LayoutRegistry()
        self.engine = Engine(say=lambda _: None, nri=False, program=program)

    def __enter__(self) -> Self:
        self.registry.__enter__()
        engine = self.engine
        registries = f'\n[[images.registries]]\nhost = "{self.registry.host}"\ninsecure = true\n'
        engine.settings.write_text(engine.settings.read_text() + registries)
        try:
            engine.enable_pod_network()
            engine.start()
            options = [("grpc.enable_http_proxy", 0), ("grpc.max_metadata_size", 1 << 20),
                       ("grpc.absolute_max_metadata_size", 1 << 20)]  # fmt: skip
            self.channel = grpc.insecure_channel(f"unix://{engine.cri_socket}", options=options)
            self.pods: list[tuple[Pod, str]] = []
            for number in range(POLITE):
                pod = engine.cri.run_pod(f"polite{number}", own_network=number % 4 == 0)
                self.pods.append((pod, engine.cri.run(pod, "main")))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(AttributeError):
            self.channel.close()
        self.engine.close()
        self.registry.__exit__()

    def held(self) -> dict[str, int]:
        """What the engine's process holds now; memory in KiB."""
        pid = self.engine.pid
        return {
            "memory": status_of(pid, "VmRSS"),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": status_of(pid, "Threads"),
        }

    def run(self, attack: EngineAttack) -> EngineOutcome:
        """Run one attack beside the visits of polite pods."""
        outcome = EngineOutcome(attack)
        pid = self.engine.pid
        holder, remainder = self.held(), traces(self.engine.run_dir)
        logged = len(self.engine.log.read_bytes())
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        with Visits(self) as visits, TemporaryDirectory(prefix="nri-t-") as folder:
            try:
                outcome.done = attack.run(Target(self, Path(folder)))
            except (AssertionError, grpc.RpcError, OSError) as error:
                outcome.wrong.append(f"{type(error).__name__}: {error}"[:600])
        outcome.visits, outcome.worst_s = visits.done, visits.worst_s
        outcome.memory_mib = (status_of(pid, "VmHWM") - holder["memory"]) / 1024
        log = self.engine.log.read_bytes()[logged:]
        outcome.log_lines = log.count(b"\n")
        outcome.wrong += [*visits.wrong, *self._judge(outcome, holder, remainder, log)]
        return outcome

    def _judge(self, outcome: EngineOutcome, holder: dict[str, int], remainder: list[str], log: bytes) -> list[str]:
        """What is wrong after the attack; it has a while to be taken away."""
        wrong = [] if outcome.done else ["the attack did nothing"]
        if outcome.visits < POLITE:
            wrong.append(f"only {outcome.visits} of {POLITE} polite pods were visited")
        more = settled(lambda: [trace for trace in traces(self.engine.run_dir) if trace not in remainder])
        wrong += [f"{trace} is left behind" for trace in more[:5]]
        if outcome.memory_mib > MEMORY_MIB:
            wrong.append(f"memory grew by {outcome.memory_mib:.0f} MiB")
        for name, slack in (("descriptors", DESCRIPTORS), ("threads", THREADS)):
            until = time.monotonic() + 10 * PATIENCE
            while (now := self.held()[name]) > holder[name] + slack and time.monotonic() < until:
                time.sleep(0.05)
            if now > holder[name] + slack:
                wrong.append(f"{now - holder[name]} {name} are left over")
        if b"Traceback" in log:
            wrong.append("a traceback: " + log[log.index(b"Traceback") :][-400:].decode(errors="replace"))
        long = max(log.splitlines(), key=len, default=b"")
        if len(long) > 1 << 14:
            wrong.append(f"a line of the log has {len(long)} bytes: {long[:80]!r}")
        return wrong


class Visits:
    """Polite pods visited in turn by a thread, at least each of them once; ends with the block."""

    def __init__(self, setting: EngineSetting) -> None:
        self._setting = setting
        self.done, self.worst_s, self.wrong = 0, 0.0, list[str]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go, name="visits", daemon=True)

    def _go(self) -> None:
        while not self._over.is_set() or self.done < POLITE:
            pod, container = self._setting.pods[self.done % POLITE]
            began = time.monotonic()
            try:
                self._visit(pod, container)
            except (AssertionError, RuntimeError, grpc.RpcError) as error:
                self.wrong.append(f"polite pod {pod.config.metadata.name} is not served: {error}"[:400])
                return
            self.worst_s = max(self.worst_s, time.monotonic() - began)
            self.done += 1

    def _visit(self, pod: Pod, container: str) -> None:
        cri = self._setting.engine.cri
        assert cri.exec(container, "echo", "here") == "here\n"
        status = cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=container)).status
        assert status.state == pb.CONTAINER_RUNNING, status.state
        listed = cri.call("ListContainerStats", pb.ListContainerStatsRequest()).stats
        assert container in {entry.attributes.id for entry in listed}, "it has no stats"
        assert cri.call("ListPodSandboxStats", pb.ListPodSandboxStatsRequest()).stats
        if self.done % 4 == 0:
            guest = cri.run(pod, "guest")
            cri.stop(guest)
            cri.remove(guest)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(CALL_TIMEOUT_S * 2)
        if self._thread.is_alive():
            self.wrong.append("a visit of a polite pod hangs")
