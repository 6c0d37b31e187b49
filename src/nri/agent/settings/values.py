"""The agent's settings as frozen values: a class is a table of ``agent.toml``, a field is a key.

Contradicting settings raise ValueError. Durations are seconds, written as a number or as "5s".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from nri.agent.profile import PROFILES, profile_of
from nri.agent.settings.tables import (
    GpuSettings,
    HooksSettings,
    LoopSettings,
    NriSettings,
    PodSettings,
    ProxySettings,
    RuleSettings,
    StandaloneSettings,
    TcSettings,
    TerwaySettings,
    check_sockets,
)
from nri.config import OneOf
from nri.service.settings import HttpSettings

__all__ = [
    "AgentSettings",
    "GpuSettings",
    "HooksSettings",
    "HttpSettings",
    "LoopSettings",
    "Mode",
    "NriSettings",
    "PodSettings",
    "ProxySettings",
    "RuleSettings",
    "Stage",
    "StandaloneSettings",
    "TcSettings",
    "TerwaySettings",
]

ProfileName = Annotated[str, OneOf(lambda: PROFILES)]
Gate = Annotated[str, OneOf(lambda: [gate for name in PROFILES for gate in profile_of(name).gates])]
Mode = Literal["nri", "proxy", "hooks", "standalone"]
#: The stages at which hooks decide; the four in the middle are Koordinator's as well, and no hook decides there.
Stage = Literal[
    "PreRunPodSandbox", "PreCreateContainer", "PreUpdateContainerResources", "PreRemoveRunPodSandbox",
    "PreStartContainer", "PostStartContainer", "PostStopContainer", "PostStopPodSandbox",
    "KubeQoS", "HostApplication",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """All settings of an agent. `AgentSettings()` is an agent without a configuration file.

    Attributes:
        profile: the profile: koordinator or rubik.
        modes: how decisions reach the node; there may be several.
        root: the path of the machine's root file system, for an agent in a container.
        socket: the socket for nri agent explain, health and metrics; for root only.
        log_level: the lowest level that is logged.
        failure_policy: whether an error of a hook stops the other hooks and fails the request.
        disabled_stages: stages at which no hook decides.
        keep_quota: pods with exclusive CPUs keep their CPU quota.
        beside_koordlet: start although a koordlet runs here; both then write the same files.
        compat: "reference" decides exactly as the original system; see docs/deviations.md.
        gates: hooks and strategies that are switched on or off, by name; the profile has the defaults.
        preview: hooks and strategies that decide, record and count without any effect, by name.
    """

    profile: ProfileName = "koordinator"
    modes: tuple[Mode, ...] = ("nri", "standalone")
    root: Path = Path("/")
    socket: str = "/run/nri/agent.sock"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    failure_policy: Literal["Ignore", "Fail"] = "Ignore"
    disabled_stages: tuple[Stage, ...] = ()
    keep_quota: bool = False
    beside_koordlet: bool = False
    compat: Literal["default", "reference"] = "default"
    gates: Mapping[Gate, bool] = field(default_factory=dict)
    preview: tuple[Gate, ...] = ()
    nri: NriSettings = field(default_factory=NriSettings)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    hooks: HooksSettings = field(default_factory=HooksSettings)
    standalone: StandaloneSettings = field(default_factory=StandaloneSettings)
    loops: LoopSettings = field(default_factory=LoopSettings)
    rules: RuleSettings = field(default_factory=RuleSettings)
    pods: PodSettings = field(default_factory=PodSettings)
    gpu: GpuSettings = field(default_factory=GpuSettings)
    terway: TerwaySettings = field(default_factory=TerwaySettings)
    tc: TcSettings = field(default_factory=TcSettings)
    http: HttpSettings = field(default_factory=HttpSettings)

    def __post_init__(self) -> None:
        check_sockets(self, "root", "socket")
        profile = profile_of(self.profile)
        if unknown := self.gates.keys() - profile.gates:
            raise ValueError(f"gates.{min(unknown)} is not a hook or strategy of profile {self.profile}")
        if unknown := set(self.preview) - (profile.gates.keys() - profile.switches.keys()):
            raise ValueError(f"preview: {min(unknown)} is not a hook or strategy of profile {self.profile}")
        if not self.modes:
            raise ValueError("modes is empty; choose nri, proxy, hooks or standalone")
        if self.pods.source == "nri" and not {"nri", "proxy"} & set(self.modes):
            raise ValueError('pods.source = "nri" requires mode nri or proxy, where the plugin learns what runs')
        if len(set(self.modes)) < len(self.modes):
            raise ValueError(f"modes has duplicates: {', '.join(self.modes)}")

    @property
    def cri_socket(self) -> str:
        """The socket of the runtime's CRI, behind the agent's proxy the proxy's runtime endpoint; "" to look for it."""
        return self.pods.cri or (self.proxy.runtime_endpoint if "proxy" in self.modes else "")
