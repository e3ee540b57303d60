"""Contexts of traces go with calls and into handlers, and the slowest calls are written."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import farcall
import pytest
from conftest import LONG
from farcall import tracing

ORDERS, LATER, REFUSE, STOP, PLAIN = range(1, 6)

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

#: The numbers of OTLP for kinds of spans.
INTERNAL, SERVER, CLIENT = 1, 2, 3


def given() -> farcall.TraceContext:
    context = farcall.TraceContext.of_headers(GIVEN, "rojo=1")
    assert context is not None
    return context


def scope_of(request: farcall.Request) -> bytes:
    """What a handler says of the scope in which it runs."""
    context = tracing.current()
    assert context == request.trace
    return b"" if context is None else context.traceparent.encode()


class Served(NamedTuple):
    """A server on a thread of its own, and an endpoint that calls it."""

    node: farcall.Node
    endpoint: farcall.Endpoint
    peer: farcall.Peer


@contextmanager
def served(transport: str) -> Iterator[Served]:
    """A server of this process, which traces."""
    node, opened = farcall.Node.alone(), threading.Event()

    def serve() -> None:
        with node.endpoint(transport) as server:
            server.trace()
            server.serve(ORDERS, traced="orders")(scope_of)
            server.serve(PLAIN)(lambda request: scope_of(request))

            @server.serve(LATER, traced="later")
            def later(request: farcall.Request) -> farcall.Deferred:
                deferred, said = request.defer(), scope_of(request)
                threading.Thread(target=lambda: deferred.reply(said)).start()
                return deferred

            @server.serve(REFUSE, traced="refuse")
            def refuse(request: farcall.Request) -> None:
                raise farcall.Refuse(7, "a secret")

            @server.serve(STOP)
            def stop(request: farcall.Request) -> None:
                server.stop()

            opened.set()
            server.run()

    thread = threading.Thread(target=serve)
    thread.start()
    assert opened.wait(LONG)
    with node, node.endpoint(transport) as endpoint:
        peer = endpoint.peer(0)
        try:
            yield Served(node, endpoint, peer)
        finally:
            endpoint.call(peer, STOP, b"", LONG)
            thread.join()


def spans_of(path: Path) -> list[dict[str, Any]]:
    """What a recorder has written."""
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    resources = [resource for document in documents for resource in document["resourceSpans"]]
    assert all("service.name" in str(resource["resource"]) for resource in resources)
    return [span for resource in resources for scope in resource["scopeSpans"] for span in scope["spans"]]


def of_kind(spans: list[dict[str, Any]], kind: int, name: str) -> list[dict[str, Any]]:
    return [span for span in spans if span["kind"] == kind and span["name"] == name]


def stages_of(spans: list[dict[str, Any]], of: dict[str, Any]) -> list[str]:
    """The names of the stages of a span, which lie in it one after the other."""
    stages = [span for span in spans if span["kind"] == INTERNAL and span["parentSpanId"] == of["spanId"]]
    times = [int(stage[time]) for stage in stages for time in ("startTimeUnixNano", "endTimeUnixNano")]
    assert times == sorted(times)
    assert not times or int(of["startTimeUnixNano"]) <= times[0] and times[-1] <= int(of["endTimeUnixNano"])
    return [stage["name"] for stage in stages]


def ended() -> int:
    """How many spans of this process have ended."""
    return sum(one.value for one in farcall.counters() if (one.group, one.name) == ("spans", "ended"))


def wait_until_ended(count: int) -> None:
    """Returns when so many spans have: the answer of a handler may arrive before its span has ended."""
    deadline = time.monotonic() + LONG
    while ended() < count:
        assert time.monotonic() < deadline


def test_headers_are_read_strictly() -> None:
    context = given()
    assert (context.traceparent, context.tracestate) == (GIVEN, "rojo=1")
    assert farcall.TraceContext.of_headers(GIVEN.upper()) is None
    without = farcall.TraceContext.of_headers(GIVEN, "no state")
    assert without is not None and without.tracestate is None and without != context
    assert farcall.TraceContext.root() != farcall.TraceContext.root()
    assert context in {given()} and GIVEN in repr(context)


def test_scopes_are_those_of_threads_and_tasks() -> None:
    seen: list[farcall.TraceContext | None] = []
    with tracing.scope(given()):
        thread = threading.Thread(target=lambda: seen.append(tracing.current()))
        thread.start()
        thread.join()
        with tracing.scope(None):
            assert tracing.current() is None
        assert tracing.current() == given()
    assert seen == [None] and tracing.current() is None


def test_a_context_goes_with_a_traced_call(transport: str) -> None:
    with served(transport) as (_, endpoint, peer):
        assert bytes(endpoint.call(peer, ORDERS, b"nails", LONG, traced="orders")) == b""
        with tracing.scope(given()):
            for data in (b"nails", bytearray(100_000)):
                assert bytes(endpoint.call(peer, ORDERS, data, LONG, "orders")) == GIVEN.encode()
            assert bytes(endpoint.call(peer, LATER, b"", LONG, "later")) == GIVEN.encode()
            assert bytes(endpoint.call(peer, PLAIN, b"", LONG)) == b"", "there is no room for it"
            loan = endpoint.loan(3)
            with memoryview(loan) as view:
                view[:] = b"abc"
            assert bytes(endpoint.call(peer, ORDERS, loan, LONG, "orders")) == GIVEN.encode()
        with pytest.raises(farcall.HandlerError, match="does not begin with a trace context"):
            endpoint.call(peer, ORDERS, b"nails", LONG)


def test_the_slowest_calls_are_written_with_their_stages(tmp_path: Path) -> None:
    path, before = tmp_path / "spans.jsonl", ended()
    with served("ring+shm") as (_, endpoint, peer):
        endpoint.trace()
        with farcall.SpanRecorder(path, "shop", slowest=2, window=3600.0), tracing.scope(given()):
            with pytest.raises(farcall.UsageError, match="already"):
                farcall.SpanRecorder(path, "shop")
            answers = {bytes(endpoint.call(peer, ORDERS, b"", LONG, "orders")) for _ in range(20)}
            endpoint.call(peer, LATER, b"", LONG, "later")
            with pytest.raises(farcall.RefusedError):
                endpoint.call(peer, REFUSE, b"", LONG, "refuse")
            wait_until_ended(before + 2 * (20 + 1 + 1))
    assert len(answers) == 20 and not any(GIVEN.encode() == answer for answer in answers)
    spans = spans_of(path)
    clients, servers = of_kind(spans, CLIENT, "orders"), of_kind(spans, SERVER, "orders")
    assert (len(clients), len(servers)) == (2, 2), "the slowest two of each end"
    assert {span["traceId"] for span in spans} == {GIVEN.split("-")[1]}
    for client in clients:
        assert client["parentSpanId"] == GIVEN.split("-")[2]
        assert stages_of(spans, client) == ["submit", "away", "complete"]
    for server in servers:
        assert server["parentSpanId"] != GIVEN.split("-")[2]
        assert stages_of(spans, server) == ["gather", "dispatch", "queue", "handler"]
    [deferred] = of_kind(spans, SERVER, "later")
    assert "status" not in deferred
    [refused] = of_kind(spans, SERVER, "refuse")
    [call] = of_kind(spans, CLIENT, "refuse")
    assert refused["status"]["message"] == "the handler refused", "and not what it said"
    assert call["status"]["message"].startswith("the peer's handler refused with code 7")
    assert refused["parentSpanId"] == call["spanId"]


def test_tasks_have_spans_and_handlers_that_are_coroutines(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"

    async def main() -> list[bytes]:
        async with (
            farcall_node.async_endpoint("ring+shm") as server,
            farcall_node.async_endpoint("ring+shm") as client,
        ):
            server.trace()
            client.trace()
            inner = await server.peer(0)

            @server.serve(ORDERS, traced="orders")
            async def orders(request: farcall.Request) -> bytes:
                await asyncio.sleep(0)
                # What a handler calls is caused by its span.
                stock = await server.call(inner, PLAIN, request.payload, LONG, traced="stock")
                return bytes(stock)

            @server.serve(PLAIN, traced="stock")
            def stock(request: farcall.Request) -> bytes:
                return scope_of(request)

            @server.serve(REFUSE, traced="refuse")
            async def refuse(request: farcall.Request) -> bytes:
                raise KeyError("a secret")

            @server.serve(LATER, traced="silent")
            async def silent(request: farcall.Request) -> bytes:
                await asyncio.sleep(LONG)
                return b""

            peer = await client.peer(0)
            assert tracing.current() is None
            answers = await asyncio.gather(
                *(client.call(peer, ORDERS, b"nails", LONG, traced="orders") for _ in range(5))
            )
            with pytest.raises(farcall.HandlerError):
                await client.call(peer, REFUSE, b"", LONG, traced="refuse")
            waiting = asyncio.create_task(client.call(peer, LATER, b"", LONG, traced="silent"))
            await client.call(peer, PLAIN, b"", LONG, traced="stock")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            server.close()
            client.close()
            return [bytes(answer) for answer in answers]

    with farcall.Node.alone() as farcall_node, farcall.SpanRecorder(path, "shop", slowest=100, window=3600.0):
        answers = asyncio.run(asyncio.wait_for(main(), LONG))
    spans = spans_of(path)
    clients, servers = of_kind(spans, CLIENT, "orders"), of_kind(spans, SERVER, "orders")
    assert len(set(answers)) == len(clients) == len(servers) == 5
    by_id = {span["spanId"]: span for span in spans}
    for server in servers:
        caller = by_id[server["parentSpanId"]]
        assert (caller["name"], caller["traceId"]) == ("orders", server["traceId"])
        assert stages_of(spans, caller) == ["submit", "away", "complete"]
        assert stages_of(spans, server) == ["gather", "dispatch", "queue", "handler"]
    caused = [span for span in of_kind(spans, CLIENT, "stock") if "parentSpanId" in span]
    assert {span["parentSpanId"] for span in caused} == {server["spanId"] for server in servers}
    assert {answer.decode().split("-")[2] for answer in answers} <= {
        span["spanId"] for span in of_kind(spans, SERVER, "stock")
    }
    [refused] = of_kind(spans, SERVER, "refuse")
    assert refused["status"]["message"] == "the handler refused"
    [cancelled] = of_kind(spans, CLIENT, "silent")
    assert "cancelled" in cancelled["status"]["message"] or "given up" in cancelled["status"]["message"]


def test_names_have_traced_calls(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"

    async def main(node: farcall.Node) -> None:
        async with node.async_endpoint("ring+shm") as server, node.async_endpoint("ring+shm") as client:
            client.trace()
            server.serve(ORDERS, traced="orders")(scope_of)
            with server.listen("shop"), tracing.scope(given()):
                answer = await client.connect("shop").call(ORDERS, b"nails", LONG, traced="orders")
            assert bytes(answer).decode().split("-")[1] == GIVEN.split("-")[1]

    with farcall.Node.serving_names() as node, farcall.SpanRecorder(path, "shop", window=3600.0):
        asyncio.run(asyncio.wait_for(main(node), LONG))
    spans = spans_of(path)
    [client] = of_kind(spans, CLIENT, "orders")
    assert stages_of(spans, client) == ["queue", "submit", "away", "complete", "wake"]


def test_a_forked_child_does_not_record_and_may_have_its_own(tmp_path: Path) -> None:
    parent, child, before = tmp_path / "parent.jsonl", tmp_path / "child.jsonl", ended()
    with served("ring+shm") as (_, endpoint, peer):
        recorder = farcall.SpanRecorder(parent, "shop", window=3600.0)
        endpoint.call(peer, ORDERS, b"", LONG, "orders")
        wait_until_ended(before + 2)
        process = os.fork()
        if process == 0:
            # What raises here must not go on as a second run of the tests.
            try:
                with farcall.SpanRecorder(child, "child"):
                    pass
                recorder.close()
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(process, 0)
        recorder.close()
    assert os.waitstatus_to_exitcode(status) == 0
    assert child.read_text() == "" and of_kind(spans_of(parent), CLIENT, "orders")


def test_what_a_recorder_cannot_be() -> None:
    for arguments in ({"slowest": 0}, {"slowest": 101}):
        with pytest.raises(ValueError, match="1 to 100"):
            farcall.SpanRecorder("/dev/null", "shop", **arguments)
    for window in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="longer than 0"):
            farcall.SpanRecorder("/dev/null", "shop", window=window)
    with pytest.raises(FileNotFoundError):
        farcall.SpanRecorder("/nowhere/at/all", "shop")
