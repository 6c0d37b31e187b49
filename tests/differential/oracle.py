"""The reference's answers: a process over the released reference, one case a line in, one answer a line out.

`Oracle.ask` is one question; `Oracle.stream` keeps the process busy while the caller works on earlier answers. What the
reference leaves to chance (it walks some maps in random order) shows when a case is asked often: `Oracle.answers`.
Next: `compare`.
"""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Self

from nri.oci import MountTable
from tests.differential.generate import Case
from tests.peers.build import peer

Expect = dict[str, Any]

#: Cases on their way at once in a stream.
AHEAD = 64

#: Makes a tmpfs with a mount of each kind of propagation, and puts it in the place of /mnt, unseen by anybody else.
_MOUNTS = """
mount -t tmpfs nri-differential /mnt
for kind in shared slave both; do
    mkdir "/mnt/$kind"
    mount -t tmpfs "$kind" "/mnt/$kind"
    mount --make-shared "/mnt/$kind"
done
mkdir /mnt/slave/inner /mnt/both/inner
mount --bind /mnt/shared /mnt/slave/inner
mount --make-slave /mnt/slave/inner
mount --bind /mnt/shared /mnt/both/inner
mount --make-slave /mnt/both/inner
mount --make-shared /mnt/both/inner
exec "$@"
"""


class OracleError(AssertionError):
    """The oracle ended, or calls a case invalid: a fault of the generator, not of the merge."""


class Oracle:
    """The process. A context manager; one caller at a time.

    As root it gets a mount namespace of its own, with mounts of every kind of propagation, which the spec generator
    asks for; or, if `mounts` is false, with private ones alone, as recorded cases have it.

    Attributes:
        mounts: the process's mounts, as ours has to see them to come to the same.
    """

    def __init__(self, *, mounts: bool = True) -> None:
        command = [str(peer("oracle"))]
        if os.geteuid() == 0 and shutil.which("unshare"):
            script = ["sh", "-ec", _MOUNTS, "sh"] if mounts else []
            command = ["unshare", "--mount", "--propagation", "private", *script, *command]
        # A group of its own: an interrupt from the keyboard is ours alone.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        assert "spec" in self.ask({"id": "ready", "op": "spec", "spec": {}, "adjust": {}})  # mounts are made by now
        self.mounts = MountTable.of_host(f"/proc/{self._process.pid}/mountinfo")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()

    def ask(self, case: Case) -> Expect:
        """What the reference makes of one case: error, seen, adjust, update and owners, or panic."""
        self._send(case)
        return self._receive(case)

    def answers(self, case: Case, times: int) -> list[Expect]:
        """The different answers to one case among so many."""
        calls = {json.dumps(self.ask(case), sort_keys=True) for _ in range(times)}
        return [json.loads(text) for text in sorted(calls)]

    def stream(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Expect]]:
        """Each case with its answer. The iterable runs in a thread of its own, `AHEAD` cases before the caller."""
        sent: queue.Queue[Case | BaseException | None] = queue.Queue(maxsize=AHEAD)
        stop = threading.Event()

        def feed() -> None:
            last: BaseException | None = None
            try:
                for case in cases:
                    if stop.is_set():
                        break
                    sent.put(case)
                    self._send(case)
            except BaseException as error:
                last = error
            sent.put(last)

        feeder = threading.Thread(target=feed, name="oracle's cases", daemon=True)
        feeder.start()
        try:
            while (case := sent.get()) is not None:
                if isinstance(case, BaseException):
                    raise case
                yield case, self._receive(case)
        finally:
            stop.set()
            # Questions under way are read to the end, so that the next one gets its own answer.
            while feeder.is_alive() or not sent.empty():
                with contextlib.suppress(queue.Empty, OracleError, ValueError):  # the latter two: closed already
                    remainder = sent.get(timeout=0.05)
                    if isinstance(remainder, dict):
                        self._receive(remainder)

    def _send(self, case: Case) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(case).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self, case: Case) -> Expect:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OracleError(f"the oracle ended with {self._process.wait()} at case {json.dumps(case)}")
        answer = json.loads(line)
        if "expect" not in answer or answer["id"] != case["id"]:
            raise OracleError(f"not an answer to case {json.dumps(case)}: {line.decode()}")
        expect: Expect = answer["expect"]
        return expect
