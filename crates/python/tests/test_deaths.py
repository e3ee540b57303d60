"""Processes that die, are forked, end, or are interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import farcall
import peer as services
import pytest
from conftest import LONG, Peer


def test_a_server_that_is_killed(endpoint: farcall.Endpoint, peer: farcall.Peer, process: Peer) -> None:
    downs: list[tuple[farcall.Peer, Exception]] = []
    endpoint.on_peer_down(lambda who, why: downs.append((who, why)))
    with pytest.raises(farcall.PeerDeadError):
        endpoint.call(peer, services.DIE, b"", LONG)
    end = time.monotonic() + LONG
    while not downs and time.monotonic() < end:
        endpoint.poll(0.1)
    assert downs[0][0] == peer and isinstance(downs[0][1], farcall.PeerDeadError)
    with pytest.raises((farcall.NotConnectedError, farcall.PeerDeadError)):
        endpoint.call(peer, services.ECHO, b"", LONG)
    assert process.process.wait() == -signal.SIGKILL


def test_a_caller_that_is_killed(registry: farcall.Node, endpoint: farcall.Endpoint, transport: str) -> None:
    program = (
        "import sys, farcall\n"
        "endpoint = farcall.Node.open(sys.argv[1]).endpoint(sys.argv[2])\n"
        "endpoint.connect('survivor').call(1, b'x', 60.0)\n"
    )
    asked: list[farcall.Deferred] = []
    downs: list[Exception] = []

    @endpoint.serve(1)
    def never(request: farcall.Request) -> None:
        asked.append(request.defer())

    endpoint.on_peer_down(lambda who, why: downs.append(why))
    with endpoint.listen("survivor"):
        command = [sys.executable, "-c", program, registry.registry or "", transport]
        with subprocess.Popen(command) as caller:
            endpoint.run(lambda: bool(asked))
            caller.kill()
        endpoint.run(lambda: bool(downs))
    assert isinstance(downs[0], farcall.PeerDeadError)
    asked[0].reply(b"too late")
    endpoint.poll()


def test_a_forked_child_leaves_its_parents_endpoint_alone(
    endpoint: farcall.Endpoint, peer: farcall.Peer
) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            endpoint.poll()
        except farcall.ForkedError:
            code = 0
        finally:
            del endpoint
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert endpoint.call(peer, services.ECHO, b"mine", LONG) == b"mine"


@pytest.mark.parametrize("blocking", [True, False])
def test_an_interpreter_ends_with_operations_in_flight(
    registry: farcall.Node, transport: str, process: Peer, blocking: bool
) -> None:
    if blocking:
        # Another thread waits for what never comes.
        program = (
            "import sys, threading, farcall\n"
            "node = farcall.Node.open(sys.argv[1])\n"
            "ready = threading.Event()\n"
            "def wait():\n"
            "    endpoint = node.endpoint(sys.argv[2])\n"
            "    peer = endpoint.connect('peer').peer(60.0)\n"
            "    ready.set()\n"
            f"    endpoint.call(peer, {services.SILENT}, b'', 600.0)\n"
            "threading.Thread(target=wait, daemon=True).start()\n"
            "assert ready.wait(60.0)\n"
            "print('over')\n"
        )
    else:
        program = (
            "import asyncio, sys, farcall\n"
            "async def main():\n"
            "    endpoint = farcall.Node.open(sys.argv[1]).async_endpoint(sys.argv[2])\n"
            "    peer = await endpoint.connect('peer').peer(60.0)\n"
            f"    main.task = asyncio.ensure_future(endpoint.call(peer, {services.SILENT}, b'', 600.0))\n"
            "    await asyncio.sleep(0)\n"
            "    print('over')\n"
            "    sys.exit(0)\n"
            "asyncio.run(main())\n"
        )
    command = [sys.executable, "-c", program, registry.registry or "", transport]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert (ended.returncode, ended.stdout) == (0, "over\n"), ended.stderr


def test_a_wait_can_be_interrupted(endpoint: farcall.Endpoint, peer: farcall.Peer) -> None:
    # The signal comes when the call waits, or before it; either way it ends long before its deadline.
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    # A program that was started in the background ignores it until it says otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        begun.set()
        endpoint.call(peer, services.SILENT, b"", 600.0)
    thread.join()
    assert endpoint.call(peer, services.ECHO, b"on", LONG) == b"on"


def test_a_server_that_leaves(registry: farcall.Node, endpoint: farcall.Endpoint) -> None:
    listener = endpoint.listen("leaving")
    assert endpoint.leave(listener, LONG) == 0
    with pytest.raises(farcall.ClosedError):
        endpoint.leave(listener)
