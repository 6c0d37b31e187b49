"""Claims: the CPUs that a claim is allocated, the prepared claims in a checkpoint file, and their CDI files.

A container names its CPUs with environment variables, which the runtime adds for CDI devices, because runtimes before
containerd 2.3 do not report CDI devices to plugins. Anyone can set a variable, so only the checkpoint decides.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.config import Source, read
from nri.errors import ConfigError, NriError
from nri.files import read_regular, write_whole
from nri.plugins.dra_cpu.slices import cpu_of, device_name, table
from nri.text import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.kube.client.objects import Object

#: The prefix of the variables of a container's CPUs, before the CPU's number. The value is the claim's uid.
ENV_PREFIX = "NRI_DRA_CPU_"
#: Kubernetes' limit for the results of an allocation.
MAX_RESULTS = 32
#: CPUs are exclusive, so there are fewer claims than CPUs.
MAX_CLAIMS = 8192
#: A claim takes about 200 bytes, and 40 for each CPU.
_MAX_BYTES = 16 << 20
MAX_NAME = 253
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
#: The form of DNS names, which Kubernetes requires of names of objects, nodes and drivers.
DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
#: The first version of CDI files that Kubernetes' drivers use; device names must start with a letter.
_CDI_VERSION = "0.3.0"
_FILE_VERSION = 1


class ClaimError(NriError):
    """A claim cannot be prepared or released. The kubelet shows the message in an event of the pod."""


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim with its CPUs.

    Attributes:
        cpus: the names of the claim's requests, by CPU.
    """

    uid: str
    namespace: str
    name: str
    cpus: dict[int, tuple[str, ...]]

    def __str__(self) -> str:
        return f"claim {self.namespace}/{self.name}"


def check_names(namespace: str, name: str, uid: str) -> None:
    """Raise ClaimError for names that Kubernetes does not allow. The uid becomes a part of file names."""
    for what, text in (("namespace", namespace), ("name", name)):
        if len(text) > MAX_NAME or DNS_NAME.fullmatch(text) is None:
            raise ClaimError(f"claim: invalid {what} {quote(text[:64])}")
    if _UID.fullmatch(uid) is None:
        raise ClaimError(f"claim {namespace}/{name}: invalid uid {quote(uid[:64])}")


def allocated_cpus(claim: Object, driver: str, pool: str, offered: frozenset[int]) -> dict[int, tuple[str, ...]]:
    """The CPUs that an allocated claim has on this node, with the names of its requests. Raises ClaimError.

    Args:
        claim: the object of the API.
        offered: the CPUs that the driver publishes.
    """
    requests_by_cpu: dict[int, list[str]] = {}
    results = _list(table(table(table(claim.get("status")).get("allocation")).get("devices")).get("results"))
    if len(results) > MAX_RESULTS:
        raise ClaimError(f"the allocation has {len(results)} results; the limit is {MAX_RESULTS}")
    for result in map(table, results):
        if result.get("driver") != driver:
            continue
        request, device = str(result.get("request") or ""), str(result.get("device") or "")
        if result.get("pool") != pool:
            raise ClaimError(
                f"device {quote(device[:64])} is in pool {quote(str(result.get('pool'))[:64])}, not {pool}"
            )
        if result.get("adminAccess"):
            raise ClaimError(f"request {quote(request[:64])}: adminAccess is not supported, because CPUs are exclusive")
        try:
            cpu = cpu_of(device)
        except ValueError as error:
            raise ClaimError(str(error)) from None
        if cpu not in offered:
            raise ClaimError(f"CPU {cpu} is offline, reserved or absent")
        # A request with alternatives is named REQUEST/ALTERNATIVE; containers refer to the request.
        requests_by_cpu.setdefault(cpu, []).append(request.partition("/")[0][:MAX_NAME])
    if not requests_by_cpu:
        raise ClaimError(f"it is not allocated any device of {driver}")
    return {cpu: tuple(requests) for cpu, requests in sorted(requests_by_cpu.items())}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _SavedClaim:
    uid: str
    namespace: str
    name: str
    cpus: dict[str, tuple[str, ...]]


class _SavedClaims:
    version: int
    restricted: bool = False
    claims: tuple[_SavedClaim, ...] = ()

    def __post_init__(self) -> None:
        if self.version != _FILE_VERSION:
            raise ValueError(f"version: {self.version} is not known; this program writes {_FILE_VERSION}")
        if len(self.claims) > MAX_CLAIMS:
            raise ValueError(f"claims: {len(self.claims)} entries; the limit is {MAX_CLAIMS}")


