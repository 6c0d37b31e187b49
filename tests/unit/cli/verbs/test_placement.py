"""`nri placement` on a copy of a machine's /sys."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.plugins.balloons.plugin import BalloonsPlugin
from nri.plugins.topology_aware.plugin import TopologyAwarePlugin
from nri.service.client import ask as ask_socket
from nri.testing import FakeRuntime
from tests.support.host_trees import write_files
from tests.unit.placement.placing import ask, create, pod, started

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    image: shop
    resources: {limits: {cpu: "2", memory: 1Mi}}
  - name: huge
    image: shop
    resources: {limits: {cpu: "9", memory: 1Mi}}
"""


@pytest.fixture
def machine(tmp_path):
    cpu, node = "sys/devices/system/cpu", "sys/devices/system/node"
    files = {f"{cpu}/online": "0-3", f"{node}/online": "0", f"{node}/node0/cpulist": "0-3"}
    files |= {f"{node}/node0/meminfo": "Node 0 MemTotal: 1000000 kB", f"{node}/node0/distance": "10"}
    for number in range(4):
        files |= {f"{cpu}/cpu{number}/topology/thread_siblings_list": str(number)}
        files |= {f"{cpu}/cpu{number}/topology/physical_package_id": "0"}
    write_files(tmp_path / "machine", files)
    (tmp_path / "pods.yaml").write_text(POD)
    return tmp_path


def simulate(nri, folder, policy: str, *more: str):
    (folder / "policy.yaml").write_text(policy)
    files = ("--machine", str(folder / "machine"), "--policy", str(folder / "policy.yaml"))
    return nri("placement", "simulate", *files, "--pods", str(folder / "pods.yaml"), *more)


def test_containers_are_placed_or_refused_with_the_reason(nri, machine) -> None:
    policy = "kind: TopologyAwarePolicy\nspec: {reservedResources: {cpu: 'cpuset:0'}}\n"
    result = simulate(nri, machine, policy, "-o", "json")
    main, huge = json.loads(result.stdout)
    assert result.returncode == 1, result.stderr
    assert main == {"container": "default/web/main", "cpus": "1-2", "mems": "0", "shares": 2048, "refused": ""}
    assert huge["refused"].startswith("socket #0 lacks")


BALLOONS = "kind: BalloonsPolicy\nspec: {balloonTypes: [{name: a, %s}]}\n"


def test_an_invalid_policy_is_an_error_of_one_line(nri, machine) -> None:
    for policy, words in (
        ("kind: Pod\nspec: {}\n", 'policy.yaml: kind: "Pod" is not a policy; write kind: TopologyAwarePolicy or'),
        (
            "reservedResources: {}\n",
            "policy.yaml: kind is missing; write kind: TopologyAwarePolicy or BalloonsPolicy, and put",
        ),
        ("[]\n", "policy.yaml: kind is missing; write kind: TopologyAwarePolicy or BalloonsPolicy, with a spec"),
        ("kind: [Pod]\n", "is not a policy"),
        ("kind: TopologyAwarePolicy\nspec:\n", "policy.yaml:2: reservedResources.cpu: missing"),
        ("kind: BalloonsPolicy\nballoonTypes: []\n", "policy.yaml: spec is missing; put the keys of the policy below"),
        ("kind: BalloonsPolicy\nspec: {balloonType: []}\n", "policy.yaml:2: balloonType: unknown key (did you mean"),
        ("kind: BalloonsPolicy\nspec: {reservedResources: {cpu: 0-1}}\n", "policy.yaml:2: reservedResources.cpu: "),
        (
            "kind: TopologyAwarePolicy\nspec: {reservedResources: {cpu: 99}}\n",
            "reservedResources.cpu: 99: 0-3 has fewer than",
        ),
        (BALLOONS % "shareIdleCPUsInSame: x", 'one of "", system'),
        (
            BALLOONS % "matchExpressions: [{key: name, operator: Match}]",
            'matchExpressions[0].operator: expected one of 11 words, not "Match" (did you mean "Matches"?)',
        ),
    ):
        result = simulate(nri, machine, policy)
        assert (result.returncode, words in result.stderr) == (2, True), result.stderr


