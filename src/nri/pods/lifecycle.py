"""Pods on a CRI socket, from their requests to their end: images, sandbox, containers; stopped, removed.

A pod that cannot be run whole is removed again, with everything that this run created for it, and nothing else. Its
folder (`nri.pods.folder`) and its cgroup are removed with it, as a kubelet does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.cri.logs import read_log
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError, describe
from nri.host.cgroups import Driver
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

__all__ = ["driver_of", "pull", "remove", "run", "state_folder", "stop"]

Say = Callable[[str], None]
#: How long a call may take that waits for others, in seconds: a registry, a network, a program that is to end.
_PULL_TIMEOUT_S, _CREATION_TIMEOUT_S, _STOP_TIMEOUT_S = 1800.0, 240.0, 30.0
#: How long a container that initializes a pod may take, in seconds, and how often it is asked after.
INIT_S, _POLL_INTERVAL_S = 600.0, 0.1
#: How long a container has to end that does not say it, in seconds.
GRACE_S = 30
_WORKERS = 8
_LOG_LINES = 5


def state_folder() -> str:
    """The folder of pods on this machine; of those who are not root their own."""
    if not os.geteuid():
        return "/var/lib/nri-pods"
    return os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "nri-pods")


def driver_of(cri: CriClient) -> Driver:
    """The cgroup driver of the runtime; of one that does not say it, the plain one."""
    try:
        driver = cri.call("RuntimeConfig", pb.RuntimeConfigRequest()).linux.cgroup_driver
    except RpcError as error:
        if error.code != Code.UNIMPLEMENTED:
            raise
        return Driver.CGROUPFS
    return Driver.SYSTEMD if driver == pb.SYSTEMD else Driver.CGROUPFS


def run(
    cri: CriClient,
    pod: PodRequest,
    report: Say,
    init_s: float = INIT_S,
    hold_signals: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> str:
    """Run a pod with all its containers; its id. One that fails is removed again, and the NriError says why.

    Args:
        cri: the runtime's CRI socket.
        pod: the pod.
        report: gets lines about the progress.
        init_s: how long each container that initializes it may take, in seconds.
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
            with hold_signals():  # or nobody would know the id of a sandbox that the runtime still creates
                pod_id = cri.call("RunPodSandbox", request, _CREATION_TIMEOUT_S).pod_sandbox_id
                folder.set_pod_id(home, pod_id)
        _set_address(cri, pod_id, pod)
        for container in pod.containers:
            _start(cri, pod_id, pod, container, report, init_s)
    except BaseException as error:
        outcome = _undo(cri, pod, pod_id, home)
        if not isinstance(error, (NriError, OSError)):
            raise
        text = describe(error)
        raise NriError(f"{text}. {outcome}") from None
    return pod_id


def _undo(cri: CriClient, pod: PodRequest, pod_id: str, home: Path) -> str:
    """Remove what a failed run created; returns a sentence about it for the error."""
    try:
        _remove(cri, pod_id, home, pod.name)
    except (NriError, OSError) as error:
        step = f"nri pod rm -f {pod.name}" if pod_id else f"see {home}"
        return f"Pod {pod.name} could not be removed again: {describe(error)}. Try: {step}"
    return f"Pod {pod.name} was removed again"


def pull(cri: CriClient, pod: PodRequest, container: ContainerRequest, report: Say) -> None:
    """Bring a container's image, if it is to be brought."""
    image = container.config.image
    status = cri.call("ImageStatus", pb.ImageStatusRequest(image=image)).image
    if container.pull == "Never" and not status.id:
        raise NriError(f"{container.place}: container {container.name}: no image {plain(image.image)} is here, and "
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
    as_image_says = container.non_root and not container.config.linux.security_context.HasField("run_as_user")
    if as_image_says and not status.uid.value and status.username in ("", "root", "0"):
        words = f"runAsNonRoot: {plain(image.image)} runs as root; write runAsUser"
        raise NriError(f"{container.place}: container {container.name}: {words}")


def _set_address(cri: CriClient, pod_id: str, pod: PodRequest) -> None:
    """Put the pod's address into the variables that are to have it."""
    if not any(container.addressed for container in pod.containers):
        return
    status = cri.call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=pod_id)).status
    for container in pod.containers:
        for variable in container.config.envs:
            if variable.key in container.addressed:
                variable.value = status.network.ip.encode()


