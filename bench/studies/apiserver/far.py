"""A relay that makes a TCP server distant: `python -m bench.studies.apiserver.far PORT ROUND_TRIP_MS`.

Each byte arrives half a round trip later, and the first bytes of a connection another round trip later, as after a
handshake. Bandwidth and TCP's slow start are not imitated: long answers are faster than in reality. Prints `{"event":
"ready", "port": PORT}`; ends with its stdin.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import sys
import threading
import time

_CHUNK = 1 << 18


def main() -> None:
    """Serve until stdin ends."""
    port, round_trip_s = int(sys.argv[1]), float(sys.argv[2]) / 1e3
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, port, round_trip_s), daemon=True).start()
    sys.stdout.write(f'{{"event": "ready", "port": {listener.getsockname()[1]}}}\n')
    sys.stdout.flush()
    sys.stdin.read()


def _accept(listener: socket.socket, port: int, round_trip_s: float) -> None:
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", port))
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _pipe(client, server, round_trip_s / 2, round_trip_s)
        _pipe(server, client, round_trip_s / 2, 0.0)


def _pipe(source: socket.socket, target: socket.socket, delay_s: float, first_s: float) -> None:
    """Copy with a delay, in two threads: one notes when bytes came, one hands them on when they are due."""
    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def take() -> None:
        more_s = first_s
        data = b"."
        while data:
            try:
                data = source.recv(_CHUNK)
            except OSError:
                data = b""
            waiting.put((time.perf_counter() + delay_s + more_s, data))
            more_s = 0.0

    def give() -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = waiting.get()
                if (remaining_s := due - time.perf_counter()) > 0:
                    time.sleep(remaining_s)
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)

    for work in (take, give):
        threading.Thread(target=work, daemon=True).start()


if __name__ == "__main__":
    main()
