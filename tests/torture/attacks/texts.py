"""Texts that would mean something to a terminal or to whoever reads a log: escapes, newlines, turned directions."""

from __future__ import annotations

from nri.api import messages as m
from nri.api.events import ALL
from nri.api.naming import PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN
from nri.mux.frames import pack
from nri.ttrpc import frames
from nri.ttrpc.envelope import Request, encode_request, request_prefix
from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.hostile import Answer, Refusal, Target

#: A forged line, a cleared screen, a title, a turned text, a bell, C1 controls, and much of it.
EVIL = (
    "x\nWARNING nri.adaptation: plugin 05-steady is gone\r"
    "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066\x9b31m\x00\u2028end"
)
LONG = EVIL + "y" * 100_000


def names(target: Target) -> None:
    """Register with such a name, index and version; ask for methods and services of such names."""

    def turn() -> None:
        for name, idx in ((EVIL, "20"), ("ok", EVIL), ("ok", "\x1b["), (LONG, "20")):
            with target.connect(name, idx) as plugin:
                plugin.register(NRI_version=EVIL)
                assert plugin.reply().code, "such a name was taken"
        with target.connect() as plugin:
            plugin.register(NRI_version=EVIL)
            data = encode_request(request_prefix(LONG, LONG), b"")
            plugin.send(pack(RUNTIME_SERVICE_CONN, frames.pack(3, frames.REQUEST, data)))
            plugin.wait_for("Configure")

    target.again(turn)


def errors(target: Target) -> None:
    """Refuse events with such texts."""
    with target.connect(events=1 << 3 | 1 << 9) as plugin:
        plugin.register(NRI_version=EVIL)
        configured = m.ConfigureResponse(events=plugin.events).SerializeToString()
        plugin.answer(plugin.wait_for("Configure").stream_id, configured)
        plugin.answer(plugin.wait_for("Synchronize").stream_id, b"")
        plugin.serve(target, lambda request: Refusal(7, EVIL if target.count["x"] % 2 else LONG))


def refuses_configure(target: Target) -> None:
    """Refuse Configure, or Synchronize, with such a text."""

    def turn() -> None:
        with target.connect() as plugin:
            if target.count["turns"] % 2:
                plugin.register()
                plugin.answer(plugin.wait_for("Configure").stream_id, Refusal(2, EVIL))
            else:
                plugin.join(Refusal(2, LONG))
            plugin.next(1.0)

    target.again(turn)


def values(target: Target) -> None:
    """Adjust with such values, update containers of such ids, evict with such reasons: what `nri why` shows."""
    update = m.ContainerUpdate(container_id="standing-1")
    update.linux.resources.cpu.cpus = "1"
    update.linux.resources.unified["memory.high\n" + EVIL] = EVIL
    bogus = m.ContainerUpdate(container_id=EVIL)
    bogus.linux.resources.cpu.cpus = EVIL
    evict = [m.ContainerEviction(container_id="standing-1", reason=EVIL), m.ContainerEviction(container_id=EVIL)]
    adjust = m.ContainerAdjustment(env=[m.KeyValue(key="EVIL", value=EVIL)], annotations={"evil": EVIL})
    reply = m.CreateContainerResponse(adjust=adjust, update=[update, bogus], evict=evict).SerializeToString()
    requests = m.UpdateContainersRequest(update=[bogus], evict=evict)

    with target.connect() as plugin:
        plugin.join()

        def answer(request: Request) -> Answer:
            if target.count[request.method] % 5 == 0:
                plugin.ask("UpdateContainers", requests)
            return reply if request.method == "CreateContainer" else b""

        plugin.serve(target, answer)


def reasons(target: Target) -> None:
    """Refuse every container as a validator, with such a reason."""
    verdict = m.ValidateContainerAdjustmentResponse(reject=True, reason=EVIL).SerializeToString()
    with target.connect(events=ALL) as plugin:
        plugin.join().serve(target, lambda entry: verdict if entry.method == "ValidateContainerAdjustment" else b"")


def stray(target: Target) -> None:
    """End connections in ways whose reason quotes what came."""

    def turn() -> None:
        with target.connect() as plugin:
            plugin.register()
            plugin.send(pack(PLUGIN_SERVICE_CONN, frames.pack(1, frames.RESPONSE, EVIL.encode())))
            plugin.next(1.0)

    target.again(turn)


def shown(outcome: Outcome) -> None:
    """The judge looks at what is shown; here: that something was."""
    assert "steady" in outcome.shown, f"`nri why` shows nothing: {outcome.shown[:300]}"


OURS = ("20-hostile",)
ROWS = (
    Attack(
        "names",
        "registers with control characters in name, index, version and method",
        "refused; logged escaped and short",
        names,
        check=shown,
        log_lines=400,
    ),
    Attack(
        "errors",
        "refuses events with control characters, and with 100 kB of them",
        "escaped and cut where they come in",
        errors,
        OURS,
        check=shown,
    ),
    Attack(
        "refuses-configure",
        "refuses Configure and Synchronize with such texts",
        "it does not join; one short line each",
        refuses_configure,
        check=shown,
        log_lines=300,
        short=False,
    ),
    Attack(
        "values",
        "sets such values, ids and reasons",
        "`nri why` shows them escaped",
        values,
        OURS,
        fails=False,
        check=shown,
    ),
    Attack(
        "reasons",
        "refuses as a validator for such a reason",
        "escaped",
        reasons,
        OURS,
        check=shown,
        short=False,
    ),
    Attack(
        "stray",
        "answers Configure with bytes that are no message",
        "it does not join",
        stray,
        check=shown,
        log_lines=300,
        short=False,
    ),
)
