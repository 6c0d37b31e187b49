"""An adjustment applied to an OCI spec: the step between what plugins asked for and config.json.

    reply = adaptation.create_container(pod, container)
    config = Generator(spec).adjust(reply.adjust)

One job: the order of the steps, and what each needs of the runtime. The order means something: CDI devices come before
the plugins' own devices, mounts and resources, which so have the last word, and after their variables. Steps are in
`nri.oci.process`, `nri.oci.linux`, `nri.oci.resources` and `nri.oci.mounts`.
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

__all__ = ["Generator"]

#: The errors of a runtime's own functions, whose reason is then that of the SpecError.
FAILURES = (NriError, ValueError, LookupError, OSError)


class Generator:
    """Applies adjustments and updates to an OCI runtime spec.

    The spec given is never changed, and neither is `spec` by an adjustment that fails: all or nothing.

    Args:
        spec: the runtime spec as JSON has it: a dict. Fields that are not known here stay in it.
        compat: "reference" reproduces the reference's behaviour; see docs/deviations.md.
        cdi: puts CDI devices, by their qualified names, into a spec and returns the new one: `CdiDevices.inject`.
        blockio: the spec's ``blockIO`` of a class, or None for no settings: `BlockIoClasses.resolve`.
        rdt: the spec's ``intelRdt`` of a class, or None for no settings: `RdtClasses.resolve`.
        mounts: the host's mounts, for checks of propagation; default: this process's, read when they are needed.
        filter_annotations: gets the annotations of an adjustment, and returns those to apply, or raises.
        check_resources: gets ``linux.resources`` after an adjustment of resources, and may change it, or raise.

    Attributes:
        spec: the spec with everything applied so far.
        rules: where it differs from the reference.
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
        """Apply an adjustment (a message, an `nri.Adjustment`, or None for none) and return the new spec.

        Raises:
            SpecError: it cannot be applied; `spec` is as before.
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
            draft = self._inject(draft, [device.name for device in message.CDI_devices])
        if message.HasField("linux"):
            self._adjust_linux(draft, message.linux)
        mounts.adjust(draft, message.mounts, self._mount_table, self.rules)
        process.rlimits(draft, message.rlimits, self.rules)
        self.spec = draft.spec
        return self.spec

    def update(self, update: Any) -> dict[str, Any]:
        """Apply an update (ContainerUpdate, LinuxResources, or an `nri.Update`) to the spec of a container that exists.

        Returns what an OCI runtime is to get, as ``runc update --resources -`` reads it. RDT classes are only set
        in `spec`: no runtime changes them in an update. Shares, quota, period, memory limit and swap of 0 say "not
        set", as in the requests that plugins are shown, and change nothing.

        Raises:
            SpecError: it cannot be applied; `spec` is as before.
        """
        message = getattr(update, "message", update)
        wanted = message.linux.resources if "container_id" in message.DESCRIPTOR.fields_by_name else message
        wanted = resource.without_unset(wanted)
        draft = Draft(self.spec)
        changed = resource.to_oci(wanted)
        resource.adjust(draft, wanted, Rules.DEFAULT)
        self._check(draft)
        self._adjust_classes(draft, wanted)
        if wanted.HasField("blockio_class") and self._blockio is not None:
            changed["blockIO"] = draft.find("linux", "resources", "blockIO") or {}
        self.spec = draft.spec
        return changed

    def _adjust_annotations(self, draft: Draft, entries: Any) -> None:
        if self._filter_annotations is not None:
            entries = self._ask("adjust annotations", self._filter_annotations, dict(entries))
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
        """Let the runtime have the last word on resources; it works on a copy, because it may change any part."""
        if self._check_resources is None:
            return
        checked = copy.deepcopy(draft.find("linux", "resources") or {})
        self._ask("adjust resources", self._check_resources, checked)
        if checked or draft.find("linux", "resources") is not None:
            draft.table("linux")["resources"] = checked

    def _adjust_classes(self, draft: Draft, adjusted: Any) -> None:
        if adjusted.HasField("blockio_class"):
            self._class(
                draft, ("linux", "resources"), "blockIO", "BlockIO", self._blockio, adjusted.blockio_class.value
            )
        if adjusted.HasField("rdt_class"):
            self._class(draft, ("linux",), "intelRdt", "RDT", self._rdt, adjusted.rdt_class.value)

    def _class(
        self, draft: Draft, above: tuple[str, ...], key: str, kind: str,
        resolve: Callable[[str], dict[str, Any] | None] | None, name: str,
    ) -> None:  # fmt: skip
        """Put what a class means into the spec; the empty class, and one without settings, take it out."""
        if resolve is None:
            if name and self.rules.unresolved_refused:
                raise SpecError(
                    "", f'failed to adjust {kind} class in OCI Spec: this runtime has no classes, not "{name}"'
                )
            return
        found = self._ask(f"adjust {kind} class", resolve, name) if name else None
        if found is None:
            draft.table(*above).pop(key, None)
        else:
            draft.table(*above)[key] = found

    def _inject(self, draft: Draft, names: list[str]) -> Draft:
        if self._cdi is not None:
            return Draft(self._ask("inject CDI devices", self._cdi, draft.spec, names))
        if self.rules.unresolved_refused:
            raise SpecError("", f"failed to inject CDI devices: this runtime has no CDI: {', '.join(names)}")
        return draft

    def _ask(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the runtime; what it fails with is the reason of the SpecError."""
        try:
            return function(*arguments)
        except FAILURES as error:
            raise SpecError("", f"failed to {what} in OCI Spec: {error}") from error

    def _mount_table(self) -> MountTable:
        if self._mounts is None:
            try:
                self._mounts = MountTable.of_host()
            except OSError as error:
                raise SpecError("", f"failed to adjust mounts in OCI Spec: {error}") from error
        return self._mounts
