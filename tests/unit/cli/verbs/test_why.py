"""`nri why` against a real admin socket."""

import json
import re
import tempfile
from pathlib import Path

import pytest

from nri.adaptation.admin import SERVICE, Admin
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.audit.recent import Recent
from nri.adaptation.audit.reporting import Reporting
from nri.agent.settings.tables import NriSettings
from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.cli.verbs.why import show_chain, show_policies
from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.errors import PluginRejected, Reject, RpcError
from nri.plugin_policy.policy import Policies
from nri.rules import Rules
from nri.stub.program.session_thread import session_thread
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.recorder import Recorder
from nri.ttrpc import Method, Server, Service
from tests.support.made_plugins import plugin
from tests.unit.cli.dry_engine import TIMEOUT_S, engine, pod_with_container

POLICY = """
["10-a"]
timeout = "1500ms"
required = true
fail_request = ["CreateContainer"]
["20-b"]
shadow = true
allow.fields = ["Env", "Mounts"]
"""
EVENTS = [f"Event{number}" for number in range(13)]
HEALTH = {"plugin": "10-a", "kind": "external", "state": "active", "pid": 7, "events": EVENTS}


@pytest.fixture
def socket():
    provenance = Provenance(clock=lambda: 1_000_000_000.0)
    container = m.Container(id="1f2e3d4c5b6a79881f2e3d4c", name="web", env=["A=0"])
    request = m.CreateContainerRequest(pod=m.PodSandbox(namespace="prod", name="web-1"), container=container)
    reply = m.CreateContainerResponse(adjust=m.ContainerAdjustment(env=[m.KeyValue(key="A", value="1")]))
    replies = [("10-a", reply.SerializeToString())]
    provenance.record("CreateContainer", container.id, request.SerializeToString(), replies)
    with tempfile.TemporaryDirectory(prefix="nri-why-", dir="/tmp") as folder:
        Path(folder, "policy.toml").write_text(POLICY)
        policies = Policies(f"{folder}/policy.toml")
        shown = (provenance, policies, lambda: [HEALTH], Rules.DEFAULT, lambda prefix: prefix == "7")
        served = Admin(f"{folder}/admin.sock", *shown, Recent(Reporting()))
        served.start()
        yield served.path
        served.stop()


def test_the_chain_of_changes_is_a_table(nri, socket):
    result = nri("why", "1f2e", "--admin-socket", socket)
    assert result.returncode == 0, result.stderr
    heading, row = (line.split() for line in result.stdout.splitlines())
    assert heading == ["TIME", "EVENT", "PLUGIN", "FIELD", "KEY", "BEFORE", "AFTER"]
    assert row == ["01:46:40.000", "CreateContainer", "10-a", "Env", "A", '"0"', '"1"']
    assert "container 1f2e3d4c5b6a7 web of pod prod/web-1" in result.stderr


@pytest.mark.parametrize("word", ["web-1", "web", "web-1/web", "prod/web-1", "prod/web-1/web"])
def test_a_container_can_be_named_like_in_pod_logs(nri, socket, word):
    assert nri("why", word, "-q", "--admin-socket", socket).stdout == "10-a\n"


def test_json_has_the_whole_chain_in_one_document(nri, socket):
    result = nri("why", "1f2e", "-o", "json", "--admin-socket", socket)
    tree = json.loads(result.stdout)
    assert (tree["container"], tree["steps"][0]["after"]) == ("1f2e3d4c5b6a79881f2e3d4c", "1")


def test_the_socket_can_come_from_the_environment(nri, socket):
    assert nri("why", "1f2e", env={"NRI_ADMIN_SOCKET": socket}).returncode == 0


def test_plugins_are_shown_with_their_state(nri, socket):
    result = nri("why", "--plugins", "--admin-socket", socket)
    assert result.stdout.splitlines()[1].split()[:3] == ["10-a", "external", "active"]


def test_policies_are_shown_as_a_table_and_in_full_as_json(nri, socket):
    table = nri("why", "--policies", "--admin-socket", socket).stdout.splitlines()
    assert [line.split("  ")[0] for line in table] == ["POLICY", "10-a", "20-b"]
    assert table[1].split() == ["10-a", "1.5s", "yes", "CreateContainer", "no", "on-failure", "everything"]
    assert table[2].split()[:5] == ["20-b", "-", "no", "no", "yes"]
    assert table[2].endswith("fields: Env, Mounts")
    document = json.loads(nri("why", "--policies", "--admin-socket", socket, "-o", "json").stdout)
    assert document["policies"]["10-a"]["required"] is True
    assert nri("why", "--policies", "--admin-socket", socket, "-q").stdout == "10-a\n20-b\n"


def test_quiet_prints_the_plugins_that_changed_the_container(nri, socket):
    assert nri("why", "1f2e", "--admin-socket", socket, "-q").stdout == "10-a\n"
    assert nri("why", "--plugins", "--admin-socket", socket, "-q").stdout == "10-a\n"


