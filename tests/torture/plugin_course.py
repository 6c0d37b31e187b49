"""The course of one hostile runtime: a plugin program, a good connection, the hostile one, and a good one again.

The plugin is a program of its own, as people write them. It must never run a handler before Configure, keep its memory
within bounds, log little and nothing raw, and serve the runtime that comes after.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.plugin_program import Listener, plugin_file, plugin_program
from tests.torture.holdings import status_of
from tests.torture.judge import LINE_BYTES, RAW
from tests.torture.runtimes import RuntimeAttack, works

#: Says of each handler whether it ran after Configure; asks for an update in one of them.
MORE = """
    class Config:
        cpus: str = "0"

    configured = False

    def configure(self):
        type(self).configured = True

    def post_start_container(self, pod, container):
        if not self.configured:
            print("HANDLER BEFORE CONFIGURE", file=sys.stderr, flush=True)
        try:
            self.runtime.update(nri.Update(container.id).set_cpu_shares(512))
        except nri.NriError:
            pass  # too many wait already

    def synchronize(self, pods, containers):
        if not self.configured:
            print("HANDLER BEFORE CONFIGURE", file=sys.stderr, flush=True)

    def closed(self):
        type(self).configured = False
"""
#: What the plugin may use at all: one that takes more fails the attack, and not the machine.
ADDRESS_SPACE = 6 << 30
#: How long the plugin may take to find the next runtime: its delays are random, up to 4 s after two short connections.
PATIENCE_S = 40.0


@dataclass
class PluginOutcome:
    """What was counted.

    Attributes:
        wrong: what did not hold.
        memory_mib: how much the plugin's memory grew, at its peak.
        log_lines: what it printed.
        seconds: from the attack's beginning until the plugin served the next runtime.
    """

    attack: RuntimeAttack
    wrong: list[str] = field(default_factory=list)
    memory_mib: float = 0.0
    log_lines: int = 0
    seconds: float = 0.0


def run(attack: RuntimeAttack) -> PluginOutcome:
    """Run one hostile runtime."""
    outcome = PluginOutcome(attack)
    with tempfile.TemporaryDirectory(prefix="nri-t-") as name:
        folder = Path(name)
        file = plugin_file(folder, MORE)
        with (
            Listener(folder / "nri.sock") as listener,
            plugin_program(folder, file, "--idx", "10", "--socket-path", folder / "nri.sock") as program,
        ):
            pid = program.process.pid
            resource.prlimit(pid, resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
            good = listener.accept()
            good.begin()
            assert works(good), "the plugin does not work to begin with"
            good.close()
            hostile = listener.accept()
            before = status_of(pid, "VmRSS")
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
            Path(f"/proc/{pid}/clear_refs").write_text("5")
            began = time.monotonic()
            try:
                attack.run(hostile)
                if attack.stays:
                    assert works(hostile), "it does not serve on the same connection"
            except (AssertionError, EOFError, OSError) as error:
                outcome.wrong.append(f"{type(error).__name__}: {error}")
            with suppress(OSError):
                hostile.close()
            if attack.exits is not None:
                with suppress(AssertionError):  # it does not end
                    program.exit_code()
                if program.process.poll() != attack.exits:
                    outcome.wrong.append(f"its exit code is {program.process.poll()}, not {attack.exits}")
            else:
                outcome.memory_mib = (status_of(pid, "VmHWM") - before) / 1024
                _recovers(listener, outcome)
                after = len(os.listdir(f"/proc/{pid}/fd")) if program.process.poll() is None else 0
                if after > descriptors + 1:
                    outcome.wrong.append(f"{after - descriptors} descriptors are left over")
            outcome.seconds = time.monotonic() - began
            _judge(outcome, program.output.read_bytes())
    return outcome


def _recovers(listener: Listener, outcome: PluginOutcome) -> None:
    listener.sock.settimeout(PATIENCE_S)
    try:
        good = listener.accept()
        good.begin()
        if not works(good):
            outcome.wrong.append("it does not serve the next runtime")
        good.close()
    except (AssertionError, EOFError, OSError) as error:
        outcome.wrong.append(f"it does not come back: {type(error).__name__}: {error}")


def _judge(outcome: PluginOutcome, output: bytes) -> None:
    attack, wrong = outcome.attack, outcome.wrong
    outcome.log_lines = output.count(b"\n")
    if b"HANDLER BEFORE CONFIGURE" in output:
        wrong.append("a handler ran before Configure")
    if b"Traceback" in output:
        wrong.append("there is a traceback: " + output[output.index(b"Traceback") :][-400:].decode(errors="replace"))
    if outcome.memory_mib > attack.memory_mib:
        wrong.append(f"memory grew by {outcome.memory_mib:.0f} MiB, at most {attack.memory_mib} are allowed")
    if outcome.log_lines > attack.log_lines:
        wrong.append(f"{outcome.log_lines} lines were printed, at most {attack.log_lines} are allowed")
    if max(map(len, output.splitlines()), default=0) > LINE_BYTES:
        wrong.append(f"a line has {max(map(len, output.splitlines()))} bytes")
    raw = RAW.search(output.decode(errors="replace"))
    if raw is not None:
        wrong.append(f"the raw character {raw[0]!r} is printed")
