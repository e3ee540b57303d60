"""What other packages of Python take for the calls that `bench-python` measures.

A request of 30 B, an answer of 100 B, one after another, between two processes that are pinned. The far side of
each peer is started for its turn and ended after it, because some of them poll without a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib.util
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

REQUEST, ANSWER = b"x" * 30, b"y" * 100
CALLER, SERVER = 0, 1

Call = Callable[[], object]


def median_us(call: Call, calls: int) -> float:
    """The median time of a call, in microseconds."""
    for _ in range(calls // 10):
        call()
    times = []
    for _ in range(calls):
        begun = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begun)
    return statistics.median(times) / 1000


def zmq_server(address: str) -> None:
    """REP, over a Unix socket."""
    import zmq

    answers = zmq.Context().socket(zmq.REP)
    answers.bind(f"ipc://@{address}")
    while True:
        answers.recv()
        answers.send(ANSWER)


def zmq_caller(address: str) -> Call:
    """REQ. It waits for its server by itself."""
    import zmq

    questions = zmq.Context().socket(zmq.REQ)
    questions.connect(f"ipc://@{address}")

    def call() -> None:
        questions.send(REQUEST)
        questions.recv()

    return call


class Iceoryx2Request(ctypes.Structure):
    """As long as a request."""

    _fields_ = [("data", ctypes.c_uint8 * len(REQUEST))]


class Iceoryx2Answer(ctypes.Structure):
    """As long as an answer."""

    _fields_ = [("data", ctypes.c_uint8 * len(ANSWER))]


def iceoryx2_service(address: str) -> Any:
    """The service of both sides, with the node that must outlive it."""
    import iceoryx2

    iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
    node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
    builder = node.service_builder(iceoryx2.ServiceName.new(address))
    return node, builder.request_response(Iceoryx2Request, Iceoryx2Answer).open_or_create()


def iceoryx2_server(address: str) -> None:
    """Polls without a pause, as its caller does: to wait it would need an event beside each message."""
    _node, service = iceoryx2_service(address)
    server, answer = service.server_builder().create(), Iceoryx2Answer.from_buffer_copy(ANSWER)
    while True:
        request = server.receive()
        if request is not None:
            request.loan_uninit().write_payload(answer).send()
            request.delete()


def iceoryx2_caller(address: str) -> Call:
    """Begins when the server is there: earlier requests would be lost."""
    node, service = iceoryx2_service(address)
    client, request = service.client_builder().create(), Iceoryx2Request.from_buffer_copy(REQUEST)
    while service.dynamic_config.number_of_servers == 0:
        time.sleep(0.01)

    def call() -> None:
        pending = client.loan_uninit().write_payload(request).send()
        answer = pending.receive()
        while answer is None:
            answer = pending.receive()
        answer.delete()
        pending.delete()

    call.node = node  # type: ignore[attr-defined]
    return call


def ucxx_ready(side: Callable[[], Any]) -> Any:
    """Runs a side in a loop that polls UCX: its other modes wait for threads or descriptors."""
    import ucxx

    ucxx.init(progress_mode="polling")
    return asyncio.run(side())


def ucxx_server(port: str) -> None:
    """Streams of UCX are messages with tags here, into arrays that exist."""
    import numpy
    import ucxx

    async def exchange(endpoint: Any) -> None:
        request, answer = array_of(numpy, REQUEST), array_of(numpy, ANSWER)
        while True:
            await endpoint.recv(request)
            await endpoint.send(answer)

    async def side() -> None:
        _listener = ucxx.create_listener(exchange, int(port))
        await asyncio.Event().wait()

    ucxx_ready(side)


def ucxx_median_us(port: str, calls: int) -> float:
    """As [`median_us`], in a loop."""
    import numpy

    async def side() -> float:
        endpoint = await ucxx_connected(int(port))
        request, answer = array_of(numpy, REQUEST), array_of(numpy, ANSWER)
        times = []
        for _ in range(calls + calls // 10):
            begun = time.perf_counter_ns()
            await endpoint.send(request)
            await endpoint.recv(answer)
            times.append(time.perf_counter_ns() - begun)
        return statistics.median(times[calls // 10 :]) / 1000

    return float(ucxx_ready(side))


async def ucxx_connected(port: int) -> Any:
    """An endpoint to a server that may have yet to listen."""
    import ucxx
    import ucxx.exceptions

    give_up_at = time.monotonic() + 60
    while True:
        try:
            return await ucxx.create_endpoint("127.0.0.1", port)
        except ucxx.exceptions.UCXError:
            if time.monotonic() > give_up_at:
                raise
            await asyncio.sleep(0.05)


def array_of(numpy: Any, data: bytes) -> Any:
    """An array that may be written to."""
    return numpy.frombuffer(bytearray(data), dtype="u1")


class Peer(NamedTuple):
    """A package, and what its two sides do."""

    package: str
    module: str
    serve: Callable[[str], None]
    median_us: Callable[[str, int], float]

    def measure(self, cores: list[int], calls: int) -> float:
        """The median time of a call, in microseconds, of two processes of their own."""
        address = free_port() if self.module == "ucxx" else f"farcall-bench-{os.getpid()}-{self.module}"
        command = [sys.executable, __file__, self.module]
        server = subprocess.Popen([*command, "serve", str(cores[SERVER]), address], stderr=subprocess.DEVNULL)
        try:
            caller = [*command, "call", str(cores[CALLER]), address, str(calls)]
            ended = subprocess.run(caller, capture_output=True, text=True, check=True, timeout=300)
            return float(ended.stdout.split()[-1])
        finally:
            server.kill()
            server.wait()


def free_port() -> str:
    """A port where a server can listen, below those that the kernel gives to connections."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)