def test_unknown_containers_and_containers_older_than_the_history_differ(nri, socket):
    typo, older = (nri("why", word, "--admin-socket", socket) for word in "97")
    assert (typo.returncode, typo.stdout, older.returncode) == (1, "", 1)
    assert 'container "9" not found' in typo.stderr and "nri pod ps" in typo.stderr
    assert 'no history of container "7": histories begin with the start of the runtime, 20' in older.stderr


def test_long_cells_of_a_table_are_cut(nri, socket):
    table = nri("why", "--plugins", "--admin-socket", socket).stdout.splitlines()
    assert max(map(len, table)) <= 160
    assert "..." in table[1]
    assert len(json.loads(nri("why", "--plugins", "--admin-socket", socket, "-o", "json").stdout)[0]["events"]) == 13


def test_without_an_admin_socket_the_error_explains_it(nri, tmp_path):
    result = nri("why", "9", "--admin-socket", str(tmp_path / "none"))
    assert result.returncode == 3
    assert "an admin socket exists only in a runtime that is built on nri and sets admin_socket" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_another_service_at_the_socket_is_an_error(nri):
    with tempfile.TemporaryDirectory(prefix="nri-why-", dir="/tmp") as folder, Server(f"{folder}/s", []):
        result = nri("why", "9", "--admin-socket", f"{folder}/s")
    assert result.returncode == 3
    assert "is not an admin socket" in result.stderr


def test_the_plugin_socket_is_an_error(nri):
    with tempfile.TemporaryDirectory(prefix="nri-why-", dir="/tmp") as folder:
        with FakeRuntime(socket_path=f"{folder}/s"):
            result = nri("why", "--plugins", "--admin-socket", f"{folder}/s")
    assert result.returncode == 3
    assert "/s: the server closed the connection; it may not be an admin socket; an admin" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["c1", "--plugins"], ["--plugins", "--policies"]])
def test_exactly_one_question_is_required(nri, arguments):
    assert nri("why", *arguments).returncode == 2


class Printed:
    """Output for a person that keeps what it is given."""

    human, quiet = True, False

    def __init__(self) -> None:
        self.notes, self.columns, self.rows = [], [], []

    def note(self, text):
        self.notes.append(text)

    def table(self, columns, rows):
        self.columns, self.rows = [column.title for column in columns], list(rows)


STEP = {
    "time": "2026-11-23T10:00:00.000Z",
    "event": "CreateContainer",
    "plugin": "10-a",
    "field": "Env",
    "key": "A",
    "before": None,
    "after": "1",
}
CHAIN = {"container": "c1", "name": "", "pod": "", "steps": [], "notes": [], "forgotten": 0}


def test_notes_and_gaps_of_a_chain_are_shown():
    out = Printed()
    notes = [{"time": "T", "text": "CPUShares clamped"}]
    show_chain(out, {**CHAIN, "steps": [{**STEP, "note": "not applied"}], "notes": notes, "forgotten": 3})
    assert out.columns[-1] == "NOTE"
    assert out.notes == [
        "container c1 (name not known) of pod (not known), on 2026-11-23, times in UTC",
        "T CPUShares clamped",
        "3 older changes no longer stored",
    ]


def test_times_of_one_day_are_shown_without_the_date():
    out, times = Printed(), ("2026-11-23T10:00:00.000Z", "2026-11-23T10:00:01.500Z")
    steps = [{**STEP, "time": time, "note": ""} for time in times]
    show_chain(out, {**CHAIN, "steps": steps})
    assert [row["time"] for row in out.rows] == ["10:00:00.000", "10:00:01.500"]
    assert out.notes[0].endswith(", on 2026-11-23, times in UTC")
    steps[0]["time"] = "2026-11-22T10:00:00.000Z"
    show_chain(out, {**CHAIN, "steps": steps})
    assert [row["time"] for row in out.rows] == ["2026-11-22T10:00:00.000Z", times[1]]


def test_values_of_the_node_agent_name_its_explain_verb():
    out = Printed()
    step = {**STEP, "plugin": f"00-{NriSettings().name}", "note": ""}
    show_chain(out, {**CHAIN, "pod": "shop/web", "steps": [step]})
    assert out.notes[-1] == "for the rules behind the node agent's changes: nri agent explain shop/web"


def test_a_container_without_changes_is_reported():
    out = Printed()
    show_chain(out, CHAIN)
    assert out.notes[-1] == "no plugin changed anything"


@pytest.mark.parametrize(
    ("path", "error", "notes"),
    [
        ("", "", ["no policies: no file is configured"]),
        ("/p.toml", "", ["no policies: /p.toml"]),
        ("/p.toml", "line 3", ["the file's current content is not used: line 3", "no policies: /p.toml"]),
    ],
)
def test_without_a_policy_the_reason_is_shown(path, error, notes):
    out = Printed()
    show_policies(out, {"policies": {}, "path": path, "error": error})
    assert out.notes == notes


