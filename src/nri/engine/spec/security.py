"""The security profiles of a container: seccomp, AppArmor, SELinux, masked and read-only paths.

A privileged container has no profiles. The deprecated text fields are used if the newer fields are absent. If a
requested profile does not exist, the request fails; if the default profile does not exist, the engine logs a note.
SELinux labels are not supported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Machine
from nri.engine.spec.limits import check_path
from nri.engine.spec.seccomp import default_profile, host_profile
from nri.errors import RequestError

#: Containers and sandboxes have the same fields for security profiles.
Security = pb.LinuxContainerSecurityContext | pb.LinuxSandboxSecurityContext
_FIELD = "linux.security_context"
_DEFAULT, _UNCONFINED, _LOCALHOST = (
    pb.SecurityProfile.RuntimeDefault,
    pb.SecurityProfile.Unconfined,
    pb.SecurityProfile.Localhost,
)
_TEXTS = {"runtime/default": _DEFAULT, "docker/default": _DEFAULT, "unconfined": _UNCONFINED, "": _UNCONFINED}


def localhost_profile(security: Security) -> str:
    """The path of the requested seccomp profile on the host, or "" without a request. Raises RequestError."""
    if security.privileged:
        return ""
    kind, ref = _requested_seccomp(security)
    if kind != _LOCALHOST:
        return ""
    if not ref.startswith("/"):
        raise RequestError(f"{_FIELD}.seccomp.localhost_ref", ref, "must be an absolute path")
    check_path(f"{_FIELD}.seccomp.localhost_ref", ref)
    return ref


def seccomp(
    security: Security,
    machine: Machine,
    capabilities: Collection[str],
    localhost: Mapping[str, Any] | None,
    default: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """The ``linux.seccomp`` of a container, or None without a filter.

    A privileged container, an unconfined one and one without a request have no filter.

    Args:
        localhost: the content of the requested profile of the host.
        default: the checked profile that replaces the engine's default.

    Raises RequestError if the machine does not filter system calls, or if the host's profile is invalid.
    """
    kind, ref = _requested_seccomp(security)
    if security.privileged or kind == _UNCONFINED:
        return None
    if kind not in (_DEFAULT, _LOCALHOST):
        raise RequestError(f"{_FIELD}.seccomp.profile_type", kind, "is unknown")
    if not machine.seccomp:
        name = "RuntimeDefault" if kind == _DEFAULT else "Localhost"
        raise RequestError(f"{_FIELD}.seccomp.profile_type", name, "this machine does not filter system calls")
    if kind == _DEFAULT:
        if default is not None:
            return host_profile(default, machine.architecture, capabilities)
        return default_profile(machine.architecture, capabilities)
    try:
        return host_profile(localhost or {}, machine.architecture, capabilities)
    except (ValueError, TypeError) as error:
        raise RequestError(f"{_FIELD}.seccomp.localhost_ref", ref, f"is not a seccomp profile: {error}") from None


def _requested_seccomp(security: Security) -> tuple[int, str]:
    if security.HasField("seccomp"):
        return security.seccomp.profile_type, security.seccomp.localhost_ref
    return _parse_profile(security.seccomp_profile_path, "seccomp_profile_path")


def _parse_profile(text: str, field: str) -> tuple[int, str]:
    """Parse the deprecated text of a profile: ``runtime/default``, ``unconfined``, ``localhost/NAME``."""
    if text in _TEXTS:
        return _TEXTS[text], ""
    if text.startswith("localhost/"):
        return _LOCALHOST, text.removeprefix("localhost/")
    raise RequestError(f"{_FIELD}.{field}", text, "must be runtime/default, unconfined or localhost/NAME")


def apparmor(security: pb.LinuxContainerSecurityContext, machine: Machine, default: str, notes: list[str]) -> str:
    """The ``process.apparmorProfile``, or "" without a profile.

    Raises RequestError if a profile of the host is requested on a machine without AppArmor.
    """
    if security.HasField("apparmor"):
        kind, ref = int(security.apparmor.profile_type), security.apparmor.localhost_ref
    else:
        kind, ref = _parse_profile(security.apparmor_profile, "apparmor_profile")
    if security.privileged or kind == _UNCONFINED:
        return ""
    if kind == _LOCALHOST:
        if not machine.apparmor:
            raise RequestError(f"{_FIELD}.apparmor.localhost_ref", ref, "this machine has no AppArmor")
        return ref
    if kind != _DEFAULT:
        raise RequestError(f"{_FIELD}.apparmor.profile_type", kind, "is unknown")
    if not machine.apparmor:
        notes.append(f"{_FIELD}.apparmor: RuntimeDefault is ignored: this machine has no AppArmor")
    elif not default:
        notes.append(f"{_FIELD}.apparmor: RuntimeDefault is ignored: no default profile is configured")
    return default if machine.apparmor else ""


def check_selinux(options: pb.SELinuxOption, relabel: bool, machine: Machine, notes: list[str]) -> None:
    """Check that no SELinux label is requested. On a machine without SELinux a label only adds a note.

    Raises RequestError on a machine with SELinux.
    """
    label = ":".join(part for part in (options.user, options.role, options.type, options.level) if part)
    if label and machine.selinux:
        raise RequestError(f"{_FIELD}.selinux_options", label, "SELinux labels are not supported by this engine")
    if label:
        notes.append(f"{_FIELD}.selinux_options: {label} is ignored: this machine has no SELinux")
    if relabel and machine.selinux:
        notes.append("mounts: selinux_relabel is ignored: SELinux labels are not supported by this engine")


def paths(security: pb.LinuxContainerSecurityContext) -> dict[str, list[str]]:
    """The requested ``linux.maskedPaths`` and ``linux.readonlyPaths``. Raises RequestError if a path is relative.

    The kubelet sends its default paths, or no paths if the pod's security context has `procMount: Unmasked`.
    """
    if security.privileged:
        return {}
    result: dict[str, list[str]] = {}
    for field, key in (("masked_paths", "maskedPaths"), ("readonly_paths", "readonlyPaths")):
        for index, path in enumerate(getattr(security, field)):
            if not path.startswith("/"):
                raise RequestError(f"{_FIELD}.{field}[{index}]", path, "must be an absolute path")
            check_path(f"{_FIELD}.{field}[{index}]", path)
            result.setdefault(key, []).append(path)
    return result
