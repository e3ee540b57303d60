"""HTTP in front, farcall behind: a server of asyncio passes bodies of POST on to workers and answers with theirs.

    farcall registry &
    python service.py serve &
    python http_front.py 8080 &
    curl --data 'how many words' http://127.0.0.1:8080/
"""

from __future__ import annotations

import asyncio
import sys

import farcall

WORD_COUNT = 1
#: Longer bodies are refused, and no header is longer.
BODY_BYTES_MAX, HEADER_BYTES_MAX = 1 << 20, 1 << 14


async def request_body(reader: asyncio.StreamReader) -> bytes | None:
    """The body of one request; None for what is no POST with a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    length = headers.get("content-length", "")
    if not first.startswith("POST ") or not length.isdecimal() or int(length) > BODY_BYTES_MAX:
        return None
    return await reader.readexactly(int(length))


def response(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


async def main() -> None:
    async with farcall.Node.open().async_endpoint("ring+shm") as endpoint:
        words = endpoint.connect("words", "two-choices")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                body = await request_body(reader)
                if body is None:
                    writer.write(response("400 Bad Request", b"POST a text\n"))
                else:
                    writer.write(response("200 OK", bytes(await words.call(WORD_COUNT, body, 5.0)) + b"\n"))
            except farcall.OperationError as error:
                writer.write(response("503 Service Unavailable", f"{error}\n".encode()))
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
                pass
            finally:
                writer.close()

        port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
        server = await asyncio.start_server(serve, "127.0.0.1", port, limit=HEADER_BYTES_MAX)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
