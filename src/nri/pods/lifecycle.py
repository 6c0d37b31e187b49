"""Run, stop and remove pods on a CRI socket.

A pod that cannot be started completely is removed again, with everything that this run created for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.config.syntax import parse_json
from nri.cri.logs import read_log
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError, describe
from nri.host.cgroups import Driver
from nri.kube.kubelet import SECCOMP_ROOT
from nri.pods import folder
from nri.pods.containers import GRACE
from nri.pods.sub_paths import bind
from nri.pods.volumes import prepare
from nri.text import plain
from nri.ttrpc.codes import Code

if TYPE_CHECKING:
    from nri.cri.client import CriClient
    from nri.pods.containers import ContainerRequest
    from nri.pods.requests import PodRequest

ReportLine = Callable[[str], None]
#: Timeout of a call that waits for a registry.
_PULL_TIMEOUT_S = 1800.0
#: Timeout of a call that waits for a network.
_NETWORK_TIMEOUT_S = 240.0
#: Timeout of a call that waits for a program to end, in addition to the grace period.
_STOP_TIMEOUT_S = 30.0
#: Timeout of an init container.
INIT_S = 600.0
#: Interval of polling an init container's status.
_POLL_INTERVAL_S = 0.1
#: The default termination grace period in seconds.
GRACE_S = 30
_WORKERS = 8
_LOG_LINES = 5


def state_folder() -> str:
    """The folder of pods on this machine, or this user's folder if the user is not root."""
    if not os.geteuid():
        return "/var/lib/nri-pods"
    return os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "nri-pods")


def driver_of(cri: CriClient) -> Driver:
    """The cgroup driver of the runtime. Returns cgroupfs if the runtime does not report it."""
    try:
        driver = cri.call("RuntimeConfig", pb.RuntimeConfigRequest()).linux.cgroup_driver
    except RpcError as error:
        if error.code != Code.UNIMPLEMENTED:
            raise
        return Driver.CGROUPFS
    return Driver.SYSTEMD if driver == pb.SYSTEMD else Driver.CGROUPFS


def seccomp_root(cri: CriClient) -> str:
    """The folder of seccomp profiles that manifests name: the folder that the runtime reports, else the kubelet's."""
    try:
        info = cri.call("Status", pb.StatusRequest(verbose=True)).info
        root = parse_json(info["config"])["containers"]["seccomp_root"]
    except RpcError as error:
        if error.code != Code.UNIMPLEMENTED:
            raise
        return SECCOMP_ROOT
    except (ValueError, KeyError, TypeError):
        return SECCOMP_ROOT
    return root if isinstance(root, str) and root.startswith("/") else SECCOMP_ROOT


def run(
    cri: CriClient,
    pod: PodRequest,
    report: ReportLine,
    init_s: float = INIT_S,
    hold_signals: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> str:
    """Run a pod with all its containers. Returns its id. If it fails, the pod is removed and NriError is raised.

    Args:
        cri: the runtime's CRI socket.
        pod: the pod.
        report: called with lines about the progress.
        init_s: timeout of each init container in seconds.
        hold_signals: a context in which no signal interrupts, such as `nri.service.interruption.SignalStop.held`.
    """
    home = Path(pod.config.log_directory).parent
    try:
        lock = folder.create(home, pod.name, pod.config.linux.cgroup_parent)
    except OSError as error:
        raise NriError(f"pod {pod.name}: {error.filename or home}: {error.strerror or error}") from None
    pod_id: str = ""
    try:
        with lock:
            for container in {c.name: c for c in pod.containers}.values():
                pull(cri, pod, container, report)
            for volume in pod.volumes:
                prepare(volume)
            request = pb.RunPodSandboxRequest(config=pod.config, runtime_handler=pod.handler)
            with hold_signals():  # otherwise the id of a sandbox that is being created could be lost
                pod_id = cri.call("RunPodSandbox", request, _NETWORK_TIMEOUT_S).pod_sandbox_id
                folder.set_pod_id(home, pod_id)
        _set_address(cri, pod_id, pod)
        for container in pod.containers:
            _start_container(cri, pod_id, pod, container, report, init_s)
    except BaseException as error:
        outcome = _undo(cri, pod, pod_id, home)
        if not isinstance(error, (NriError, OSError)):
            raise
        text = describe(error)
        raise NriError(f"{text}. {outcome}") from None
    return pod_id


def _undo(cri: CriClient, pod: PodRequest, pod_id: str, home: Path) -> str:
    """Remove the pod of a failed run. Returns a sentence for the error."""
    try:
        _remove(cri, pod_id, home, pod.name)
    except (NriError, OSError) as error:
        step = f"nri pod rm -f {pod.name}" if pod_id else f"see {home}"
        return f"Pod {pod.name} could not be removed: {describe(error)}. Try: {step}"
    return f"Pod {pod.name} was removed"


def pull(cri: CriClient, pod: PodRequest, container: ContainerRequest, report: ReportLine) -> None:
    """Pull a container's image, according to its pull policy."""
    image = container.config.image
    status = cri.call("ImageStatus", pb.ImageStatusRequest(image=image)).image
    if container.pull == "Never" and not status.id:
        raise NriError(f"{container.place}: container {container.name}: image {plain(image.image)} not found, and "
                      "imagePullPolicy is Never")  # fmt: skip
    if container.pull == "Always" or not status.id:
        report(f"pulling {image.image}")
        try:
            cri.call("PullImage", pb.PullImageRequest(image=image, sandbox_config=pod.config), _PULL_TIMEOUT_S)
        except RpcError as error:
            raise NriError(
                f"{container.place}: container {container.name}: image {plain(image.image)}: {error}"
            ) from None
        status = cri.call("ImageStatus", pb.ImageStatusRequest(image=image)).image
    must_check_image_user = container.non_root and not container.config.linux.security_context.HasField("run_as_user")
    if must_check_image_user and not status.uid.value and status.username in ("", "root", "0"):
        words = f"runAsNonRoot: {plain(image.image)} runs as root; set runAsUser"
        raise NriError(f"{container.place}: container {container.name}: {words}")


def _set_address(cri: CriClient, pod_id: str, pod: PodRequest) -> None:
    """Set the environment variables with the pod's address as value."""
    if not any(container.address_variables for container in pod.containers):
        return
    status = cri.call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=pod_id)).status
    for container in pod.containers:
        for variable in container.config.envs:
            if variable.key in container.address_variables:
                variable.value = status.network.ip.encode()


