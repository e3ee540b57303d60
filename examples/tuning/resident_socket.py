#!/usr/bin/env python3
"""Sends bytes through a pair of sockets, as often as `farcall tune` asks: an example of a command that runs on.

Each line that it reads says what to set, and is answered with a line of JSON. See resident-socket.toml.
"""

import json
import socket
import sys
import threading
import time

BYTES = 16 << 20


def receive(end):
    left = BYTES
    while left > 0:
        left -= len(end.recv(1 << 20))


def main():
    pair, session = None, None
    for line in sys.stdin:
        trial = json.loads(line)
        if trial["session"] != session:
            session = trial["session"]
            pair = socket.socketpair()
            pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(session["buffer"]))
        chunk = bytes(int(trial["message"]["chunk"]))
        receiver = threading.Thread(target=receive, args=(pair[1],))
        receiver.start()
        begun = time.perf_counter()
        for _ in range(BYTES // len(chunk)):
            pair[0].sendall(chunk)
        receiver.join()
        rate = BYTES / (time.perf_counter() - begun)
        print(json.dumps({"trial": trial["trial"], "rate": rate / 1e6}), flush=True)


main()
