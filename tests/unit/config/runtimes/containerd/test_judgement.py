"""The rules of containerd's releases for their files, one row each, with the verdicts of the daemons."""

from __future__ import annotations

import pytest

from nri.config.runtimes.containerd import judge, rules_of
from nri.config.runtimes.containerd.judgement import Judgement
from nri.config.runtimes.reading import Kind
from tests.support.memory_tree import MemoryTree

CONFIG, DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/a.toml"
IMPORTS = 'imports = ["conf.d/*.toml"]\n'
NRI = '[plugins."io.containerd.nri.v1.nri"]\n'
ON, OFF = f"{NRI}disable = false\n", f"{NRI}disable = true\n"
CRI = '[plugins."io.containerd.grpc.v1.cri"'
PLUGIN = "[plugins.'io.containerd."
REQUIRES = 'version = 2\nrequired_plugins = ["io.containerd.'
RELEASES = {"1.7": "1.7.24", "2.1": "2.1.9", "2.2": "2.2.0", "2.3": "2.3.4", "2.4": "2.4.2"}


def verdict(release: str, main: str, drop_in: str | None = None, **more: str) -> Judgement:
    files = {CONFIG: main} | ({} if drop_in is None else {DROP_IN: drop_in}) | more
    rules = rules_of(RELEASES[release])
    assert rules is not None
    return judge(MemoryTree({path: text.encode() for path, text in files.items()}), rules)


def word(judgement: Judgement) -> str:
    """A verdict in one word: on, off, never (on, and never runs), or the kind of failure."""
    if judgement.failure is not None:
        return judgement.failure.kind.name
    return "on" if judgement.nri_runs else "never" if judgement.obstacle is not None else "off"


def words(main: str, drop_in: str | None = None) -> str:
    return " ".join(word(verdict(release, main, drop_in)) for release in RELEASES)


