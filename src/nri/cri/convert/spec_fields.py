"""A container's OCI spec as the fields of NRI's Container: what plugins are shown of it.

One job: `describe` fills a Container from a spec, a plain dict as JSON has it. Fields of the spec that NRI does not
have are not looked at: they are the runtime's own. Texts of enums that the API does not know become its 0, as in the
reference. Next: `nri.cri.convert.container`, which adds what only the request says.
"""

from __future__ import annotations

from typing import Any

from nri.api import messages as m
from nri.api.optional import put
from nri.cri.convert.resources import from_oci

__all__ = ["Spec", "describe", "namespaces"]

#: An OCI runtime spec, or a part of one.
Spec = dict[str, Any]
#: Field of NRI's message, key of the spec.
HOOKS = {
    "prestart": "prestart", "create_runtime": "createRuntime", "create_container": "createContainer",
    "start_container": "startContainer", "poststart": "poststart", "poststop": "poststop",
}  # fmt: skip


def describe(made: m.Container, spec: Spec) -> None:
    """Set in `made` all that the spec says."""
    process = spec.get("process") or {}
    made.args.extend(process.get("args") or ())
    made.env.extend(process.get("env") or ())
    user = process.get("user") or {}
    made.user.uid, made.user.gid = user.get("uid", 0), user.get("gid", 0)
    made.user.additional_gids.extend(user.get("additionalGids") or ())
    for limit in process.get("rlimits") or ():
        made.rlimits.add(type=limit["type"], hard=limit["hard"], soft=limit["soft"])
    for mount in spec.get("mounts") or ():
        made.mounts.add(
            destination=mount["destination"],
            type=mount.get("type") or "",
            source=mount.get("source") or "",
            options=mount.get("options") or (),
        )
    for field, key in HOOKS.items():
        for hook in (spec.get("hooks") or {}).get(key) or ():
            added = getattr(made.hooks, field).add(
                path=hook["path"], args=hook.get("args") or (), env=hook.get("env") or ()
            )
            put(added, "timeout", hook.get("timeout"))
    _linux(made.linux, spec.get("linux") or {}, process)


def _linux(made: m.LinuxContainer, linux: Spec, process: Spec) -> None:
    made.namespaces.extend(namespaces(linux))
    for device in linux.get("devices") or ():
        added = made.devices.add(
            path=device["path"], type=device["type"], major=device.get("major", 0), minor=device.get("minor", 0)
        )
        for field, key in (("file_mode", "fileMode"), ("uid", "uid"), ("gid", "gid")):
            put(added, field, device.get(key))
    made.resources.CopyFrom(from_oci(linux.get("resources") or {}).value)
    made.cgroups_path = linux.get("cgroupsPath") or ""
    made.sysctl.update(linux.get("sysctl") or {})
    for host, device in (linux.get("netDevices") or {}).items():
        made.net_devices[host].name = (device or {}).get("name") or ""
    put(made, "oom_score_adj", process.get("oomScoreAdj"))
    if seccomp := linux.get("seccomp"):
        _seccomp(made.seccomp_policy, seccomp)
    if rdt := linux.get("intelRdt"):
        put(made.rdt, "clos_id", rdt.get("closID"))
        put(made.rdt, "schemata", rdt.get("schemata"))
        put(made.rdt, "enable_monitoring", rdt.get("enableMonitoring"))
    if priority := process.get("ioPriority"):
        made.io_priority.priority = priority.get("priority", 0)
        setattr(made.io_priority, "class", _number(m.IOPrioClass, priority.get("class")))
    if scheduler := process.get("scheduler"):
        _scheduler(made.scheduler, scheduler)


def namespaces(linux: Spec) -> list[m.LinuxNamespace]:
    """The namespaces of a spec's ``linux``."""
    return [m.LinuxNamespace(type=each["type"], path=each.get("path") or "") for each in linux.get("namespaces") or ()]


def _seccomp(made: m.LinuxSeccomp, policy: Spec) -> None:
    made.default_action = policy.get("defaultAction", "")
    put(made, "default_errno", policy.get("defaultErrnoRet"))
    made.architectures.extend(policy.get("architectures") or ())
    made.flags.extend(policy.get("flags") or ())
    made.listener_path = policy.get("listenerPath") or ""
    made.listener_metadata = policy.get("listenerMetadata") or ""
    for call in policy.get("syscalls") or ():
        added = made.syscalls.add(names=call.get("names") or (), action=call["action"])
        put(added, "errno_ret", call.get("errnoRet"))
        for arg in call.get("args") or ():
            added.args.add(index=arg["index"], value=arg["value"], value_two=arg.get("valueTwo") or 0, op=arg["op"])


def _scheduler(made: m.LinuxScheduler, scheduler: Spec) -> None:
    made.policy = _number(m.LinuxSchedulerPolicy, scheduler.get("policy"))
    for field in ("nice", "priority", "runtime", "deadline", "period"):
        setattr(made, field, scheduler.get(field) or 0)
    made.flags.extend(_number(m.LinuxSchedulerFlag, flag) for flag in scheduler.get("flags") or ())


def _number(enum: Any, name: str | None) -> Any:
    return dict(enum.items()).get(name or "", 0)
