"""`logger`: log each request with its messages as YAML, and mark containers if configured.

The event begins each line of the log, as in `CreateContainer:    image: busybox`, so that lines can be filtered.
"""

from __future__ import annotations

import os

import nri
from nri.api.events import ALL, EventMask
from nri.plugins.dump import tree_of, yaml_lines
from nri.stub.program.options import Flag
from nri.stub.support import logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class LoggerConfig:
    """The events to log, the log file, and the marks that containers get.

    Attributes:
        logFile: a file to append to instead of the program's log.
        events: the events to subscribe to: all, pod, container, or names such as CreateContainer. Validation requires
            its own name, ValidateContainerAdjustment: runtimes fail creations that a validator does not answer.
        addAnnotation: an annotation to add to containers; conflicts with other plugins that set it.
        setAnnotation: an annotation to set on containers; replaces the value of an earlier plugin.
        addEnv: an environment variable to add to containers; conflicts with other plugins that set it.
        setEnv: an environment variable to set in containers; replaces the value of an earlier plugin.
    """

    logFile: str = ""
    events: tuple[EventMask, ...] = ()
    addAnnotation: str = ""
    setAnnotation: str = ""
    addEnv: str = ""
    setEnv: str = ""


FLAGS = {
    "add-annotation": Flag("addAnnotation", "KEY", "add this annotation to containers"),
    "set-annotation": Flag("setAnnotation", "KEY", "set this annotation of containers, even if other plugins set it"),
    "add-env": Flag("addEnv", "NAME", "add this environment variable to containers"),
    "set-env": Flag("setEnv", "NAME", "set this environment variable, also if other plugins have set it"),
}


_VALIDATION = EventMask.of("ValidateContainerAdjustment")
_MADE = nri.Adjustment
#: By key of the configuration: the builders that remove other plugins' mark, or None, and that add the mark.
MARKS = {
    "addAnnotation": (None, _MADE.add_annotation),
    "setAnnotation": (_MADE.remove_annotation, _MADE.add_annotation),
    "addEnv": (None, _MADE.add_env),
    "setEnv": (_MADE.remove_env, _MADE.add_env),
}


class Logger(nri.Plugin):
    """Log the entire content of every request, and mark containers if configured."""

    name = "logger"
    flags = FLAGS
    Config = LoggerConfig
    config: LoggerConfig

    def configure(self) -> nri.EventMask | None:
        """Open the log file, and subscribe to the configured events."""
        config = self.config
        try:
            logs.send_to_file(self.log.logger, config.logFile)
        except OSError as error:
            reason = f"cannot open {config.logFile}: {error.strerror}"
            raise nri.ConfigError("configuration", "logFile", reason) from None
        for key in MARKS:
            try:
                self._configured_marks(key)
            except ValueError as error:
                raise nri.ConfigError("configuration", key, str(error).partition(" ")[2]) from None
        self.log.info("connected to %s %s", self.runtime.name, self.runtime.version)
        return self._events()

    def _events(self) -> nri.EventMask:
        """The configured events; validation only if the configuration or the command line names it.

        Runtimes may fail each creation that a validator does not answer, so a logger is not a validator by default.
        """
        masks = self.config.events or (ALL,)
        mask = nri.EventMask(sum({spec.bit for mask in masks for spec in mask}))
        is_named = _VALIDATION in masks or nri.EventMask(self._named_events) & _VALIDATION
        return mask if is_named else mask - _VALIDATION

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self._dump_list("Synchronize", "pods", pods)
        self._dump_list("Synchronize", "containers", containers)

    def shutdown(self) -> None:
        self._write(["Shutdown"])

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        self._dump("CreateContainer", pod=pod, container=container)
        return self._configured_marks(*MARKS)

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._dump("RunPodSandbox", pod=pod)

    def update_pod_sandbox(
        self, pod: nri.PodSandbox, overhead: nri.LinuxResources, resources: nri.LinuxResources
    ) -> None:
        self._dump("UpdatePodSandbox", pod=pod, overHeadResources=overhead, resources=resources)

    def post_update_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._dump("PostUpdatePodSandbox", pod=pod)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._dump("StopPodSandbox", pod=pod)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._dump("RemovePodSandbox", pod=pod)

    def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._dump("PostCreateContainer", pod=pod, container=container)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._dump("StartContainer", pod=pod, container=container)

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._dump("PostStartContainer", pod=pod, container=container)

    def update_container(self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources) -> None:
        self._dump("UpdateContainer", pod=pod, container=container, resources=resources)

    def post_update_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._dump("PostUpdateContainer", pod=pod, container=container)

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._dump("StopContainer", pod=pod, container=container)

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._dump("RemoveContainer", pod=pod, container=container)

    def validate_container_adjustment(self, request: nri.ValidationRequest) -> None:
        self._dump("ValidateContainerAdjustment", request=request.message)

    def _configured_marks(self, *keys: str) -> nri.Adjustment:
        """The marks for these keys of the configuration. Raises ValueError if a name is invalid."""
        mark, adjustment = f"logger-pid-{os.getpid()}", nri.Adjustment()
        for key in keys:
            name = getattr(self.config, key)
            if not name:
                continue
            remove, add = MARKS[key]
            if remove:
                remove(adjustment, name)
            add(adjustment, name, mark)
        return adjustment

    # -- writing ------------------------------------------------------------------------------------------------------

    def _dump(self, event: str, **messages: Any) -> None:
        """Log the messages of an event, each under its name."""
        lines = []
        for tag, message in messages.items():
            lines += [f"{event}: {tag}:", *(f"{event}:    {line}" for line in yaml_lines(tree_of(message)))]
        self._write(lines)

    def _dump_list(self, event: str, tag: str, messages: Iterable[Any]) -> None:
        """Log messages one by one, because all messages together may be many megabytes of text."""
        self._write([f"{event}: {tag}:"])
        for message in messages:
            self._write([f"{event}:    {line}" for line in yaml_lines([tree_of(message)])])

    def _write(self, lines: list[str]) -> None:
        # One record for all lines: a record for each line would cost more than the rest of the plugin.
        self.log.logger.info("%s", "\n".join(lines), extra=logs.EACH_LINE)


if __name__ == "__main__":
    Logger.main()