@pytest.mark.parametrize(
    ("main", "drop_in", "expected"),
    [
        # The versions of files.
        (f"version = 2\n{IMPORTS}", ON, "on on on on on"),
        (f"version = 2\n{IMPORTS}{ON}", OFF, "off off off off off"),
        (f"{IMPORTS}", ON, "off on on on on"),
        (f"version = 1\n{IMPORTS}", f"version = 2\n{ON}", "on on on NEWER_DROP_IN on"),
        (f"{IMPORTS}", f"version = 2\n{ON}", "on on on on on"),
        (f"version = 3\n{IMPORTS}", f"version = 2\n{ON}", "on on on on on"),
        (f"version = 2\n{IMPORTS}", f"version = 3\n{ON}", "UNKNOWN_VERSION on on NEWER_DROP_IN on"),
        (f"version = 4\n{ON}", None, "UNKNOWN_VERSION UNKNOWN_VERSION UNKNOWN_VERSION on on"),
        (f"version = 4\n{IMPORTS}", ON, "UNKNOWN_VERSION VERSION_CRASH VERSION_CRASH on on"),
        (f"version = 5\n{IMPORTS}", f"version = 2\n{ON}", "on on on VERSION_CRASH VERSION_CRASH"),
        (f"version = -1\n{ON}", None, "on VERSION_CRASH VERSION_CRASH VERSION_CRASH VERSION_CRASH"),
        (f'version = "2"\n{ON}', None, "WRONG_TYPE WRONG_TYPE WRONG_TYPE WRONG_TYPE WRONG_TYPE"),
        # Names of plugins.
        ("[plugins.nri]\ndisable = false\n", None, "on on on on on"),
        ("[plugins.nri]\ndisable = true\n", None, "off on on on on"),
        (f"{IMPORTS}[plugins.cri]\nsandbox_image = 'x'\n", f"version = 2\n{ON}", "SHORT_TABLE on on on on"),
        (f'version = 2\ndisabled_plugins = ["cri"]\n{ON}', None, " ".join(["SHORT_NAME"] * 5)),
        (f'version = 2\ndisabled_plugins = ["a.b"]\n{ON}', None, "SHORT_NAME on on on on"),
        ('disabled_plugins = ["nri"]\n', None, "off on on on on"),
        # Lists add up, and an empty one takes nothing back.
        (
            f'version = 2\n{IMPORTS}disabled_plugins = ["io.containerd.nri.v1.nri"]\n',
            f"disabled_plugins = []\n{ON}",
            "off off off off off",
        ),
        ('version = 2\nrequired_plugins = ["io.containerd.none.v1.x"]\n', None, " ".join(["REQUIRED"] * 5)),
        # Keys in other cases.
        (f"version = 2\n{NRI}Disable = false\n", None, "off on on on on"),
        (f"version = 2\n{NRI}DISABLE = false\n", None, "on on on on on"),
        (f"version = 2\n{NRI}disable = false\nDisable = true\n", None, "on on on on on"),
        # Types.
        (f"version = 2\n{NRI}plugin_request_timeout = 2000000000\n", None, "off on on NO_DURATION_TYPE on"),
        (f"version = 2\n{OFF}plugin_request_timeout = ''\n", None, " ".join(["NO_DURATION"] * 5)),
        (f"version = 2\n{IMPORTS}{NRI}socket_path = 5\n", f"{ON}socket_path = '/s'\n", "on on on on on"),
        (f"version = 2\n{ON}{CRI}]\nenable_selinux = 'x'\n", None, " ".join(["WRONG_TYPE"] * 5)),
        (
            f"version = 2\n{ON}{PLUGIN}internal.v1.tracing']\nsampling_ratio = true\n",
            None,
            f"{' '.join(['WRONG_TYPE'] * 4)} on",
        ),
        (f"version = 2\n{ON}{PLUGIN}gc.v1.scheduler']\npause_threshold = 1\n", None, "WRONG_TYPE on on on on"),
        (
            f"version = 2\n{ON}{PLUGIN}snapshotter.v1.erofs']\nroot_path = 1\n",
            None,
            f"on {' '.join(['WRONG_TYPE'] * 4)}",
        ),
        (
            f"version = 2\n{ON}{PLUGIN}transfer.v1.local']\nunpack_config = {{}}\n",
            None,
            "WRONG_TYPE on on WRONG_TYPE on",
        ),
        (f"version = 2\n{ON}{PLUGIN}transfer.v1.local']\nunpack_config = []\n", None, "WRONG_TYPE on on on on"),
        # 1.7 reads keys of a missing table from the table around it.
        (f"version = 2\n{ON}{CRI}]\nSNAPSHOTTER = 5\n", None, "WRONG_TYPE on on on on"),
        (f"version = 2\n{ON}{CRI}]\nsnapshotter = 'x'\n", None, "never on on on on"),
        (f"version = 2\n{ON}{CRI}]\nsnapshotter = 'x'\n{CRI}.containerd]\n", None, "on on on on on"),
        # What `config dump` does not notice.
        (f"version = 2\n{ON}[debug]\nlevel = 'loud'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[metrics]\naddress = 'x'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[grpc]\naddress = '{CONFIG}/x'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[grpc]\ntcp_address = 'x'\n", None, "START START START on on"),
        (f"version = 2\n{ON}{CRI}]\nstream_server_port = 'x'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[proxy_plugins.native]\ntype = 'snapshot'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}plugin_path = '{CONFIG}'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}socket_path = '/etc/containerd'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}socket_path = '/etc/containerd'\ndisable_connections = true\n", None, "on on on on on"),
        (f"version = 2\n{ON}[debug]\nformat = 'xml'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[debug]\nformat = ''\n", None, "on on on on on"),
        (f"version = 2\nroot = '/run/a'\nstate = '/run/a'\n{ON}", None, " ".join(["START"] * 5)),
        (f"version = 2\nroot = '{CONFIG}'\n{ON}", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[timeouts]\na = 'abc'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[timeouts]\na = '5s'\n", None, "on on on on on"),
        (f"version = 2\n{ON}[grpc]\naddress = '/run/{'x' * 100}'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[grpc]\ntcp_tls_cert = '/none.pem'\n", None, "START START START on on"),
        (f"version = 2\n{ON}[proxy_plugins.a]\ntype = 'x'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}[proxy_plugins.a]\ntype = 'sandbox'\n", None, "START on on on on"),
        (f"version = 2\n{ON}socket_path = '/run/{'x' * 120}'\n", None, " ".join(["START"] * 5)),
        (f"version = 2\n{ON}{CRI}.containerd.runtimes]\nrunc = 5\n", None, "WRONG_TYPE START START START START"),
        # Required plugins.
        (f'{REQUIRES}nri.v1.nri"]\n{ON}', None, "on on on on on"),
        (f'required_plugins = ["nri"]\n{ON}', None, "off REQUIRED REQUIRED REQUIRED REQUIRED"),
        (f'{REQUIRES}snapshotter.v1.zfs"]\n{ON}', None, " ".join(["REQUIRED"] * 5)),
        (f'{REQUIRES}snapshotter.v1.a"]\n{ON}[proxy_plugins.a]\ntype = "snapshot"\n', None, "on on on on on"),
        (
            f'{REQUIRES}nri.v1.nri"]\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n',
            None,
            " ".join(["REQUIRED"] * 5),
        ),
        (
            f"{REQUIRES}grpc.v1.cri\"]\n{ON}{CRI}.containerd]\ndefault_runtime_name = 'x'\n",
            None,
            " ".join(["REQUIRED"] * 5),
        ),
        (
            f'{REQUIRES}cri.v1.images"]\ndisabled_plugins = ["io.containerd.image-verifier.v1.bindir"]\n',
            None,
            "REQUIRED REQUIRED REQUIRED on on",
        ),
        # The CRI plugin does not load.
        (f'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n{ON}', None, "never never never never never"),
        (f'version = 2\ndisabled_plugins = ["io.containerd.cri.v1.images"]\n{ON}', None, "on never never never never"),
        (f'version = 2\ndisabled_plugins = ["io.containerd.lease.v1.manager"]\n{ON}', None, " ".join(["never"] * 5)),
        (f"version = 2\n{ON}{CRI}.containerd]\ndefault_runtime_name = 'x'\n", None, "never never never never never"),
        (f"{ON}[plugins.cri.containerd]\ndefault_runtime_name = 'x'\n", None, "off on on never never"),
        (f"version = 2\n{ON}{CRI}.containerd.runtimes.x]\nsnapshotter = 'native'\n", None, "never on on on on"),
        (f"version = 2\n{ON}{CRI}.containerd]\nsnapshotter = 'x'\n", None, "never on on on on"),
        (f"version = 2\n{ON}[proxy_plugins.a]\ntype = 'content'\n", None, "on never never never never"),
        (
            f"version = 2\n{ON}[plugins.'io.containerd.service.v1.diff-service']\ndefault = ['x']\n",
            None,
            " ".join(["never"] * 5),
        ),
        (f"version = 2\n{ON}{CRI}.registry.auths.':x']\nusername = 'x'\n", None, " ".join(["never"] * 5)),
        (f"version = 2\n{ON}{CRI}.containerd.runtimes.runc.options]\na = 1\n", None, "on on on on on"),
        (f"version = 2\n{ON}{CRI}.x509_key_pair_streaming]\ntls_key_file = 'x'\n", None, " ".join(["never"] * 5)),
    ],
)
def test_verdicts_on_files_equal_the_daemons(main: str, drop_in: str | None, expected: str) -> None:
    assert words(main, drop_in) == expected.replace("NO_DURATION_TYPE", "WRONG_TYPE")


@pytest.mark.parametrize(("release", "starts"), [("2.3.0", False), ("2.3.4", False), ("2.3.5", True), ("2.3.7", True)])
def test_a_newer_drop_in_stops_containerd_2_3_only_before_2_3_5(release: str, starts: bool) -> None:
    tree = MemoryTree({CONFIG: f"version = 3\n{IMPORTS}".encode(), DROP_IN: f"version = 4\n{ON}".encode()})
    rules = rules_of(release)
    assert rules is not None
    assert (judge(tree, rules).failure is None) is starts


def test_without_a_main_file_drop_ins_are_ignored() -> None:
    rules = rules_of("2.4.2")
    assert rules is not None
    tree = MemoryTree({DROP_IN: OFF.encode()})
    assert judge(tree, rules).nri_runs
    assert word(judge(tree, rules, CONFIG, is_named=True)) == "MISSING_FILE"


def test_a_later_table_replaces_or_adds() -> None:
    main = f"version = 2\n{IMPORTS}{ON}plugin_path = '/a'\nplugin_request_timeout = '9s'\n"
    drop_in = f"{NRI}disable = false\nplugin_path = ''\nplugin_request_timeout = '0s'\nsocket_path = '/s'\n"
    for release in RELEASES:
        nri = verdict(release, main, drop_in).nri
        assert (nri.plugin_path, nri.request_timeout_s, nri.socket_path) == ("/opt/nri/plugins", 2.0, "/s")
    assert verdict("1.7", main, f"{NRI}disable = false\n").nri.plugin_path == "/opt/nri/plugins"
    assert verdict("2.4", main, f"{NRI}disable = false\n").nri.plugin_path == "/a"


@pytest.mark.parametrize(("release", "required"), [("2.1", ()), ("2.2", ("b",)), ("2.4", ("b",))])
def test_the_validator_is_merged_key_by_key(release: str, required: tuple[str, ...]) -> None:
    table = '[plugins."io.containerd.nri.v1.nri".default_validator]\n'
    judgement = verdict(
        release,
        f'version = 3\n{IMPORTS}{table}enable = true\nrequired_plugins = ["a"]\n',
        f'{table}required_plugins = ["b"]\n',
    )
    assert judgement.nri.required == required


def test_a_validator_can_be_enabled_without_required_plugins() -> None:
    table = '[plugins."io.containerd.nri.v1.nri".default_validator]\n'
    nri = verdict("2.4", f"version = 3\n{table}enable = true\n").nri
    assert (nri.required, nri.validator, "required" in nri.origin) == ((), {"enable": True}, False)


class _UnreadableTree(MemoryTree):
    """A tree with a file that cannot be read."""

    def __init__(self, error: OSError) -> None:
        super().__init__({CONFIG: b""})
        self._error = error

    def read(self, path: str) -> bytes:
        raise self._error


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (PermissionError(13, "Permission denied"), Kind.DENIED, "cannot be read: Permission denied"),
        (OSError(5, "Input/output error"), Kind.UNREADABLE, "cannot be read: Input/output error"),
    ],
)
def test_an_unreadable_main_file_stops_the_daemon(error: OSError, kind: Kind, reason: str) -> None:
    rules = rules_of("2.4.2")
    assert rules is not None
    failure = judge(_UnreadableTree(error), rules).failure
    assert failure is not None
    assert (failure.kind, failure.where, failure.details["reason"]) == (kind, CONFIG, reason)


