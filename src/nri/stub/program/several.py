"""Several plugins in one process: each its own index, name, connection and thread, and one interpreter for all.

They start together and stop together. A runtime that restarts is waited for by each one, as if it were alone; but what
ends one of them for good ends all, with its name and its exit code, because an orchestrator starts processes again and
not parts of them.

| what happens | what follows |
|---|---|
| SIGTERM or SIGINT | each one answers the request at hand, then all end: 0 or 130 |
| one gives up, as `nri.stub.program.process` has it | `error: NN-name: why`; the others are stopped; its exit code |
| all take part | systemd is notified that it is ready, and `--health-addr` says so, too |

The first plugin runs in the main thread, each other one in a thread of its own; what a plugin has besides when it is
alone, such as a thread that watches its `--config`, it has here, too. Handlers of one plugin run one at a time, those
of different plugins side by side. Next: `nri.stub.program.process` is one of them.
"""

from __future__ import annotations

import signal
import sys
from _thread import allocate_lock
from functools import partial

from nri.api import naming
from nri.errors import ConfigError, describe
from nri.signals import Stop
from nri.stub.handler.coroutines import stop_loop
from nri.stub.program.process import CANNOT_WORK, Program, notify_systemd
from nri.stub.program.reconnect import GiveUp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.interfaces import Reporter
    from nri.stub.base import PluginBase
    from nri.stub.program.options import Options

__all__ = ["Several"]

# How often the main thread looks for a signal once its own plugin has ended and the others have not, in seconds.
_LOOK_UP_S = 4


class Several:
    """Plugins that share a process.

    Args:
        plugins: each with its options; health address, socket and log are those of the first.
        reporter: gets every step of every request told (`nri.interfaces.Reporter`).

    Raises:
        ConfigError: two of them have the same index and name.
    """

    def __init__(self, plugins: Sequence[tuple[PluginBase, Options]], *, reporter: Reporter | None = None) -> None:
        self._stop = Stop(self._stop_all)
        self._lock = allocate_lock()
        self._code: int | None = None
        self._ready: set[str] = set()
        self._programs: list[Program] = []
        for plugin, options in plugins:
            silent = bool(self._programs)
            label = naming.full_name(options.index, options.name)
            notify = partial(self._told, label)
            if label in [program.label for program in self._programs]:
                hint = "give one of them another --idx or --name"
                raise ConfigError("command line", label, "two plugins have this index and name", hint)
            plugin._log_name = label  # its lines are among those of others
            if plugin.log_file and not options.log_file:
                _log_apart(plugin, plugin.log_file)
            self._programs.append(Program(plugin, options, reporter=reporter, silent=silent, notify=notify))

    def run(self) -> int:
        """Run until stopped, or until one gives up; returns the exit code."""
        import threading

        from nri.stub.support import logs

        logs.set_up_as_chosen()  # two threads with a first line at once: one would not find the log made
        self._stop.listen()
        try:
            first, *others = self._programs
            threads = [
                threading.Thread(target=self._serve, args=(program,), name=f"nri-plugin-{program.label}", daemon=True)
                for program in others
            ]
            for thread in threads:
                thread.start()
            self._serve(first)
            for thread in threads:
                while thread.is_alive():
                    thread.join(_LOOK_UP_S)  # not for ever: a signal may have come in the instant before
        finally:
            notify_systemd("STOPPING=1")
            stop_loop()
        return self._stop.exit_code if self._code is None else self._code

    def health(self) -> tuple[bool, str]:
        """Whether all take part and their handlers return, and that in a line for each."""
        found = [(program.label, *program.health()) for program in self._programs]
        return all(ready for _, ready, _ in found), "".join(f"{label}: {text}" for label, _, text in found)

    def measurements(self) -> str:
        """Those of each."""
        return "".join(program.measurements() for program in self._programs)

    def _serve(self, program: Program) -> None:
        """Run one of them to its end, and end the others if it was not asked to end."""
        code, reason = 0, ""
        try:
            program.serve()
        except GiveUp as error:
            code, reason = error.code, error.text
        except ConfigError as error:
            code, reason = 2, str(error)
        except SystemExit as error:  # a handler has called sys.exit()
            code, reason = _exit_code(error), f"it has called sys.exit({error.code!r})"
        except BaseException as error:  # noqa: BLE001 - a defect of ours: shown as Python does, and it ends all
            sys.excepthook(type(error), error, error.__traceback__)
            code, reason = CANNOT_WORK, describe(error)
        if reason:
            self._gave_up(program, code, reason)

    def _gave_up(self, program: Program, code: int, reason: str) -> None:
        """End all because of one; what the others say after that is of no interest."""
        with self._lock:
            if self._code is not None or self._stop:
                return
            self._code = code
        program.give_up(code, f"{program.label}: {reason}")
        for other in self._programs:
            if other is not program:
                other.stop.take(signal.SIGTERM)

    def _stop_all(self) -> None:
        for program in self._programs:
            program.stop.take(self._stop.signal)

    def _told(self, label: str, state: str) -> None:
        """Tell systemd that we are ready when the last one is; that we stop is reported once, at the end."""
        if state == "READY=1":
            self._ready.add(label)
            if len(self._ready) == len(self._programs):
                notify_systemd(state)


def _log_apart(plugin: PluginBase, path: str) -> None:
    """Send one plugin's lines to the file that its class names; a warning if that cannot be."""
    from nri.stub.support import logs

    try:
        logs.send_to_file(plugin.log.logger, path)
    except OSError as error:
        plugin.log.warning("cannot log to %s: %s", path, error.strerror)


def _exit_code(error: SystemExit) -> int:
    """The exit code that Python would end with."""
    return error.code if isinstance(error.code, int) else int(error.code is not None)