def test_a_folder_without_a_machine_is_an_error_of_one_line(nri, machine) -> None:
    result = nri("placement", "simulate", "--machine", str(machine / "none"), "--policy", "x", "--pods", "y")
    assert result.returncode != 0
    assert "none: folder or archive not found" in result.stderr
    (machine / "none").mkdir()
    result = nri("placement", "simulate", "--machine", str(machine / "none"), "--policy", "x", "--pods", "y")
    assert "no CPUs found in sys/devices/system/cpu" in result.stderr


def on_paper(nri, folder, verb: str, *more: str):
    """`show` or `explain` of the pods, without a separate plugin and policy."""
    return nri("placement", verb, "--machine", str(folder / "machine"), "--pods", str(folder / "pods.yaml"), *more)


def test_two_policies_are_compared_side_by_side(nri, machine) -> None:
    (machine / "after.yaml").write_text(
        "kind: BalloonsPolicy\nspec: {balloonTypes: [{name: own, namespaces: ['*']}]}\n"
    )
    policy = "kind: TopologyAwarePolicy\nspec: {reservedResources: {cpu: 'cpuset:0'}}\n"
    result = simulate(nri, machine, policy, "--policy", str(machine / "after.yaml"), "-o", "json")
    main, huge = json.loads(result.stdout)
    assert (main["cpus"], main["cpus_after"]) == ("1-2", "0-1")
    assert huge["refused_after"].startswith("9000m CPU requested from balloons own")
    third = simulate(nri, machine, policy, "--policy", "a", "--policy", "b")
    assert (third.returncode, "give --policy once" in third.stderr) == (2, True)


def test_pools_are_shown_as_a_table_as_json_and_as_a_picture(nri, machine) -> None:
    result = on_paper(nri, machine, "show", "--svg", str(machine / "node.svg"))
    assert result.returncode == 0, result.stderr
    assert "socket #0" in result.stdout and "default/web/main" in result.stdout
    assert "CPU 1: default/web/main" in (machine / "node.svg").read_text()
    document = json.loads(on_paper(nri, machine, "show", "-o", "json").stdout)
    assert [entry["container"] for entry in document["containers"]] == ["default/web/main"]
    failed = on_paper(nri, machine, "show", "--svg", str(machine / "none" / "node.svg"))
    assert (failed.returncode, "No such file" in failed.stderr) == (1, True)


def test_a_container_is_explained_in_a_simulation(nri, machine) -> None:
    result = on_paper(nri, machine, "explain", "main")
    assert "Guaranteed, 2 exclusive CPUs, 1 MiB of memory" in result.stdout
    assert "socket #0" in result.stdout
    document = json.loads(on_paper(nri, machine, "explain", "main", "-o", "json").stdout)
    assert (document["container"], document["cpus"], document["doubts"]) == ("default/web/main", "1-2", [])
    assert document["memory_bytes"] == 1 << 20
    missing = on_paper(nri, machine, "explain", "hug")
    assert (missing.returncode, 'container "hug" not found; containers are default' in missing.stderr) == (1, True)


def test_a_memory_request_counts_in_a_simulation(nri, machine) -> None:
    (machine / "pods.yaml").write_text(POD.replace('limits: {cpu: "2", memory: 1Mi}', "requests: {memory: 300Mi}"))
    document = json.loads(on_paper(nri, machine, "explain", "main", "-o", "json").stdout)
    assert document["qos"] == "Burstable"
    assert abs(document["memory_bytes"] - (300 << 20)) <= 1_024_000, "a thousandth of the node's memory"


def test_a_refused_container_is_shown_with_the_reason(nri, machine) -> None:
    words = "default/web/huge: socket #0 lacks "
    shown = on_paper(nri, machine, "show")
    assert f"refused: {words}" in shown.stdout, shown.stdout
    assert json.loads(on_paper(nri, machine, "show", "-o", "json").stdout)["refused"][0].startswith(words)
    explained = on_paper(nri, machine, "explain", "huge")
    assert explained.returncode == 1
    assert explained.stderr.startswith("error: default/web/huge is refused: socket #0 lacks ")


