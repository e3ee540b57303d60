"""The example programs do what their page says."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import farcall
import pytest
from conftest import LONG

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"


def said(name: str, *arguments: str, registry: str | None = None) -> str:
    environment = os.environ | ({} if registry is None else {"FARCALL_NAMES": registry})
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONG, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("transport", ["ring+shm", "basic+udp"])
def test_echo(transport: str) -> None:
    assert said("echo.py", transport) == "hello\n"


def test_service(registry: farcall.Node) -> None:
    environment = os.environ | {"FARCALL_NAMES": registry.registry or ""}
    command = [sys.executable, str(EXAMPLES / "service.py"), "serve"]
    servers = [subprocess.Popen(command, env=environment) for _ in range(2)]
    try:
        lines = said("service.py", "call", "5", registry=registry.registry).splitlines()
    finally:
        for server in servers:
            server.kill()
            server.wait()
    assert [line.split(",")[0] for line in lines] == ["0 words", "2 words", "4 words", "6 words", "8 words"]


@pytest.mark.parametrize("processes", ["1", "2", "3"])
def test_halo(processes: str) -> None:
    assert said("halo.py", processes, "50") == f"{processes} processes, 50 steps: 1000.000 of 1000 units of heat\n"


@pytest.mark.parametrize(("processes", "count"), [("1", "1000"), ("3", "20000"), ("4", "1")])
def test_sort(processes: str, count: str) -> None:
    total = int(processes) * int(count)
    assert said("sort.py", processes, count) == f"{total} numbers in {processes} processes: sorted\n"


def test_pool(registry: farcall.Node) -> None:
    assert said("pool.py", "3", "60", registry=registry.registry) == "60 calls, served by 3 workers\n"


def test_cache(address: str) -> None:
    assert said("cache.py", address) == "50 results, of which 40 came from the cache\n"


def test_http_front(registry: farcall.Node) -> None:
    environment = os.environ | {"FARCALL_NAMES": registry.registry or ""}
    front = [sys.executable, str(EXAMPLES / "http_front.py"), "0"]
    worker = [sys.executable, str(EXAMPLES / "service.py"), "serve"]
    with subprocess.Popen(front, stdout=subprocess.PIPE, text=True, env=environment) as front_process:
        worker_process = subprocess.Popen(worker, env=environment)
        try:
            assert front_process.stdout is not None
            url = front_process.stdout.readline().strip()
            with urllib.request.urlopen(url, b"how many words", LONG) as answer:
                assert answer.read().startswith(b"3 words, counted by process ")
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(url, timeout=LONG)
        finally:
            for process in (front_process, worker_process):
                process.kill()
                process.wait()


def test_parameters() -> None:
    assert said("parameters.py", "2") == "2 workers: y = 3.0 x + -2.0\n"
