"""Send a plugin's log where it belongs, with pod and container on every line. Loaded with the first line.

A program logs to stderr; a pre-installed plugin has neither terminal nor stderr, so it logs to syslog; `log_file` comes
before both. A plugin inside another program (a test, a server) sets up nothing: that program's logging counts. Which
of these holds for this process is chosen at its start (`nri.stub.support.log_destination`).
"""

from __future__ import annotations

import logging
import sys

from nri.stub.support import context, log_destination
from nri.text import escape, json_text, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

__all__ = ["EACH_LINE", "adapter", "send_to_file", "set_up", "set_up_as_chosen"]

#: Extra of a record of many lines, each of which is to be a line of the log with time and name.
EACH_LINE = {"each_line": True}


class _Adapter(logging.LoggerAdapter):  # type: ignore[type-arg]
    """Adds the present pod and container to the text, and as fields for formatters."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        call = context.current.get()
        extra = dict(kwargs.get("extra") or {})
        if call is not None and call.pod is not None:
            extra["pod"] = f"{call.pod.namespace}/{call.pod.name}"
            where = f"pod {plain(extra['pod'], 512)}"
            if call.container is not None and call.container.name:
                extra["container"] = call.container.name
                where += f", container {plain(call.container.name, 512)}"
            msg = f"{msg} [{where.replace('%', '%%')}]"
        kwargs["extra"] = extra
        return msg, kwargs


_adapters: dict[str, _Adapter] = {}


def adapter(name: str) -> logging.LoggerAdapter[logging.Logger]:
    """The log of the plugin `name`: logger `nri.plugin.<name>`. The first one that is asked for makes the log."""
    set_up_as_chosen()
    found = _adapters.get(name)
    if found is None:
        found = _adapters[name] = _Adapter(logging.getLogger(f"nri.plugin.{name}"), {})
    return found


#: Loggers with a file of their own: name -> path, and what writes to it.
_own_files: dict[str, tuple[str, logging.FileHandler]] = {}


def send_to_file(logger: logging.Logger, path: str) -> None:
    """Send one logger's lines to a file, to which they are appended, instead of the process's log; "" ends that.

    Raises:
        OSError: the file cannot be opened; the lines go where they went before.
    """
    before = _own_files.get(logger.name)
    if path == (before[0] if before else ""):
        return
    handler = logging.FileHandler(path) if path else None
    if before is not None:
        logger.removeHandler(before[1])
        before[1].close()
        del _own_files[logger.name]
    logger.propagate = handler is None
    if handler is not None:
        is_json = any(isinstance(one.formatter, _JsonFormatter) for one in logging.getLogger().handlers)
        handler.setFormatter(_formatter("json" if is_json else "text"))  # as the process's log
        logger.addHandler(handler)
        _own_files[logger.name] = path, handler


def set_up_as_chosen() -> None:
    """Send this process's log where its start has chosen, once; nothing if it has chosen nothing."""
    destination = log_destination.take()
    if destination is not None:
        set_up(destination.level, destination.form, destination.file, use_syslog=destination.use_syslog)


def set_up(level: str = "INFO", form: str = "text", file: str | None = None, *, use_syslog: bool = False) -> None:
    """Send this process's log somewhere, unless the program has done that already.

    A file that cannot be opened is a warning where the log goes instead: a plugin does not fail because of its log.

    Args:
        level: "DEBUG", "INFO", "WARNING" or "ERROR".
        form: "text", or "json" for one object per line.
        file: a file to append to, mode 0644.
        use_syslog: the machine's syslog, for processes without a stderr.
    """
    root = logging.getLogger()
    root.setLevel(level)
    if root.handlers:
        return
    handler: logging.Handler | None = None
    trouble = ""
    if file:
        try:
            handler = logging.FileHandler(file)
        except OSError as error:
            trouble = error.strerror or str(error)
    if handler is None:
        handler = syslog_handler() if use_syslog else logging.StreamHandler()
    handler.setFormatter(_formatter(form))
    root.addHandler(handler)
    if trouble:
        logging.getLogger("nri.plugin").warning("cannot log to %s: %s", file, trouble)


_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def _formatter(form: str) -> logging.Formatter:
    return _JsonFormatter() if form == "json" else TextFormatter(_TEXT)


SYSLOG = "/dev/log"


def syslog_handler() -> logging.Handler:
    from logging.handlers import SysLogHandler

    class Syslog(SysLogHandler):
        """Syslog, and stderr where there is none: some runtimes keep the last words of a plugin."""

        ident = "nri-plugin: "

        def emit(self, record: logging.LogRecord) -> None:
            if not hasattr(record, "each_line"):
                super().emit(record)
                return
            for line in record.getMessage().split("\n"):  # a message to syslog has a bound
                one = logging.makeLogRecord({**record.__dict__, "msg": line, "args": ()})
                del one.each_line  # type: ignore[attr-defined]
                super().emit(one)

        def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
            if not isinstance(sys.exc_info()[1], OSError):
                super().handleError(record)
                return
            stderr = logging.StreamHandler()
            stderr.setFormatter(self.formatter)
            stderr.handle(record)

    return Syslog(SYSLOG)


class TextFormatter(logging.Formatter):
    """Formatter of text in which nothing steers a terminal: names and texts of containers come into any plugin's log.

    Only a record's first line begins at the margin, so that no text can look like another record; but for `EACH_LINE`.
    """

    def format(self, record: logging.LogRecord) -> str:
        if hasattr(record, "each_line"):
            head, *rest = record.getMessage().split("\n")
            first = super().format(logging.makeLogRecord({**record.__dict__, "msg": head, "args": ()}))
            before = first.removesuffix(head)
            return "\n".join([first, *(before + escape(line) for line in rest)])
        return "\n  ".join([escape(line).replace("\\t", "\t") for line in super().format(record).split("\n")])


class _JsonFormatter(logging.Formatter):
    """Formatter that makes one JSON object per line, time in RFC 3339."""

    def format(self, record: logging.LogRecord) -> str:
        import json
        from datetime import UTC, datetime

        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in ("pod", "container"):
            if hasattr(record, name):
                line[name] = getattr(record, name)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json_text(json.dumps(line, ensure_ascii=False))
