"""`Adjustment`: a plugin's changes of a container that is being created.

One job: build a `ContainerAdjustment`. Setters are those of the Go API without "Linux" (`nri.api.go_names` has the
table); resources come from `nri.api.builders.resources`, the rest of the Linux part from `nri.api.builders.linux`, the
readers from `nri.api.builders.view`.

Rules: a plugin that sets what another one has set is a conflict and fails the creation; where the protocol allows to
take over, remove the key and set it again in the same adjustment. Whether a change takes effect is up to the runtime.
Next: `nri.api.builders.update` for containers that exist.
"""

# ruff: noqa: A002 - `type` is the field's name in every specification concerned

from __future__ import annotations

from nri.api import messages as m
from nri.api import optional
from nri.api.builders.checks import (
    I64,
    U64,
    absolute_path,
    cdi_device,
    integer,
    mapping_text,
    new_key,
    new_path,
    one_of,
    rlimit,
    text,
    texts,
)
from nri.api.builders.linux import LinuxAdjustment
from nri.api.builders.resources import Resources
from nri.api.builders.view import AdjustmentView
from nri.api.removal import mark_in_list, mark_in_map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

__all__ = ["Adjustment"]

HOOK_STAGES = ("prestart", "create_runtime", "create_container", "start_container", "poststart", "poststop")


class Adjustment(LinuxAdjustment, Resources, AdjustmentView):
    """Changes of a container that is being created.

    `nri.Adjustment().add_env("POD_NAME", pod.name).set_memory_limit(64 << 20)`. Readers such as `.env` show what was
    set so far, without what was removed; `removed()` has the latter.

    Attributes:
        message: the `ContainerAdjustment` that is sent.
    """

    __slots__ = ()

    message: m.ContainerAdjustment

    def __init__(self) -> None:
        self.message = m.ContainerAdjustment()

    @classmethod
    def _message_class(cls) -> type[m.ContainerAdjustment]:
        return m.ContainerAdjustment

    def add_annotation(self, key: str, value: str) -> Self:
        """Set an annotation of the container."""
        checked = mapping_text("annotations", new_key("key", key, "remove_annotation"), value)
        self.message.annotations[key] = checked
        return self

    def remove_annotation(self, key: str) -> Self:
        """Remove an annotation of the container."""
        mark_in_map(self.message.annotations, text("key", key, empty=False))
        return self

    def add_env(self, name: str, value: str) -> Self:
        """Set an environment variable."""
        if "=" in new_key("name", name, "remove_env"):
            raise ValueError(f"name must not contain '=': {name!r}")
        self.message.env.add(key=name, value=mapping_text("env", name, value))
        return self

    def remove_env(self, name: str) -> Self:
        """Remove an environment variable."""
        mark_in_list(self.message.env, "key", text("name", name, empty=False))
        return self

    def add_mount(self, mount: str | m.Mount, source: str = "", type: str = "", options: Iterable[str] = ()) -> Self:
        """Mount something.

        Args:
            mount: absolute path in the container, or a whole `Mount`, which leaves no use for the rest.
            source: path on the host, or what the type of file system takes.
            type: type of the file system; `bind` for a path of the host.
            options: mount options, such as `rbind`, `ro`, `rprivate`.
        """
        if isinstance(mount, m.Mount):
            new_path("mount.destination", mount.destination, "remove_mount")
            self.message.mounts.append(mount)
            return self
        destination = new_path("mount", mount, "remove_mount")
        source, kind, words = text("source", source), text("type", type), texts("options", options)
        self.message.mounts.add(destination=destination, source=source, type=kind, options=words)
        return self

    def remove_mount(self, destination: str) -> Self:
        """Remove the mount at this path in the container."""
        mark_in_list(self.message.mounts, "destination", text("destination", destination, empty=False))
        return self

    def set_args(self, args: Iterable[str]) -> Self:
        """Set the command line. A conflict if an earlier plugin has set one."""
        words = texts("args", args)
        if not words:
            raise ValueError(
                "args must not be empty: runtimes would ignore it; update_args([]) drops a new command line"
            )
        if not words[0]:
            raise ValueError("args must not begin with an empty text, which takes over another plugin's: update_args()")
        self.message.args[:] = words
        return self

    def update_args(self, args: Iterable[str]) -> Self:
        """Set the command line, also in place of an earlier plugin's; an empty list goes back to the image's."""
        self.message.args[:] = ["", *texts("args", args)]
        return self

    def add_hooks(self, hooks: m.Hooks) -> Self:
        """Add OCI hooks, after those added before."""
        if not isinstance(hooks, m.Hooks):
            raise TypeError(f"hooks must be a Hooks message, not {hooks!r}; add_hook() adds one hook")
        for stage in HOOK_STAGES:
            for position, hook in enumerate(getattr(hooks, stage)):
                absolute_path(f"hooks.{stage}[{position}].path", hook.path)
        self.message.hooks.MergeFrom(hooks)
        return self

    def add_hook(
        self, stage: str, path: str, args: Iterable[str] = (), env: Iterable[str] = (), timeout_s: int | None = None
    ) -> Self:
        """Add one OCI hook.

        Args:
            stage: `prestart`, `create_runtime`, `create_container`, `start_container`, `poststart` or `poststop`.
            path: absolute path of the executable on the host.
            args: command line, with the program name first.
            env: environment, as `NAME=value`.
            timeout_s: seconds, None for no limit.
        """
        hook = m.Hook(path=absolute_path("path", path), args=texts("args", args), env=texts("env", env))
        optional.put(hook, "timeout", None if timeout_s is None else integer("timeout_s", timeout_s, I64))
        getattr(self.message.hooks, one_of("stage", stage, HOOK_STAGES)).append(hook)
        return self

    def add_rlimit(self, type: str, hard: int, soft: int) -> Self:
        """Set a process resource limit, such as `RLIMIT_NOFILE`; mind the order: hard before soft."""
        limit = m.POSIXRlimit(type=rlimit("type", type), hard=integer("hard", hard, U64))
        limit.soft = integer("soft", soft, U64)
        if soft > hard:
            raise ValueError(f"soft must not be above hard, {hard}: {soft} (hard comes before soft)")
        self.message.rlimits.append(limit)
        return self

    def add_cdi_device(self, device: str | m.CDIDevice) -> Self:
        """Add a Container Device Interface device, `vendor/class=device`. Cannot be removed again."""
        name = device.name if isinstance(device, m.CDIDevice) else device
        self.message.CDI_devices.add(name=cdi_device("device", name))
        return self
