"""Run several plugins in one process, each with its index, name, connection and thread.

Each plugin reconnects separately. If one plugin has to end, all plugins end, because orchestrators restart whole
processes; the error names that plugin, and the process has that plugin's exit code. The process is ready when all
plugins are active.
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
from nri.stub.program.process import BAD_CONFIGURATION, CANNOT_WORK, Program, notify_systemd
from nri.stub.program.reconnect import GiveUp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.interfaces import Reporter
    from nri.stub.base import PluginBase
    from nri.stub.program.options import Options

# Seconds between two checks for signals, while the main thread waits for the plugins in other threads.
_SIGNAL_CHECK_S = 4


class PluginGroup:
    """Plugins that share a process.

    Args:
        plugins: the plugins with their options; the first plugin's health address, socket and log apply to all.
        reporter: called with every step of every request (`nri.interfaces.Reporter`).

    Raises:
        ConfigError: two plugins have the same index and name.
    """

    def __init__(self, plugins: Sequence[tuple[PluginBase, Options]], *, reporter: Reporter | None = None) -> None:
        self._stop = Stop(self._stop_all)
        self._lock = allocate_lock()
        self._code: int | None = None
        self._ready_plugins: set[str] = set()
        self._programs: list[Program] = []
        for plugin, options in plugins:
            is_first = not self._programs  # only the first plugin prints that the process waits for the runtime
            label = naming.full_name(options.index, options.name)
            notify = partial(self._on_notify, label)
            if label in [program.label for program in self._programs]:
                hint = "change --idx or --name of one plugin"
                raise ConfigError("command line", label, "two plugins have this index and name", hint)
            plugin._log_name = label  # to distinguish its log lines from the lines of other plugins
            if plugin.log_file and not options.log_file:
                _send_log_to_file(plugin, plugin.log_file)
            self._programs.append(Program(plugin, options, reporter=reporter, silent=not is_first, notify=notify))

    def run(self) -> int:
        """Run until stopped, or until a plugin gives up. Returns the exit code."""
        import threading

        from nri.stub.support import logs

        logs.set_up_as_chosen()  # before the threads start, because they may log their first lines at once
        self._stop.listen()
        try:
            first, *other_programs = self._programs
            threads = [
                threading.Thread(target=self._serve, args=(program,), name=f"nri-plugin-{program.label}", daemon=True)
                for program in other_programs
            ]
            for thread in threads:
                thread.start()
            self._serve(first)
            for thread in threads:
                while thread.is_alive():
                    thread.join(_SIGNAL_CHECK_S)  # a signal just before `join` does not interrupt it
        finally:
            notify_systemd("STOPPING=1")
            stop_loop()
        return self._stop.exit_code if self._code is None else self._code

    def health(self) -> tuple[bool, str]:
        """Whether all plugins are active and their handlers return, and a line of text for each plugin."""
        states = [(program.label, *program.health()) for program in self._programs]
        return all(ready for _, ready, _ in states), "".join(f"{label}: {text}" for label, _, text in states)

    def measurements(self) -> str:
        """The additional metrics of all plugins, as text."""
        return "".join(program.measurements() for program in self._programs)

    def _serve(self, program: Program) -> None:
        """Run one plugin until it ends. If it ends with an error, end the other plugins, too."""
        code, reason = 0, ""
        try:
            program.serve()
        except GiveUp as error:
            code, reason = error.code, error.text
        except ConfigError as error:
            code, reason = BAD_CONFIGURATION, str(error)
        except SystemExit as error:  # a handler has called sys.exit()
            code, reason = _exit_code(error), f"the plugin has called sys.exit({error.code!r})"
        except BaseException as error:  # noqa: BLE001 - a bug: print its traceback, and end all
            sys.excepthook(type(error), error, error.__traceback__)
            code, reason = CANNOT_WORK, describe(error)
        if reason:
            self._end_all(program, code, reason)

    def _end_all(self, program: Program, code: int, reason: str) -> None:
        """End all plugins because one plugin has ended with an error. Only the first error is reported."""
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

    def _on_notify(self, label: str, state: str) -> None:
        """Notify systemd when the last plugin is ready. The stop is reported once, by `run`."""
        if state == "READY=1":
            self._ready_plugins.add(label)
            if len(self._ready_plugins) == len(self._programs):
                notify_systemd(state)


def _send_log_to_file(plugin: PluginBase, path: str) -> None:
    """Send a plugin's log lines to the file that its class sets. Log a warning if the file cannot be opened."""
    from nri.stub.support import logs

    try:
        logs.send_to_file(plugin.log.logger, path)
    except OSError as error:
        plugin.log.warning("cannot log to %s: %s", path, error.strerror)


def _exit_code(error: SystemExit) -> int:
    """The exit code that Python would use."""
    return error.code if isinstance(error.code, int) else int(error.code is not None)
