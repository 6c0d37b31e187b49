"""The configuration of `logger`: keys as its drop-in file has them, and the flags that set them. Next: `plugin`."""

from __future__ import annotations

from nri.api.events import EventMask
from nri.stub.program.options import Flag

__all__ = ["FLAGS", "LoggerConfig"]


class LoggerConfig:
    """The events to log, the file for them, and the marks that containers get.

    Attributes:
        logFile: a file to append to instead of the program's log.
        events: only these are taken: all, pod, container, or names such as CreateContainer.
        addAnnotation: annotation that containers get; in conflict with other plugins that set it.
        setAnnotation: annotation that containers get, whatever other plugins before it have set.
        addEnv, setEnv: the same for an environment variable.
    """

    logFile: str = ""
    events: tuple[EventMask, ...] = ()
    addAnnotation: str = ""
    setAnnotation: str = ""
    addEnv: str = ""
    setEnv: str = ""


FLAGS = {
    "add-annotation": Flag("addAnnotation", "KEY", "add this annotation to containers"),
    "set-annotation": Flag("setAnnotation", "KEY", "the same, over what other plugins have set"),
    "add-env": Flag("addEnv", "NAME", "add this environment variable to containers"),
    "set-env": Flag("setEnv", "NAME", "the same, over what other plugins have set"),
}