def _start_container(
    cri: CriClient, pod_id: str, pod: PodRequest, container: ContainerRequest, report: ReportLine, init_s: float
) -> None:
    """Create and start a container. Wait for an init container to end."""
    for sub_path in container.sub_paths:  # mounted only now, because init containers may create these paths
        bind(sub_path)
    request = pb.CreateContainerRequest(pod_sandbox_id=pod_id, config=container.config, sandbox_config=pod.config)
    try:
        identity = cri.call("CreateContainer", request, _NETWORK_TIMEOUT_S).container_id
        cri.call("StartContainer", pb.StartContainerRequest(container_id=identity), _NETWORK_TIMEOUT_S)
    except RpcError as error:
        raise NriError(f"{container.place}: container {container.name}: {error}") from None
    if not container.first:
        return
    report(f"waiting for init container {container.name}")
    deadline = time.monotonic() + init_s
    while True:
        status = cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=identity)).status
        if status.state == pb.CONTAINER_EXITED:
            break
        if time.monotonic() > deadline:
            raise NriError(
                f"{container.place}: init container {container.name} has not ended after {init_s:g} s; see --timeout"
            )
        time.sleep(_POLL_INTERVAL_S)
    if status.exit_code:
        log_tail = _log_tail(status.log_path)
        raise NriError(f"{container.place}: container {container.name}: exit code {status.exit_code}{log_tail}")


def _log_tail(path: str) -> str:
    """The last lines of a container's log, for an error."""
    try:
        lines = [entry.text.decode(errors="replace") for entry in read_log(path, tail=_LOG_LINES)] if path else []
    except OSError:
        return ""
    return "; its log ends with: " + plain(" / ".join(lines)) if lines else ""


def stop(cri: CriClient, pod: Any, containers: list[Any], grace_s: int | None) -> None:
    """Stop a pod, given its entry in the runtime's list, and its containers.

    `grace_s` is the time in seconds for each container to end by itself. None means the grace period from its manifest,
    or 30 s without one.
    """

    def stop_container(container: Any) -> None:
        seconds = grace_s
        if seconds is None:
            grace = container.annotations.get(GRACE, "")
            seconds = int(grace) if grace.isascii() and grace.isdigit() and len(grace) < 10 else GRACE_S
        request = pb.StopContainerRequest(container_id=container.id, timeout=seconds)
        cri.call("StopContainer", request, seconds + _STOP_TIMEOUT_S)

    running = [one for one in containers if one.pod_sandbox_id == pod.id and one.state == pb.CONTAINER_RUNNING]
    with ThreadPoolExecutor(_WORKERS) as threads:
        for future in [threads.submit(stop_container, one) for one in running]:
            future.result()
    _stop_sandbox(cri, pod.id)


def _stop_sandbox(cri: CriClient, pod_id: str) -> None:
    """Stop a sandbox. As in the kubelet, try again if a container was just ending by itself."""
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while True:
        try:
            cri.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod_id), _NETWORK_TIMEOUT_S)
            return
        except RpcError as error:
            if error.code != Code.UNKNOWN or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_INTERVAL_S)


def remove(cri: CriClient, pod: Any, pods_folder: str) -> None:
    """Remove a pod, given its entry in the runtime's list, even if it runs, and its folder below `pods_folder`."""
    uid, name = pod.metadata.uid, f"{pod.metadata.namespace}/{pod.metadata.name}"
    home = Path(pods_folder, uid) if uid and "/" not in uid and uid not in (".", "..") else None
    _remove(cri, pod.id, home, name)


def _remove(cri: CriClient, pod_id: str, home: Path | None, name: str) -> None:
    """Stop a sandbox, remove the folder of its pod, then the sandbox, so that a failed removal can be repeated."""
    if pod_id:
        _stop_sandbox(cri, pod_id)
    if home is not None:
        folder.remove(home, name, pod_id)
    if pod_id:
        cri.call("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=pod_id), _NETWORK_TIMEOUT_S)