@pytest.mark.parametrize("words", [("--machine", "/srv/copy"), ("--policy", "policy.yaml")])
def test_options_of_simulations_require_pods(nri, words: tuple[str, str]) -> None:
    for verb in (("show",), ("explain", "web")):
        result = nri("placement", *verb, *words)
        assert (result.returncode, f"{words[0]} requires --pods" in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("key", ["prefer-cpu-priority.resource-policy.nri.io/pod", "noderesource.dev/resources"])
def test_explain_reports_an_invalid_annotation(nri, machine, key: str) -> None:
    text = "perhaps" if "policy" in key else """'{"containers": {"main": {"requests": {"cpu": "perhaps"}}}}'"""
    (machine / "pods.yaml").write_text(POD.replace("name: web", f"name: web, annotations: {{{key}: {text}}}"))
    result = on_paper(nri, machine, "explain", "main")
    assert re.search(r"^not read: .*perhaps", result.stdout, re.MULTILINE), result.stdout + result.stderr


def test_settings_without_effect_are_reported_in_a_simulation(nri, machine) -> None:
    policy = """kind: BalloonsPolicy
spec:
  agent: {podResourceAPI: true}
  idleCPUClass: slow
  cpuClasses: [{name: slow, sstClosID: 2}]
  balloonTypes: [{name: near, preferCloseToDevices: ['podresourceapi:gpu*']}, {name: big, minCPUs: 5}]
"""
    keys = "{cold-start.resource-policy.nri.io: soon, rdtclass.resource-policy.nri.io: gold}"
    (machine / "pods.yaml").write_text(POD.replace("name: web", f"name: web, annotations: {keys}"))
    lines = simulate(nri, machine, policy).stderr.splitlines()
    file = str(machine / "policy.yaml")
    shown = on_paper(nri, machine, "show", "--policy", file).stderr.splitlines()
    explained = on_paper(nri, machine, "explain", "main", "--policy", file).stderr.splitlines()
    for words in (
        f"{file}:3: agent.podResourceAPI: it has no effect: ",
        f"{file}:5: cpuClasses[0].sstClosID: it has no effect: Intel Speed Select is not supported",
        f"{file}:6: balloonTypes[0].preferCloseToDevices[0]: it has no effect: ",
        f"{file}:6: balloonTypes[1].minCPUs: 5 exceeds the machine's 4 CPUs: no balloon big can be created (lower",
        "default/web/main: annotation cold-start.resource-policy.nri.io has no effect: ",
        "default/web/main: annotation rdtclass.resource-policy.nri.io has no effect: ",
    ):
        for message in (lines, shown, explained):
            assert [entry for entry in message if entry.startswith(words)], words
    refused = simulate(nri, machine, "kind: TopologyAwarePolicy\nspec: {reservedResources: {cpu: '1'}}\n")
    assert "annotation cold-start.resource-policy.nri.io: expected a mapping of keys to values" in refused.stdout


@pytest.fixture
def short():
    """A folder whose name is short enough for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="nri-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("kind", [TopologyAwarePlugin, BalloonsPlugin])
def test_a_running_plugin_answers_over_its_socket(nri, short, kind) -> None:
    with FakeRuntime(real_time=False) as runtime:
        started(runtime, short, kind())
        create(runtime, pod("web"), ask("main", 2000))
        create(runtime, pod("db"), ask("main", 0))
        state = ("--state-dir", str(short / "state"))
        shown = json.loads(nri("placement", "show", *state, "-o", "json").stdout)
        assert {entry["container"] for entry in shown["containers"]} == {"default/web/main", "default/db/main"}
        argument = {entry["id"]: entry["cpus"] for entry in shown["containers"]}
        assert argument == {entry.id: entry.linux.resources.cpu.cpus for entry in runtime.containers.values()}
        result = nri("placement", "explain", "web", *state)
        assert "default/web/main: Guaranteed" in result.stdout, result.stderr
        status, text = ask_socket(str(short / "state" / f"{kind.name}.sock"), "/metrics", 5)
        assert status == 200
        line = re.compile(r'[a-z_]+{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*} [-0-9.]+')
        results = [entry for entry in text.splitlines() if not entry.startswith("#")]
        assert results and all(line.fullmatch(entry) for entry in results)
        unknown = nri("placement", "explain", "main", *state)
        assert (unknown.returncode, '"main" matches several containers:' in unknown.stderr) == (1, True)
    without_plugin = nri("placement", "show", *state)
    assert without_plugin.returncode == 3
    assert "Is the plugin topology-aware running? try: nri run topology-aware" in without_plugin.stderr


def test_restored_placements_are_shown(nri, short) -> None:
    with FakeRuntime(real_time=False) as runtime:
        started(runtime, short, TopologyAwarePlugin())
        create(runtime, pod("web"), ask("main", 2000))
        pods, containers = list(runtime.pods.values()), list(runtime.containers.values())
    with FakeRuntime(pods=pods, containers=containers, real_time=False) as runtime:
        started(runtime, short, TopologyAwarePlugin())
        result = nri("placement", "explain", "web", "--state-dir", str(short / "state"))
    assert "placed by an earlier run of the plugin" in result.stdout, result.stderr


def test_a_container_that_waits_for_cpus_is_shown_with_the_reason(nri, short: Path) -> None:
    its_pod = pod("web")
    huge = ask("main", 99000, pod=its_pod, state=m.ContainerState.CONTAINER_RUNNING)
    with FakeRuntime(pods=[its_pod], containers=[huge], real_time=False) as runtime:
        started(runtime, short, TopologyAwarePlugin())
        output = nri("placement", "show", "--state-dir", str(short / "state")).stdout
        why = nri("placement", "explain", "web", "--state-dir", str(short / "state")).stdout
    assert "waits for free resources: default/web/main: " in output and "root lacks " in output
    assert "waits for free resources: " in why and "root lacks " in why, why


def test_a_container_of_a_removed_type_is_shown_with_the_reason(nri, short: Path) -> None:
    its_pod = pod("web", **{"balloon.balloons": "gone"})
    running = ask("main", 1000, pod=its_pod, state=m.ContainerState.CONTAINER_RUNNING)
    with FakeRuntime(pods=[its_pod], containers=[running], real_time=False) as runtime:
        started(runtime, short, BalloonsPlugin())
        shown = nri("placement", "show", "--state-dir", str(short / "state")).stdout
        explained = nri("placement", "explain", "web", "--state-dir", str(short / "state")).stdout
    reason = "unknown type of balloons 'gone'; types are reserved, default"
    assert f"request not met: default/web/main: {reason}" in shown
    assert f"request not met: {reason}" in explained


def test_follow_requires_a_node_and_an_apiserver(nri, tmp_path) -> None:
    result = nri("placement", "follow", "topology-aware", "--kubeconfig", "none")
    assert result.returncode == 2
    assert "--node" in result.stderr
    missing = str(tmp_path / "kubeconfig")
    for more in ((), ("--once",)):
        result = nri("placement", "follow", "balloons", "--node", "n1", "--kubeconfig", missing, *more)
        assert result.returncode == 2
        assert missing in result.stderr
        assert "Traceback" not in result.stderr


def test_cpu_classes_and_interrupts_are_shown(nri, machine, short) -> None:
    key = "irq-affinity.resource-policy.nri.io/pod"
    (machine / "pods.yaml").write_text(
        POD.replace("name: web", f'name: web, annotations: {{{key}: \'{{claim: ["*nvme*"], mask: ["*"]}}\'}}')
    )
    (machine / "policy.yaml").write_text(
        "kind: TopologyAwarePolicy\nspec: {reservedResources: {cpu: 'cpuset:0'}, sharedPoolCPUClass: low,"
        " defaultExclusiveCPUClass: fast, cpuClasses: [{name: low, maxFreq: base}, {name: fast, minFreq: turbo}]}\n"
    )
    result = on_paper(nri, machine, "show", "--policy", str(machine / "policy.yaml"))
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["fast", "1-2", "minFreq", "turbo"] in rows, result.stdout + result.stderr
    assert ["low", "0,3", "maxFreq", "base"] in rows
    assert ["default/web/main", "1-2", "*nvme*", "*"] in rows
    with FakeRuntime(real_time=False) as runtime:
        types = [{"name": "nic", "irqClaim": ["*eth*"], "irqMode": "sink", "minBalloons": 1}]
        idle = {"cpuClasses": [{"name": "low", "maxFreq": "base"}], "idleCPUClass": "low"}
        plugin = started(runtime, short, BalloonsPlugin(), balloonTypes=types, **idle)
        plugin.tune()
        output = nri("placement", "show", "--state-dir", str(short / "state")).stdout
    assert "*eth*, unclaimed interrupts" in output
    assert "not set: cpu0, cpu1, cpu2 and 1" in output