def test_a_refused_container_has_plugin_reason_and_time(nri, socket, tmp_path):
    with Recorder(tmp_path / "traces") as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(plugin("license", create_container=refuse), "30")
        with pytest.raises(PluginRejected):
            runtime.create_container(make_pod(name="web-2"), make_container(id="c2", name="db"))
    result = nri("why", "web-2/db", "--trace", str(tmp_path / "traces"))
    assert (result.returncode, "no plugin changed" in result.stderr) == (0, False)
    assert re.fullmatch(r"not created, at 20\S+Z: plugin 30-license refused: none left\n", result.stdout)
    tree = json.loads(nri("why", "web-2/db", "--trace", str(tmp_path / "traces"), "-o", "json").stdout)
    assert (tree["container"], tree["refused"]["reason"]) == ("c2", "plugin 30-license refused: none left")


def test_a_container_that_could_not_be_created_is_explained(nri, tmp_path):
    def adjust(_, container):
        if container.name == "refused":
            raise Reject("none left")
        adjustment = Adjustment().add_env("A", "1")
        return adjustment.add_cdi_device("example.com/none=0") if container.name == "broken" else adjustment

    with tempfile.TemporaryDirectory(prefix="nri-why-", dir="/tmp") as folder:
        plugged = plugin("sets", create_container=adjust), f"{folder}/nri.sock", "10", 30.0
        with (
            engine(Path(folder), "--record", str(tmp_path)) as process,
            CriClient(f"{folder}/cri.sock") as cri,
            session_thread(*plugged),
        ):
            pod_with_container(cri, Path(folder))
            (pod,) = cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items
            for name in ("refused", "broken"):
                config = pb.ContainerConfig(metadata={"name": name}, image={"image": "busybox"}, log_path=name)
                with pytest.raises(RpcError):
                    cri.call("CreateContainer", pb.CreateContainerRequest(pod_sandbox_id=pod.id, config=config))
            where = "--admin-socket", f"{folder}/admin.sock", "-o", "json"
            message = {name: json.loads(nri("why", f"web/{name}", *where).stdout) for name in ("refused", "broken")}
            process.terminate()  # a kill would cost the recording its last second
            assert process.wait(TIMEOUT_S) == 0
    assert message["refused"]["refused"]["reason"].endswith("refused: none left")
    assert re.match(
        "the runtime failed after the plugins' answers: .*CDI device example.com/none=0",
        message["broken"]["refused"]["reason"],
    )
    changed = {step["key"]: step["note"] for step in message["broken"]["steps"]}
    assert changed == dict.fromkeys(("A", "example.com/none=0"), "not applied: the container was not created")
    recorded = nri("why", "web/broken", "--trace", str(tmp_path))
    assert "StopContainer: the container never ran: if its creation failed" in recorded.stderr
    assert "never ran" not in nri("why", "web/refused", "--trace", str(tmp_path)).stderr


def refuse(*_):
    raise Reject("none left")


def test_a_damaged_recording_is_read_and_reported(nri, tmp_path):
    with Recorder(tmp_path) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.create_container(make_pod(name="web-2"), make_container(id="c2", name="db"))
    with next(tmp_path.glob("*.nritrace")).open("ab") as file:
        file.write(b"garbage" * 20)
    result = nri("why", "db", "--trace", str(tmp_path))
    assert result.returncode == 1
    assert "container c2 db of pod default/web-2" in result.stderr and "at byte" in result.stderr


def test_questions_that_a_recording_cannot_answer_are_errors(nri, socket, tmp_path):
    assert "--trace requires a CONTAINER" in nri("why", "--plugins", "--trace", str(tmp_path)).stderr
    result = nri("why", "db", "--trace", str(tmp_path))
    assert (result.returncode, "no trace (*.nritrace) in this folder" in result.stderr) == (2, True)
    assert "read it with --trace DIR" in nri("why", "9", "--admin-socket", socket).stderr


#: Answers to all questions that our runtimes never give.
ODD: list[dict[str, object]] = [
    {}, {"plugins": None, "policies": 5, "error": ""}, {"plugins": [1], "policies": {"a": {}}, "steps": 7},
    {"plugins": 5, "name": "", "pod": "", "container": 5, "steps": [{"plugin": 1}]},
]  # fmt: skip


@pytest.mark.parametrize("answer", ODD, ids=str)
@pytest.mark.parametrize("words", [("why", "web"), ("why", "--plugins"), ("why", "--policies")], ids=" ".join)
def test_an_invalid_reply_is_an_error_of_one_line(nri, words, answer):
    with tempfile.TemporaryDirectory(prefix="nri-why-", dir="/tmp") as folder:
        path = f"{folder}/admin.sock"
        methods = {name: Method(lambda _: json.dumps(answer).encode()) for name in ("Why", "Plugins", "Policies")}
        with Server(path, [Service(SERVICE, methods)]):
            result = nri(*words, "--admin-socket", path)
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (3, "", 1), result.stderr
    assert f"{path} is not an admin socket: the reply lacks expected fields" in result.stderr
