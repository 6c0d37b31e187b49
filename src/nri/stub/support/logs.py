"""Log with the pod and container of the current request on every line; imported with the first line.

A program logs to stderr, a pre-installed plugin to syslog, because it has no stderr; `log_file` overrides both.
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

#: The `extra` of a record with several lines. Each line becomes a separate log line with time and name.
EACH_LINE = {"each_line": True}


class _Adapter(logging.LoggerAdapter):  # type: ignore[type-arg]
    """An adapter that adds the current pod and container to the text, and as fields for formatters."""

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
    """The log of the plugin `name`: logger `nri.plugin.<name>`. The first call sets up the log."""
    set_up_as_chosen()
    log_adapter = _adapters.get(name)
    if log_adapter is None:
        log_adapter = _adapters[name] = _Adapter(logging.getLogger(f"nri.plugin.{name}"), {})
    return log_adapter


#: Path and handler by logger name, for loggers with a separate file.
_own_files: dict[str, tuple[str, logging.FileHandler]] = {}


def send_to_file(logger: logging.Logger, path: str) -> None:
    """Append a logger's lines to a file instead of the process's log. The path "" ends that.

    Raises:
        OSError: the file cannot be opened; the destination does not change.
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
    """Set up this process's log at the chosen destination, once. Does nothing without a choice."""
    destination = log_destination.take()
    if destination is not None:
        set_up(destination.level, destination.form, destination.file, use_syslog=destination.use_syslog)


def set_up(level: str = "INFO", form: str = "text", file: str | None = None, *, use_syslog: bool = False) -> None:
    """Set up this process's log, unless the program has already set up logging.

    If the file cannot be opened, the log goes to the default destination, with a warning.

    Args:
        level: "DEBUG", "INFO", "WARNING" or "ERROR".
        form: "text", or "json" for one object per line.
        file: a file to append to, mode 0644.
        use_syslog: log to the machine's syslog, for processes without a stderr.
    """
    root = logging.getLogger()
    root.setLevel(level)
    if root.handlers:
        return
    handler: logging.Handler | None = None
    problem = ""
    if file:
        try:
            handler = logging.FileHandler(file)
        except OSError as error:
            problem = error.strerror or str(error)
    if handler is None:
        handler = syslog_handler() if use_syslog else logging.StreamHandler()
    handler.setFormatter(_formatter(form))
    root.addHandler(handler)
    if problem:
        logging.getLogger("nri.plugin").warning("cannot log to %s: %s", file, problem)


_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def _formatter(form: str) -> logging.Formatter:
    return _JsonFormatter() if form == "json" else TextFormatter(_TEXT)


SYSLOG = "/dev/log"


def syslog_handler() -> logging.Handler:
    """Return a handler for syslog, or for stderr if there is no syslog."""
    from logging.handlers import SysLogHandler

    class Syslog(SysLogHandler):
        """Syslog, or stderr if there is no syslog, because some runtimes store the last output of a plugin."""

        ident = "nri-plugin: "

        def emit(self, record: logging.LogRecord) -> None:
            if not hasattr(record, "each_line"):
                super().emit(record)
                return
            for line in record.getMessage().split("\n"):  # because syslog limits the length of a message
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
    """A text formatter that escapes control characters, because texts of containers may be in any plugin's log.

    All lines of a record except the first are indented, so that no text can imitate another record. Records with
    `EACH_LINE` are excepted.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record, with unprintable characters escaped."""
        if hasattr(record, "each_line"):
            head, *other_lines = record.getMessage().split("\n")
            first = super().format(logging.makeLogRecord({**record.__dict__, "msg": head, "args": ()}))
            before = first.removesuffix(head)
            return "\n".join([first, *(before + escape(line) for line in other_lines)])
        return "\n  ".join([escape(line).replace("\\t", "\t") for line in super().format(record).split("\n")])


class _JsonFormatter(logging.Formatter):
    """A formatter with one JSON object per line, and times in RFC 3339."""

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
