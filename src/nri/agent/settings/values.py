"""The agent's settings as frozen values: a class is a section of ``agent.toml``, a field is a key.

Contradictory settings raise ValueError. Durations are seconds, written as a number or as "5s".
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
#: The stages that can be disabled. The four in the middle line exist in Koordinator's protocol; no hook uses them.
Stage = Literal[
    "PreRunPodSandbox", "PreCreateContainer", "PreUpdateContainerResources", "PreRemoveRunPodSandbox",
    "PreStartContainer", "PostStartContainer", "PostStopContainer", "PostStopPodSandbox",
    "KubeQoS", "HostApplication",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """All settings of an agent. `AgentSettings()` has the default values.

    Attributes:
        profile: the set of hooks and strategies: koordinator or rubik.
        modes: how decisions reach the node; modes can be combined.
        root: the path of the machine's root file system, for an agent in a container.
        socket: the socket for nri agent explain, health and metrics; only root can connect.
        log_level: the lowest level that is logged.
        failure_policy: whether an error of a hook stops the other hooks and fails the request.
        disabled_stages: stages at which no hook decides.
        keep_quota: keep the CPU quota of pods with exclusive CPUs.
        beside_koordlet: start even if koordlet runs on this machine; both then write the same files.
        compat: "reference" decides exactly as Koordinator or rubik; see docs/deviations-agent.md.
        gates: hooks and strategies to switch on or off, by name; the profile has the defaults.
        preview: hooks and strategies whose decisions are recorded and counted, but not applied.
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
        if self.rules.source == "apiserver" and not all(kind.in_api for kind in profile.kinds.values()):
            raise ValueError(
                f'rules.source = "apiserver": the API server has no rules of profile {self.profile}; use "files"'
            )
        if not self.modes:
            raise ValueError("modes is empty; choose nri, proxy, hooks or standalone")
        if self.pods.source == "nri" and not {"nri", "proxy"} & set(self.modes):
            raise ValueError('pods.source = "nri" requires mode nri or proxy, whose plugin reports the pods')
        if len(set(self.modes)) < len(self.modes):
            raise ValueError(f"modes has duplicates: {', '.join(self.modes)}")

    @property
    def cri_socket(self) -> str:
        """The socket of the runtime's CRI. In mode proxy, the default is the runtime's endpoint; "" means to search."""
        return self.pods.cri or (self.proxy.runtime_endpoint if "proxy" in self.modes else "")
