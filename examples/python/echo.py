"""Two processes of one machine, and a call that is waited for: `python echo.py [TRANSPORT]`."""

from __future__ import annotations

import sys

import farcall

ECHO, STOP = 1, 2


def main() -> None:
    node = farcall.Node.local(2)  # Both processes arrive here, as ranks 0 and 1.
    with node.endpoint(sys.argv[1] if len(sys.argv) > 1 else "ring+shm") as endpoint:

        @endpoint.serve(ECHO)
        def echo(request: farcall.Request) -> farcall.Payload:
            return request.payload

        @endpoint.serve(STOP)
        def stop(request: farcall.Request) -> None:
            endpoint.stop()

        if node.rank == 1:
            endpoint.run()
        else:
            peer = endpoint.peer(1)
            print(bytes(endpoint.call(peer, ECHO, b"hello")).decode())
            endpoint.call(peer, STOP, b"")


if __name__ == "__main__":
    main()
