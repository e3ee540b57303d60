"""Collective operations on arrays, between processes that one of them starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LONG

PROGRAM = Path(__file__).with_name("group.py")


@pytest.mark.parametrize("transport", ["ring+shm", "basic+udp"])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_all_operations(transport: str, processes: int) -> None:
    command = [sys.executable, str(PROGRAM), transport, str(processes)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert (ended.returncode, ended.stdout) == (0, f"{processes} agree\n"), ended.stderr


@pytest.mark.parametrize("transport", ["ring+shm", "basic+udp"])
@pytest.mark.parametrize("processes", [1, 3])
def test_all_operations_in_event_loops(transport: str, processes: int) -> None:
    command = [sys.executable, str(PROGRAM), transport, str(processes), "loop"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert (ended.returncode, ended.stdout) == (0, f"{processes} agree\n"), ended.stderr


def test_a_member_that_dies_is_named() -> None:
    command = [sys.executable, str(PROGRAM), "ring+shm", "3", "dies"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    # Member 2 may see the end of member 1 first, and give up before member 0 looks.
    assert ended.stdout in ("member 1 is down\n", "member 2 gave up\n"), ended.stderr
