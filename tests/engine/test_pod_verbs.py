"""`nri pod` on the engine with real containers: a manifest run, entered, watched, stopped and removed."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

from tests.engine.registry import busybox
from tests.support.pod_verbs import NRI, WEB, Verbs
from tests.support.waiting import wait_for
from tools.runtimes.engine import Engine
from tools.runtimes.images import BUSYBOX


def test_a_manifest_runs_as_it_says_and_what_is_left_out_is_named(verbs: Verbs) -> None:
    process = verbs.run(WEB)
    assert process.returncode == 0, process.stderr
    assert b"pod.yaml:24: spec.containers[0].livenessProbe is ignored: only the kubelet runs probes" in process.stderr
    rows = [line.split()[:4] for line in verbs("ps").stdout.decode().splitlines()[1:]]
    assert rows == [["default/web", "ready", name, state]
                    for name, state in (("prepare", "exited"), ("app", "running"), ("shell", "running"))]  # fmt: skip
    wait_for(lambda: verbs("logs", "web/app").stdout == b"hello web\nready\n", "its log")
    ids = verbs("exec", "default/web/app", "sh", "-c", "id -u; touch /x; grep ^CapEff /proc/self/status; ls /host")
    assert ids.stdout.split()[0::2] == [b"1000", b"0000000000000000"] and b"Read-only" in ids.stderr
    document = json.loads(verbs("inspect", "web/app").stdout)["info"]
    assert document["runtimeSpec"]["linux"]["resources"]["memory"]["limit"] == 64 << 20
    assert document["runtimeSpec"]["linux"]["resources"]["cpu"]["quota"] == 50000
    pod = json.loads(verbs("inspect", "web").stdout)
    assert pod["status"]["annotations"] == {"example.org/a": "b"} and len(pod["containers"]) == 3
    assert f"/kubepods/burstable/pod{pod['status']['metadata']['uid']}/" in document["cgroupPath"]
    used = {row.split()[1]: row.split()[2:4] for row in verbs("stats", "web").stdout.decode().splitlines()[1:]}
    assert float(used["app"][0]) < 100 and used["app"][1].endswith("iB")


def test_a_program_gets_its_input_to_the_end_and_gives_its_exit_code(verbs: Verbs) -> None:
    assert verbs.run(WEB, "-q").returncode == 0
    process = verbs("exec", "-i", "web/app", "sh", "-c", "cat; echo bad >&2; exit 7", stdin=b"x" * 3_000_000)
    assert (process.returncode, len(process.stdout), process.stderr) == (7, 3_000_000, b"bad\n")
    missing = verbs("exec", "web/app", "no-such-program")
    assert missing.returncode and b"no-such-program" in missing.stderr
    assert b'"app" may be' not in verbs("exec", "app", "true").stderr
    assert verbs("exec", "-it", "web/app", "sh").stderr.startswith(
        b"error: command line: -t: requires -i and a terminal"
    )


def test_a_person_types_at_a_terminal_that_has_a_size_and_leaves(verbs: Verbs) -> None:
    assert verbs.run(WEB, "-q").returncode == 0
    inside = verbs.in_terminal("exec", "-it", "web/app", "sh")
    inside.until(lambda text: "$ " in text)
    inside.type("stty size; exit 4\n")
    assert inside.ended() == 4
    assert "24 80" in inside.said, "the size of a terminal that nobody has set"
    terminal = verbs.in_terminal("attach", "-it", "web/shell")
    terminal.type("echo $((6 * 7))\n")
    terminal.until(lambda text: "42" in text)
    terminal.type("\x10\x11")
    assert terminal.ended() == 0
    assert json.loads(verbs("inspect", "web/shell").stdout)["status"]["state"] == "CONTAINER_RUNNING"


def test_a_pod_that_is_stopped_says_goodbye_and_one_that_is_removed_leaves_nothing(verbs: Verbs) -> None:
    assert verbs.run(WEB).returncode == 0
    assert len(verbs.cgroups()) == 1 and (verbs.folder / "host/sub").is_dir()
    second_run = verbs.run(WEB)
    assert second_run.returncode == 1
    assert b"default/web already exists" in second_run.stderr and b"--replace" in second_run.stderr
    assert b"still running. Use -f, or first: nri pod stop default/web" in verbs("rm", "web").stderr
    assert verbs("stop", "web").stdout == b"default/web\n"
    assert verbs("logs", "web/app").stdout.endswith(b"bye\n")
    assert json.loads(verbs("inspect", "web/app").stdout)["status"]["exitCode"] == 3
    assert verbs("ps").stdout.count(b"\n") == 1 and verbs("ps", "-a").stdout.count(b"\n") == 4
    assert verbs("rm", "web").returncode == 0
    assert [*(verbs.folder / "pods").iterdir()] == [] and verbs.cgroups() == []
    assert (verbs.folder / "host/sub").is_dir(), "the machine's own stays"


def test_a_pod_that_cannot_run_whole_is_removed_and_the_error_says_where(verbs: Verbs) -> None:
    bad = verbs.run(WEB.replace("echo ready > /data/file", "echo no luck; exit 9"))
    assert bad.returncode == 1
    assert (
        b"pod.yaml:11: container prepare: exit code 9; its log ends with: no luck. Pod default/web was removed"
        in bad.stderr
    )
    bad = verbs.run(WEB.replace("command: [sh, -c]", "command: [nothing-here]"))
    assert bad.returncode == 1 and b"container app: " in bad.stderr and b"nothing-here" in bad.stderr
    assert verbs("ps", "-aq").stdout == b"" and verbs.cgroups() == []
    assert [*(verbs.folder / "pods").iterdir()] == []


def test_a_pod_runs_from_an_archive_without_a_registry(verbs: Verbs, engine: Engine, tmp_path: Path) -> None:
    layout = Path(busybox(tmp_path).removeprefix("oci:").removesuffix(":x"))
    with tarfile.open(tmp_path / "app.tar", "w") as tar:
        for file in sorted(layout.rglob("*")):
            tar.add(file, file.relative_to(layout), recursive=False)
    for source, name in (("app.tar", "nowhere.example/tar:1"), ("busybox", "nowhere.example/layout:1")):
        load = [*NRI[:-1], "engine", "load", source, name, "--cri-socket", str(engine.cri_socket)]
        process = subprocess.run(load, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert process.returncode == 0, process.stderr
        assert process.stdout.startswith(f"{name}: sha256:")
        text = WEB.replace(BUSYBOX, name)
        assert name in text
        assert verbs.run(text, "-q").returncode == 0
        assert verbs("exec", "web/app", "echo", "here").stdout == b"here\n"
        verbs("rm", "-f", "web", "--grace", "0")


def test_a_seccomp_profile_is_a_file_below_the_folder_that_the_engine_reports(verbs: Verbs, engine: Engine) -> None:
    folder = engine.run_dir / "seccomp/profiles"
    folder.mkdir(parents=True)
    calls = [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]
    (folder / "audit.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_LOG", "syscalls": calls}))
    text = f"""
kind: Pod
metadata: {{name: s}}
spec:
  hostNetwork: true
  restartPolicy: Never
  containers:
  - name: own
    image: {BUSYBOX}
    command: [sh, -c, "grep Seccomp: /proc/self/status; mkdir /new 2>&1; echo end"]
    securityContext: {{seccompProfile: {{type: Localhost, localhostProfile: profiles/audit.json}}}}
"""
    process = verbs.run(text, "-q")
    assert process.returncode == 0, process.stderr
    wait_for(lambda: b"end" in verbs("logs", "s/own").stdout, "its log")
    status, refusal, _ = verbs("logs", "s/own").stdout.splitlines()
    assert status == b"Seccomp:\t2" and b"Operation not permitted" in refusal
    missing = verbs.run(text.replace("audit.json", "absent.json").replace("name: s}", "name: t}"), "-q")
    assert missing.returncode == 1 and f"{folder}/absent.json".encode() in missing.stderr
