"""Mode "hooks": the agent as a hook server of Koordinator's runtime proxy.

The proxy finds the agent by a registration file. The agent writes a missing file again. Under the failure policy
"Ignore" the file is removed at an orderly stop. Under "Fail" it stays, so that no pod passes without a decision while
the agent is replaced. The socket is for root only, because requests contain the environment of containers. A changed
rule is applied to pods and containers that were started after the agent.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from nri.agent.koordinator.hook_calls import HookCalls, HookRefused, stages_of
from nri.agent.parts import Parts
from nri.agent.settings import AgentSettings
from nri.cri.server import SocketServer, bind
from nri.errors import NriError
from nri.files import read_regular, write_whole
from nri.proxy.hook_servers.messages import METHODS, SERVICE, Method, fields_of
from nri.thread_pool import ThreadPool

#: The name of the registration file in the proxy's folder.
FILE_NAME: Final = "nri-agent.json"
#: The maximum number of calls at the same time; further calls wait.
_CALLS = 32
#: The interval in seconds between checks of the registration file.
CHECK_INTERVAL_S = 60.0
#: How long calls in progress may still take when the server stops, in seconds.
_STOP_S = 2.0

log = logging.getLogger("nri.agent.hooks")


class HooksTransport:
    """A server of RuntimeHookService at a unix socket, registered with Koordinator's proxy.

    Attributes:
        name: "hooks".
    """

    name = "hooks"
    values = None

    def __init__(self, settings: AgentSettings, parts: Parts) -> None:
        self._settings = settings.hooks
        self._parts = parts
        self._calls = HookCalls(parts, self._settings.runtime)
        self._socket = self._settings.socket.removeprefix("unix://")
        self._file = self._settings.registration_folder / FILE_NAME
        self._running: tuple[SocketServer, ThreadPool, threading.Thread] | None = None
        self._work, self._end = threading.Event(), threading.Event()
        self._problem = ""

    def start(self) -> None:
        """Serve and register; the proxy may start later. Raises NriError if the socket cannot be bound."""
        if self._running is not None:
            return
        pool = ThreadPool(_CALLS, thread_name_prefix="hooks")
        try:
            server = bind(self._socket, pool, [_handlers(self._calls)])
        except (OSError, RuntimeError) as error:
            pool.shutdown()
            raise NriError(f'mode "hooks": cannot listen at {self._socket}: {error}') from None
        server.start()
        self._end.clear()
        self._register()
        worker = threading.Thread(target=self._run, name="hooks rules", daemon=True)
        worker.start()
        self._running = server, pool, worker

    def stop(self) -> None:
        """Stop serving. A second call has no effect."""
        running, self._running = self._running, None
        if running is None:
            return
        server, pool, worker = running
        if self._settings.failure_policy != "Fail":
            self._remove_registration()
        self._end.set()
        self._work.set()
        server.stop(_STOP_S).wait()
        pool.shutdown(wait=False)
        worker.join()

    def rules_changed(self, kinds: frozenset[str]) -> None:  # noqa: ARG002  every kind may affect every pod
        """Request new decisions for running pods and containers."""
        self._work.set()

    def health(self) -> tuple[bool, str]:
        """Return whether the agent serves and is registered, and a description."""
        if self._running is None:
            return False, "not started"
        if self._problem:
            return False, self._problem
        return True, f"serving at {self._socket}, registered as {self._file}"

    def _run(self) -> None:
        while not self._end.is_set():
            due = self._work.wait(CHECK_INTERVAL_S)
            self._work.clear()
            if self._end.is_set():
                return
            try:
                if not due:
                    self._register()
                    continue
                log.info("rules have changed: applied to %d pods and containers", self._calls.apply_again())
            except Exception:  # the thread also maintains the registration
                log.exception("cannot apply changed rules to all pods, or write the registration")

    def _register(self) -> None:
        """Write the registration file if it is missing or has other content."""
        text = self._registration()
        try:
            with suppress(FileNotFoundError):
                if text and read_regular(self._file, len(text.encode())) == text.encode():
                    self._problem = ""
                    return
            self._file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            if text:
                write_whole(self._file, text.encode(), 0o644, sync=False)
            else:
                self._file.unlink(missing_ok=True)
            self._problem = ""
        except (OSError, ValueError) as error:
            self._problem = f"cannot write {self._file}: {error}"
            log.warning("%s", self._problem)

    def _remove_registration(self) -> None:
        """Remove the registration file, unless another agent has replaced it."""
        with suppress(OSError):
            text = self._registration().encode()
            if read_regular(self._file, len(text)) == text:
                self._file.unlink()

    def _registration(self) -> str:
        """Return the content of the registration file, or "" if no hook is enabled."""
        stages = stages_of(self._parts.decisions.node)
        if not stages:
            return ""
        document = {
            "remote-endpoint": self._settings.endpoint.removeprefix("unix://") or os.path.abspath(self._socket),
            "failure-policy": self._settings.failure_policy,
            "runtime-hooks": stages,
        }
        return json.dumps(document, indent="\t") + "\n"


def _handlers(calls: HookCalls) -> grpc.GenericRpcHandler:
    handlers = {
        method.name: grpc.unary_unary_rpc_method_handler(
            _handler_for(calls, stage, method),
            request_deserializer=method.request.FromString,
            response_serializer=_bytes,
        )
        for stage, method in METHODS.items()
    }
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _handler_for(calls: HookCalls, stage: str, method: Method) -> Callable[[Message, Any], Message]:
    def answer(request: Message, context: Any) -> Message:
        try:
            return method.response(**calls.answer(stage, fields_of(request)))
        except HookRefused as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except Exception:  # a bug of the agent: log the traceback
            log.exception("%s failed", stage)
            context.abort(grpc.StatusCode.INTERNAL, f"{stage}: the agent failed; see its log")
        raise AssertionError("abort always raises")

    return answer