def _start(
    cri: CriClient, pod_id: str, pod: PodRequest, container: ContainerRequest, report: Say, init_s: float
) -> None:
    """Create and start a container; one that initializes the pod is waited for."""
    for sub_path in container.sub_paths:  # not earlier: containers that initialize the pod may create them
        bind(sub_path)
    request = pb.CreateContainerRequest(pod_sandbox_id=pod_id, config=container.config, sandbox_config=pod.config)
    try:
        identity = cri.call("CreateContainer", request, _CREATION_TIMEOUT_S).container_id
        cri.call("StartContainer", pb.StartContainerRequest(container_id=identity), _CREATION_TIMEOUT_S)
    except RpcError as error:
        raise NriError(f"{container.place}: container {container.name}: {error}") from None
    if not container.first:
        return
    report(f"waiting for container {container.name}, which initializes the pod")
    deadline = time.monotonic() + init_s
    while True:
        status = cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=identity)).status
        if status.state == pb.CONTAINER_EXITED:
            break
        if time.monotonic() > deadline:
            raise NriError(
                f"{container.place}: container {container.name}: not at its end after {init_s:g} s; --timeout says more"
            )
        time.sleep(_POLL_INTERVAL_S)
    if status.exit_code:
        log_tail = _log_tail(status.log_path)
        raise NriError(f"{container.place}: container {container.name}: exit code {status.exit_code}{log_tail}")


def _log_tail(path: str) -> str:
    """The last lines of a log, for an error."""
    try:
        lines = [entry.text.decode(errors="replace") for entry in read_log(path, tail=_LOG_LINES)] if path else []
    except OSError:
        return ""
    return "; it said: " + plain(" / ".join(lines)) if lines else ""


def stop(cri: CriClient, pod: Any, containers: list[Any], grace_s: int | None) -> None:
    """Stop a pod of the runtime's list with its containers: each may end by itself for so long, in seconds.

    None: as long as its manifest says, or else 30 s.
    """

    def end(one: Any) -> None:
        seconds = grace_s
        if seconds is None:
            grace = one.annotations.get(GRACE, "")
            seconds = int(grace) if grace.isascii() and grace.isdigit() and len(grace) < 10 else GRACE_S
        request = pb.StopContainerRequest(container_id=one.id, timeout=seconds)
        cri.call("StopContainer", request, seconds + _STOP_TIMEOUT_S)

    running = [one for one in containers if one.pod_sandbox_id == pod.id and one.state == pb.CONTAINER_RUNNING]
    with ThreadPoolExecutor(_WORKERS) as threads:
        for future in [threads.submit(end, one) for one in running]:
            future.result()
    _stop_sandbox(cri, pod.id)


def _stop_sandbox(cri: CriClient, pod_id: str) -> None:
    """Stop a sandbox; as a kubelet does, once more if a container of it was just ending by itself."""
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while True:
        try:
            cri.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod_id), _CREATION_TIMEOUT_S)
            return
        except RpcError as error:
            if error.code != Code.UNKNOWN or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_INTERVAL_S)


def remove(cri: CriClient, pod: Any, pods_folder: str) -> None:
    """Remove a pod of the runtime's list, whatever runs in it, and what `run` created for it below `pods_folder`."""
    uid, name = pod.metadata.uid, f"{pod.metadata.namespace}/{pod.metadata.name}"
    home = Path(pods_folder, uid) if uid and "/" not in uid and uid not in (".", "..") else None
    _remove(cri, pod.id, home, name)


def _remove(cri: CriClient, pod_id: str, home: Path | None, name: str) -> None:
    """Stop a sandbox, remove the folder of its pod, then the sandbox: a second attempt finds it if this one fails."""
    if pod_id:
        _stop_sandbox(cri, pod_id)
    if home is not None:
        folder.remove(home, name, pod_id)
    if pod_id:
        cri.call("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=pod_id), _CREATION_TIMEOUT_S)
