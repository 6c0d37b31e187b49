"""The gRPC services for the kubelet: registration of the driver, and the preparation of claims.

The kubelet watches its folder `plugins_registry`, asks each socket there who it is, and connects to the endpoint in the
answer. It does so again when the socket is replaced, and when the kubelet restarts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import grpc

from nri.cri.server import SocketServer, bind
from nri.errors import NriError
from nri.plugins.dra_cpu.pb.dra import api_pb2 as dra
from nri.plugins.dra_cpu.pb.registration import api_pb2 as registration
from nri.text import plain
from nri.thread_pool import ThreadPool

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable

    from google.protobuf.message import Message

    _Work = Callable[[dra.Claim, Any], None]

_Response = TypeVar("_Response", dra.NodePrepareResourcesResponse, dra.NodeUnprepareResourcesResponse)
#: The kubelet prepares the claims of several pods at a time.
_THREADS = 8
#: Further calls at a time are refused; the kubelet tries again.
_MAX_CALLS = 64
#: A pod can have 32 claims.
MAX_CLAIMS_IN_CALL = 256
_GRACE_S = 1.0
#: The gRPC service in the words of the registration.
SERVICE = "v1.DRAPlugin"
TYPE = "DRAPlugin"


class Driver(Protocol):
    """What prepares claims. Methods raise NriError or OSError, whose text becomes the claim's error."""

    def prepare(self, namespace: str, name: str, uid: str) -> Iterable[dra.Device]:
        """Prepare a claim, again if necessary, and return its devices."""
        ...

    def unprepare(self, namespace: str, name: str, uid: str) -> None:
        """Release a claim. A claim that is not prepared is not an error."""
        ...


class KubeletSockets:
    """The two sockets of a driver, which are served from the construction to `stop`.

    Args:
        folder: the kubelet's folder.
        name: the driver's name.

    Raises:
        OSError: a socket cannot be created, for example because another process listens on it.
        RuntimeError: gRPC cannot bind a socket.
    """

    def __init__(self, folder: str, name: str, driver: Driver, log: logging.LoggerAdapter[logging.Logger]) -> None:
        self._name, self._driver, self._log = name, driver, log
        self.endpoint = f"{folder}/plugins/{name}/dra.sock"
        self._pool = ThreadPool(_THREADS, "dra")
        self._servers: list[SocketServer] = []
        prepares = {
            "NodePrepareResources": _method(self._prepare, dra.NodePrepareResourcesRequest),
            "NodeUnprepareResources": _method(self._unprepare, dra.NodeUnprepareResourcesRequest),
        }
        registers = {
            "GetInfo": _method(self._info, registration.InfoRequest),
            "NotifyRegistrationStatus": _method(self._take_status, registration.RegistrationStatus),
        }
        try:
            # The registration comes last, because the kubelet then uses the endpoint at once.
            for path, service, handlers in (
                (self.endpoint, dra.DESCRIPTOR.services_by_name["DRAPlugin"].full_name, prepares),
                (
                    f"{folder}/plugins_registry/{name}-reg.sock",
                    registration.DESCRIPTOR.services_by_name["Registration"].full_name,
                    registers,
                ),
            ):
                generic = grpc.method_handlers_generic_handler(service, handlers)
                server = bind(path, self._pool, [generic], folder_mode=0o750, max_calls=_MAX_CALLS)
                self._servers.append(server)
                server.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Remove the sockets, so that the kubelet forgets the driver, and end calls."""
        for ended in [server.stop(_GRACE_S) for server in reversed(self._servers)]:
            ended.wait(2 * _GRACE_S)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _info(self, _: Any, __: Any) -> registration.PluginInfo:
        return registration.PluginInfo(type=TYPE, name=self._name, endpoint=self.endpoint, supported_versions=[SERVICE])

    def _take_status(self, status: registration.RegistrationStatus, _: Any) -> registration.RegistrationStatusResponse:
        if status.plugin_registered:
            self._log.info("registered with the kubelet as %s", self._name)
        else:
            self._log.error("the kubelet refuses the driver: %s", plain(status.error, 300))
        return registration.RegistrationStatusResponse()

    def _prepare(self, request: dra.NodePrepareResourcesRequest, context: Any) -> dra.NodePrepareResourcesResponse:
        def prepare(claim: dra.Claim, entry: dra.NodePrepareResourceResponse) -> None:
            entry.devices.extend(list(self._driver.prepare(claim.namespace, claim.name, claim.uid)))

        return self._answer_claims(request, context, dra.NodePrepareResourcesResponse(), prepare)

    def _unprepare(
        self, request: dra.NodeUnprepareResourcesRequest, context: Any
    ) -> dra.NodeUnprepareResourcesResponse:
        def unprepare(claim: dra.Claim, _: Any) -> None:
            self._driver.unprepare(claim.namespace, claim.name, claim.uid)

        return self._answer_claims(request, context, dra.NodeUnprepareResourcesResponse(), unprepare)

    def _answer_claims(
        self, request: Any, context: Any, response: _Response, work: Callable[[dra.Claim, Any], None]
    ) -> _Response:
        """Call `work` with each claim and its entry in the response. A claim that fails has its reason there."""
        if len(request.claims) > MAX_CLAIMS_IN_CALL:
            reason = f"{len(request.claims)} claims in one call; the limit is {MAX_CLAIMS_IN_CALL}"
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
        for claim in request.claims:
            entry = response.claims[claim.uid]
            try:
                work(claim, entry)
            except (NriError, OSError) as error:
                reason = plain(f"claim {claim.namespace}/{claim.name} is not processed: {error}", 1000)
                self._log.warning("%s", reason)
                entry.error = reason
        return response


def _method(answer: Callable[[Any, Any], Message], request: type[Message]) -> Any:
    return grpc.unary_unary_rpc_method_handler(answer, request.FromString, lambda message: message.SerializeToString())
