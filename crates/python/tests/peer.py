"""A process that serves what the tests call: `peer.py REGISTRY TRANSPORT NAME`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any

import farcall

ECHO, REFUSE, RAISE, LATER, SILENT, ABANDON, BACK, LENT, KEEP, DIE, WRONG, WHY, ODD = range(1, 14)


class Odd(Exception):
    """An exception whose text is an exception."""

    def __str__(self) -> str:
        raise ValueError("no text")


def main() -> None:
    registry, transport, name = sys.argv[1:]
    logging.disable()
    node = farcall.Node.open(registry)
    endpoint = node.endpoint(transport)
    kept: list[object] = []

    @endpoint.serve(ECHO)
    def echo(request: farcall.Request) -> farcall.Payload:
        return request.payload

    @endpoint.serve(REFUSE)
    def refuse(request: farcall.Request) -> None:
        raise farcall.Refuse(request.payload[0])

    @endpoint.serve(RAISE)
    def fail(request: farcall.Request) -> None:
        raise RuntimeError("a test raises")

    @endpoint.serve(WHY)
    def why(request: farcall.Request) -> None:
        raise farcall.Refuse(3, bytes(request.payload).decode("utf-8", "surrogatepass"))

    @endpoint.serve(ODD)
    def odd(request: farcall.Request) -> None:
        raise Odd

    @endpoint.serve(LATER)
    def later(request: farcall.Request) -> None:
        deferred, payload = request.defer(), bytes(request.payload)
        threading.Thread(target=lambda: deferred.reply(payload[::-1])).start()

    @endpoint.serve(SILENT)
    def silent(request: farcall.Request) -> None:
        kept.append(request.defer())

    @endpoint.serve(ABANDON)
    def abandon(request: farcall.Request) -> None:
        request.defer()

    @endpoint.serve(BACK)
    def back(request: farcall.Request) -> None:
        # A handler may send, and must not wait.
        try:
            endpoint.call(request.peer, ECHO, b"")
        except farcall.InHandlerError:
            endpoint.send(request.peer, 7, request.payload)

    @endpoint.serve(LENT)
    def lent(request: farcall.Request) -> farcall.Loan:
        loan = endpoint.loan(len(request))
        with memoryview(loan) as view:
            view[:] = bytes(byte ^ 1 for byte in memoryview(request.payload))
        return loan

    @endpoint.serve(KEEP)
    def keep(request: farcall.Request) -> bytes:
        kept.append(request.payload)
        return bytes([len(kept)])

    @endpoint.serve(DIE)
    def die(request: farcall.Request) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @endpoint.serve(WRONG)
    def wrong(request: farcall.Request) -> Any:
        return 7

    endpoint.listen(name)
    endpoint.run()


if __name__ == "__main__":
    main()