PEERS = [
    Peer("pyzmq", "zmq", zmq_server, lambda address, calls: median_us(zmq_caller(address), calls)),
    Peer("iceoryx2", "iceoryx2", iceoryx2_server, lambda at, calls: median_us(iceoryx2_caller(at), calls)),
    Peer("ucxx", "ucxx", ucxx_server, ucxx_median_us),
]


class Mpi:
    """mpi4py: `Send` and `Recv` of buffers, in two processes that `mpirun` starts."""

    package, module = "mpi4py", "mpi4py"

    def measure(self, cores: list[int], calls: int) -> float:
        """The median time of a call, which rank 0 prints."""
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
        # It yields after each look where it takes its cores for too few, as it does when told to oversubscribe.
        command += ["--mca", "mpi_yield_when_idle", "0"]
        command += [sys.executable, __file__, self.module, ",".join(map(str, cores)), str(calls)]
        pinned = lambda: os.sched_setaffinity(0, cores)  # noqa: E731
        ended = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=pinned)
        return float(ended.stdout.split()[-1])


def mpi_rank(cores: list[int], calls: int) -> None:
    """One of the two processes. The last message, without bytes, ends the server."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    os.sched_setaffinity(0, {cores[world.rank]})
    request, answer, status = bytearray(REQUEST), bytearray(ANSWER), MPI.Status()
    if world.rank == SERVER:
        while True:
            world.Recv([request, MPI.BYTE], source=CALLER, status=status)
            if status.Get_count(MPI.BYTE) == 0:
                return
            world.Send([answer, MPI.BYTE], dest=CALLER)

    def call() -> None:
        world.Send([request, MPI.BYTE], dest=SERVER)
        world.Recv([answer, MPI.BYTE], source=SERVER)

    print(median_us(call, calls), flush=True)
    world.Send([bytearray(), MPI.BYTE], dest=SERVER)


def peers() -> dict[str, Peer | Mpi | None]:
    """All peers by package; None for one that is not installed."""
    found = {peer.package: peer if importlib.util.find_spec(peer.module) else None for peer in PEERS}
    has_mpi = importlib.util.find_spec(Mpi.module) and shutil.which("mpirun")
    return {**found, Mpi.package: Mpi() if has_mpi else None}


def main() -> None:
    """One of the two sides of a peer."""
    module, *rest = sys.argv[1:]
    if module == Mpi.module:
        return mpi_rank([int(core) for core in rest[0].split(",")], int(rest[1]))
    side, core, address, *calls = rest
    os.sched_setaffinity(0, {int(core)})
    peer = next(peer for peer in PEERS if peer.module == module)
    if side == "serve":
        return peer.serve(address)
    print(peer.median_us(address, int(calls[0])), flush=True)
    # What UCX has begun to close would be waited for.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