def test_a_problem_without_a_key_has_the_main_files_path() -> None:
    """The file sets only `state`; the problem is about `root`, which has its default."""
    failure = verdict("2.4", "version = 3\nstate = '/var/lib/containerd'\n").failure
    assert failure is not None
    assert (failure.where, failure.details["reason"]) == (CONFIG, "root and state are the same folder")


def test_imports_are_read_breadth_first_and_once() -> None:
    judgement = verdict(
        "2.4",
        f'version = 3\nimports = ["a.toml", "b.toml"]\n{ON}',
        **{
            "/etc/containerd/a.toml": f'imports = ["c.toml", "config.toml"]\n{NRI}socket_path = "/a"\n',
            "/etc/containerd/b.toml": f'{NRI}socket_path = "/b"\n',
            "/etc/containerd/c.toml": f'{NRI}socket_path = "/c"\n',
        },
    )
    assert [file.path.rpartition("/")[2] for file in judgement.files] == ["config.toml", "a.toml", "b.toml", "c.toml"]
    assert judgement.nri.socket_path == "/c"


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ("none.toml", Kind.MISSING_IMPORT),
        ("?.toml", Kind.MISSING_IMPORT),
        ("", Kind.UNREADABLE),
        ("conf.d", Kind.UNREADABLE),
        ("[*", Kind.BAD_PATTERN),
    ],
)
@pytest.mark.parametrize("release", RELEASES)
def test_an_unreadable_import_stops_the_daemon(release: str, entry: str, kind: Kind) -> None:
    judgement = verdict(release, f'version = 2\nimports = ["{entry}"]\n', ON)
    assert judgement.failure is not None and judgement.failure.kind is kind
    assert CONFIG in judgement.failure.where or kind is Kind.UNREADABLE


def test_a_setting_has_the_path_of_the_file_that_counts() -> None:
    judgement = verdict("2.4", f"version = 2\n{IMPORTS}{ON}", f"{NRI}Disable = true\n")
    assert judgement.nri.origin["disable"].startswith(f"{CONFIG}:4")
    crash = verdict("2.4", f"version = 2\n{IMPORTS}{CRI}]\nenable_cdi = true\n", f"{CRI}]\nenable_cdi = 5\n")
    assert crash.failure is not None and crash.failure.where.startswith(f"{DROP_IN}:2")
