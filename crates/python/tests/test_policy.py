"""Policies: who calls, what a service and a table refuse, and what is said of it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import farcall
import pytest
from conftest import LONG, serve_store

ME = f"uid {os.getuid()}"
MINE, ANYBODY, NOBODY = 1, 2, 3


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A policy for services and tables."""
    path = tmp_path / "policy"
    path.write_text(
        f"service {MINE}: call by {ME}\nservice {ANYBODY}: call by any\n"
        f"table mine: read, write, administer by {ME}\ntable seen: read by {ME}\nmessages: send by any\n"
    )
    path.chmod(0o600)
    return path


@pytest.fixture
def server(registry: farcall.Node, transport: str, rules: Path) -> Iterator[None]:
    """A server with a policy, whose handlers say who calls."""
    opened, is_over = threading.Event(), threading.Event()

    def serve() -> None:
        with registry.endpoint(transport, {"security.policy_file": rules}) as server:

            @server.serve(MINE)
            @server.serve(ANYBODY)
            def who(request: farcall.Request) -> bytes:
                caller = request.principal
                assert caller.has(ME) == (caller.kind == "uid") and not caller.has("certificate worker.example")
                assert (caller.uid, caller.names) == (os.getuid() if caller.kind == "uid" else None, [])
                assert caller == request.principal and ("Principal(" in repr(caller))
                with pytest.raises(ValueError, match="uid"):
                    caller.has("user 7")
                return f"{caller.kind}/{caller}".encode()

            @server.serve(NOBODY)
            def never(request: farcall.Request) -> None:
                raise AssertionError("a refused request never runs")

            server.listen("guarded")
            opened.set()
            server.run(is_over.is_set)

    thread = threading.Thread(target=serve)
    thread.start()
    assert opened.wait(LONG)
    yield
    is_over.set()
    thread.join()


def test_handlers_learn_who_calls(server: None, endpoint: farcall.Endpoint, transport: str) -> None:
    is_known = "shm" in transport
    with endpoint.connect("guarded") as guarded:
        said = bytes(guarded.call(ANYBODY, b"", LONG)).decode()
        assert said == (f"uid/{ME}" if is_known else "none/a peer without an identity")
        if is_known:
            assert bytes(guarded.call(MINE, b"", LONG)).decode() == said
        else:
            with pytest.raises(farcall.NotAllowedError, match="without an identity may not call service 1"):
                guarded.call(MINE, b"", LONG)
        with pytest.raises(farcall.NotAllowedError, match="may not call service 3"):
            guarded.call(NOBODY, b"", LONG)


def test_handlers_of_event_loops_learn_it_too(registry: farcall.Node, transport: str, rules: Path) -> None:
    async def main() -> None:
        settings = {"security.policy_file": rules}
        async with registry.async_endpoint(transport, settings) as server:

            @server.serve(ANYBODY)
            async def who(request: farcall.Request) -> bytes:
                return request.principal.kind.encode()

            server.listen("loop")
            async with registry.async_endpoint(transport) as client:
                guarded = client.connect("loop")
                kind = "uid" if "shm" in transport else "none"
                assert bytes(await guarded.call(ANYBODY, b"", LONG)).decode() == kind
                with pytest.raises(farcall.NotAllowedError, match="may not call service 3"):
                    await guarded.call(NOBODY, b"", LONG)

    asyncio.run(asyncio.wait_for(main(), LONG))


def test_a_policy_that_is_of_no_use_is_an_error(registry: farcall.Node, tmp_path: Path) -> None:
    with pytest.raises(farcall.SettingsError, match="nowhere"):
        registry.endpoint("ring+shm", {"security.policy_file": tmp_path / "nowhere"})


def test_tables_are_refused(rules: Path) -> None:
    with serve_store("--set", f"security.policy_file={rules}", "--tables", "mine,seen,other") as address:
        with farcall.open_store(address) as store:
            mine = store.table("mine")
            mine.put(b"k", b"v")
            with pytest.raises(farcall.NotAllowedError, match=f"{ME} may not create or drop the table"):
                store.table("other")
            with pytest.raises(farcall.NotAllowedError, match="may not create or drop the table `seen`"):
                store.table("seen", "flushed")
            with pytest.raises(farcall.NotAllowedError):
                store.drop_table("seen")
        with farcall.Slots(address) as slots:
            assert slots.table("mine").get(b"k") is not None
            seen = slots.table("seen")
            assert seen.get(b"k") is None
            with pytest.raises(farcall.NotAllowedError):
                seen.put(b"k", b"v")
            found = slots.table("other").get_many([b"k"])
            assert isinstance(found[0], farcall.NotAllowedError)
