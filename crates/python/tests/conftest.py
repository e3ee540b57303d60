"""What the tests share: a registry, and a peer that is another process."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import farcall
import pytest

#: Generous: reached only when something hangs.
LONG = 60.0

#: Over shared memory, packets, and messages of a library.
TRANSPORTS = os.environ.get("FARCALL_TEST_TRANSPORTS", "ring+shm,basic+udp,tcp").split(",")

PEER = Path(__file__).with_name("peer.py")


class Peer:
    """A process that serves under a name; killed when the test is over."""

    def __init__(self, registry: farcall.Node, transport: str, name: str) -> None:
        command = [sys.executable, str(PEER), registry.registry or "", transport, name]
        self.process = subprocess.Popen(command)

    def kill(self) -> None:
        """As `kill -9` does."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def registry() -> Iterator[farcall.Node]:
    """A node that serves names."""
    with farcall.Node.serving_names() as node:
        yield node


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """Each transport that tests run over."""
    return str(request.param)


@pytest.fixture
def process(registry: farcall.Node, transport: str) -> Iterator[Peer]:
    """The peer, as a process."""
    peer = Peer(registry, transport, "peer")
    yield peer
    peer.kill()


@pytest.fixture
def endpoint(registry: farcall.Node, transport: str) -> Iterator[farcall.Endpoint]:
    """An endpoint of this process."""
    with registry.endpoint(transport) as endpoint:
        yield endpoint


@pytest.fixture
def peer(endpoint: farcall.Endpoint, process: Peer) -> farcall.Peer:
    """The peer, as this process's endpoint sees it."""
    return endpoint.connect("peer").peer(LONG)


class StoreProcess(NamedTuple):
    """A store that is a process."""

    address: str
    process: subprocess.Popen[bytes]


def free_port() -> int:
    """A port where a store can listen, below those that the kernel gives to connections."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def store_process(*arguments: str) -> Iterator[StoreProcess]:
    """A store at a free place."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "farcall", "kv", "serve", "--memory", "64M", "--at", address, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        # The first line says that it serves; more is read by nobody, and fits into the pipe.
        assert process.stdout is not None
        try:
            assert b"serves" in process.stdout.readline()
            yield StoreProcess(address, process)
            process.terminate()
            process.wait(LONG)
        finally:
            process.kill()


@contextmanager
def serve_store(*arguments: str) -> Iterator[str]:
    """Where shard 0 of a store is."""
    with store_process(*arguments) as store:
        yield store.address


@pytest.fixture(scope="module", params=["ring+shm", "basic+udp"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where shard 0 of a store is."""
    with serve_store("--transport", request.param) as address:
        yield address
