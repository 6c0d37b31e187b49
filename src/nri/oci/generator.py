"""Apply NRI adjustments and updates to an OCI spec.

    reply = adaptation.create_container(pod, container)
    config = Generator(spec).adjust(reply.adjust)

The order of the steps matters: CDI devices are applied after the plugins' environment variables, and before the
plugins' devices, mounts and resources, which therefore override CDI's.
"""

from __future__ import annotations

import copy

from nri.errors import LocalProtocolError, NriError, SpecError
from nri.oci import linux, mounts, process
from nri.oci import resources as resource
from nri.oci.draft import Draft
from nri.oci.propagation import MountTable
from nri.rules import Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal

    from nri.oci.draft import Spec

#: The errors of a runtime's own functions. Their message becomes the reason of the SpecError.
FAILURES = (NriError, ValueError, LookupError, OSError)


class Generator:
    """Applies adjustments and updates to an OCI runtime spec.

    Neither the original spec nor `spec` changes if an adjustment fails.

    Args:
        spec: the runtime spec, as parsed from JSON. Unknown fields stay in the spec.
        compat: "reference" reproduces the behaviour of the Go library and containerd; see docs/deviations.md.
        cdi: injects CDI devices, by qualified name, and returns the new spec: `CdiDevices.inject`.
        blockio: returns the spec's ``blockIO`` of a class, or None without settings: `BlockIoClasses.resolve`.
        rdt: returns the spec's ``intelRdt`` of a class, or None without settings: `RdtClasses.resolve`.
        mounts: the host's mounts, to check propagation. The default is this process's mounts, read when needed.
        filter_annotations: receives the annotations of an adjustment, and returns the annotations to apply, or raises.
        check_resources: receives ``linux.resources`` after an adjustment of resources; may change it, or raise.

    Attributes:
        spec: the spec with everything applied so far.
        rules: the deviations from the Go library and containerd.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        compat: Literal["default", "reference"] = "default",
        cdi: Callable[[Spec, Sequence[str]], Spec] | None = None,
        blockio: Callable[[str], dict[str, Any] | None] | None = None,
        rdt: Callable[[str], dict[str, Any] | None] | None = None,
        mounts: MountTable | None = None,
        filter_annotations: Callable[[dict[str, str]], Mapping[str, str]] | None = None,
        check_resources: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        if compat not in ("default", "reference"):
            raise LocalProtocolError(f'compat must be "default" or "reference", not {compat!r}')
        self.rules = Rules.REFERENCE if compat == "reference" else Rules.DEFAULT
        self.spec = spec
        self._cdi = cdi
        self._blockio = blockio
        self._rdt = rdt
        self._mounts = mounts
        self._filter_annotations = filter_annotations
        self._check_resources = check_resources

    def adjust(self, adjustment: Any) -> Spec:
        """Apply an adjustment (a message, an `nri.Adjustment`, or None) and return the new spec.

        Raises:
            SpecError: the adjustment cannot be applied; `spec` is unchanged.
        """
        message = getattr(adjustment, "message", adjustment)
        if message is None:
            return self.spec
        draft = Draft(self.spec)
        self._adjust_annotations(draft, message.annotations)
        process.env(draft, message.env, self.rules)
        process.args(draft, message.args)
        process.hooks(draft, message.hooks)
        if message.CDI_devices:
            draft = self._inject_devices(draft, [device.name for device in message.CDI_devices])
        if message.HasField("linux"):
            self._adjust_linux(draft, message.linux)
        mounts.adjust(draft, message.mounts, self._mount_table, self.rules)
        process.rlimits(draft, message.rlimits, self.rules)
        self.spec = draft.spec
        return self.spec

    def update(self, update: Any) -> dict[str, Any]:
        """Apply an update (ContainerUpdate, LinuxResources, or an `nri.Update`) to the spec of an existing container.

        Returns the input of ``runc update --resources -``. RDT classes are only set in `spec`, because runtimes do not
        change them in an update. As in requests, values of 0 for shares, quota, period, memory limit and swap mean "not
        set", and have no effect.

        Raises:
            SpecError: the update cannot be applied; `spec` is unchanged.
        """
        message = getattr(update, "message", update)
        resources = message.linux.resources if "container_id" in message.DESCRIPTOR.fields_by_name else message
        resources = resource.without_unset(resources)
        draft = Draft(self.spec)
        changed = resource.to_oci(resources)
        resource.adjust(draft, resources, Rules.DEFAULT)
        self._check(draft)
        self._adjust_classes(draft, resources)
        if resources.HasField("blockio_class") and self._blockio is not None:
            changed["blockIO"] = draft.find("linux", "resources", "blockIO") or {}
        self.spec = draft.spec
        return changed

    def _adjust_annotations(self, draft: Draft, entries: Any) -> None:
        if self._filter_annotations is not None:
            entries = self._call("adjust annotations", self._filter_annotations, dict(entries))
        process.annotation_map(draft, entries)

    def _adjust_linux(self, draft: Draft, adjusted: Any) -> None:
        rules = self.rules
        linux.devices(draft, adjusted.devices, rules)
        if adjusted.cgroups_path:
            draft.table("linux")["cgroupsPath"] = adjusted.cgroups_path
        if adjusted.HasField("oom_score_adj"):
            draft.table("process")["oomScoreAdj"] = adjusted.oom_score_adj.value
        if adjusted.HasField("io_priority"):
            process.io_priority(draft, adjusted.io_priority, rules)
        if adjusted.HasField("scheduler"):
            process.scheduler(draft, adjusted.scheduler, rules)
        if adjusted.HasField("seccomp_policy"):
            linux.seccomp(draft, adjusted.seccomp_policy, rules)
        linux.namespaces(draft, adjusted.namespaces, rules)
        linux.sysctl(draft, adjusted.sysctl)
        linux.net_devices(draft, adjusted.net_devices)
        if adjusted.HasField("memory_policy"):
            linux.memory_policy(draft, adjusted.memory_policy, rules)
        if adjusted.HasField("resources"):
            resource.adjust(draft, adjusted.resources, rules)
            self._check(draft)
            self._adjust_classes(draft, adjusted.resources)
        if adjusted.HasField("rdt"):
            linux.rdt(draft, adjusted.rdt)

    def _check(self, draft: Draft) -> None:
        """Let the runtime check or change the resources."""
        if self._check_resources is None:
            return
        # The runtime gets a deep copy, because it may change any field.
        resources = copy.deepcopy(draft.find("linux", "resources") or {})
        self._call("adjust resources", self._check_resources, resources)
        if resources or draft.find("linux", "resources") is not None:
            draft.table("linux")["resources"] = resources

    def _adjust_classes(self, draft: Draft, adjusted: Any) -> None:
        if adjusted.HasField("blockio_class"):
            self._adjust_class(
                draft, ("linux", "resources"), "blockIO", "BlockIO", self._blockio, adjusted.blockio_class.value
            )
        if adjusted.HasField("rdt_class"):
            self._adjust_class(draft, ("linux",), "intelRdt", "RDT", self._rdt, adjusted.rdt_class.value)

    def _adjust_class(
        self, draft: Draft, parent: tuple[str, ...], key: str, kind: str,
        resolve: Callable[[str], dict[str, Any] | None] | None, name: str,
    ) -> None:  # fmt: skip
        """Set the settings of a class in the spec. For the empty class and a class without settings, remove them."""
        if resolve is None:
            if name and self.rules.unresolved_refused:
                raise SpecError(
                    "", f'failed to adjust {kind} class in OCI Spec: this runtime has no classes, "{name}" is unknown'
                )
            return
        settings = self._call(f"adjust {kind} class", resolve, name) if name else None
        if settings is None:
            draft.table(*parent).pop(key, None)
        else:
            draft.table(*parent)[key] = settings

    def _inject_devices(self, draft: Draft, names: list[str]) -> Draft:
        if self._cdi is not None:
            return Draft(self._call("inject CDI devices", self._cdi, draft.spec, names))
        if self.rules.unresolved_refused:
            raise SpecError("", f"failed to inject CDI devices: this runtime does not support CDI: {', '.join(names)}")
        return draft

    def _call(self, action: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the runtime. Its error becomes the reason of a SpecError."""
        try:
            return function(*arguments)
        except FAILURES as error:
            raise SpecError("", f"failed to {action} in OCI Spec: {error}") from error

    def _mount_table(self) -> MountTable:
        if self._mounts is None:
            try:
                self._mounts = MountTable.of_host()
            except OSError as error:
                raise SpecError("", f"failed to adjust mounts in OCI Spec: {error}") from error
        return self._mounts