@dataclass(slots=True)
class ClaimStore:
    """The prepared claims. Every change is in the checkpoint before a method returns. Not thread-safe.

    Attributes:
        path: the checkpoint file.
        cdi_dir: the folder of the CDI files, one for each claim.
        driver: the driver's name.
        claims: the claims by uid.
        restricted: whether running containers may be limited to the shared CPUs; see `plugin`.
    """

    path: Path
    cdi_dir: Path
    driver: str
    claims: dict[str, PreparedClaim] = field(default_factory=dict)
    restricted: bool = False

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs of all claims."""
        return frozenset(cpu for claim in self.claims.values() for cpu in claim.cpus)

    def load(self) -> None:
        """Read the checkpoint, and write CDI files that are missing, for example after a reboot.

        Raises ConfigError if the file is damaged, and OSError if a file cannot be read or written.
        """
        try:
            text = read_regular(self.path, _MAX_BYTES, follow=False).decode(errors="replace")
        except FileNotFoundError:
            return
        hint = "remove it, and restart the kubelet, which then prepares the claims of all running pods again"
        try:
            saved = read(_SavedClaims, [Source(str(self.path), text, "json")])
            for entry in saved.claims:
                check_names(entry.namespace, entry.name, entry.uid)
                cpus = {cpu_of(device): requests for device, requests in entry.cpus.items()}
                self._check_free(claim := PreparedClaim(entry.uid, entry.namespace, entry.name, cpus))
                self.claims[entry.uid] = claim
        except (ClaimError, ValueError) as error:
            raise ConfigError(str(self.path), "claims", str(error), hint) from None
        except ConfigError as error:
            raise ConfigError(str(self.path), error.key, error.reason, hint) from None
        self.restricted = saved.restricted
        for claim in self.claims.values():
            self.write_cdi(claim)

    def add(self, claim: PreparedClaim) -> None:
        """Add a claim. Raises ClaimError if another claim has one of its CPUs, and OSError if a file cannot be written.

        After an OSError the claim is not prepared, and `add` can be called again.
        """
        self._check_free(claim)
        self.claims[claim.uid], was_restricted = claim, self.restricted
        self.restricted = True
        try:
            self.save()
            self.write_cdi(claim)
        except OSError:
            del self.claims[claim.uid]
            self.restricted = was_restricted
            raise

    def remove(self, uid: str) -> bool:
        """Remove a claim. Returns whether it was prepared. Raises OSError; the claim is then still prepared."""
        claim = self.claims.get(uid)
        if claim is None:
            return False
        self._cdi_file(uid).unlink(missing_ok=True)
        del self.claims[uid]
        try:
            self.save()
        except OSError:
            self.claims[uid] = claim
            raise
        return True

    def save(self) -> None:
        """Write the checkpoint."""
        claims = [
            {
                "uid": claim.uid,
                "namespace": claim.namespace,
                "name": claim.name,
                "cpus": {device_name(cpu): requests for cpu, requests in claim.cpus.items()},
            }
            for claim in self.claims.values()
        ]
        document = {"version": _FILE_VERSION, "restricted": self.restricted, "claims": claims}
        write_whole(self.path, json.dumps(document).encode() + b"\n")

    def device_ids(self, claim: PreparedClaim) -> dict[int, str]:
        """The names of the CDI devices of a claim, by CPU."""
        return {cpu: f"{self._cdi_kind}={_cdi_name(claim, cpu)}" for cpu in claim.cpus}

    def write_cdi(self, claim: PreparedClaim) -> None:
        """Write the CDI file of a claim: a device for each CPU, so that a container can refer to one request."""
        devices = [
            {"name": _cdi_name(claim, cpu), "containerEdits": {"env": [f"{ENV_PREFIX}{cpu}={claim.uid}"]}}
            for cpu in claim.cpus
        ]
        document = {"cdiVersion": _CDI_VERSION, "kind": self._cdi_kind, "devices": devices}
        self.cdi_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_whole(self._cdi_file(claim.uid), json.dumps(document).encode(), 0o644)

    def container_cpus(self, namespace: str, env: Iterable[str]) -> frozenset[int]:
        """The CPUs that a container's environment names. Raises ClaimError if a claim is not the pod's.

        Args:
            namespace: the pod's namespace; pods may use all claims of their namespace.
            env: entries such as ``PATH=/bin``.
        """
        cpus = set()
        for entry in env:
            if not entry.startswith(ENV_PREFIX):
                continue
            digits, _, uid = entry.removeprefix(ENV_PREFIX).partition("=")
            claim = self.claims.get(uid)
            if claim is None or claim.namespace != namespace:
                raise ClaimError(
                    f"{quote(entry[:128])}: no such claim of namespace {namespace} is prepared on this node."
                    f" Remove variables {ENV_PREFIX}* from the pod; without them, delete the pod"
                )
            cpu = next((cpu for cpu in claim.cpus if str(cpu) == digits), None)
            if cpu is None:
                raise ClaimError(f"{quote(entry[:128])}: {claim} has the CPUs {', '.join(map(str, claim.cpus))}")
            cpus.add(cpu)
        return frozenset(cpus)

    def _check_free(self, claim: PreparedClaim) -> None:
        for other in self.claims.values():
            common = sorted(other.cpus.keys() & claim.cpus.keys()) if other.uid != claim.uid else []
            if common:
                raise ClaimError(f"CPU {common[0]} is still in use by {other}; the kubelet has to release it first")
        if len(self.claims) >= MAX_CLAIMS:
            raise ClaimError(f"{MAX_CLAIMS} claims are prepared; no further claim can be prepared")

    @property
    def _cdi_kind(self) -> str:
        return f"{self.driver}/cpu"

    def _cdi_file(self, uid: str) -> Path:
        return self.cdi_dir / f"{self.driver}-{uid}.json"


def _cdi_name(claim: PreparedClaim, cpu: int) -> str:
    return f"{device_name(cpu)}-{claim.uid}"
