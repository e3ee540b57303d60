"""The package as it is installed: types, examples of its pages, the program."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import farcall
import pytest
from conftest import LONG

MODULES = [module.name for module in pkgutil.iter_modules(farcall.__path__) if module.name != "__main__"]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "_native"])
def test_examples_of_the_docstrings_run(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"farcall.{name}"))
    assert failed == 0 and tried > 0


def test_types_are_strict() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "-p", "farcall"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout


def test_everything_that_the_native_half_has_is_in_the_stub() -> None:
    allowed = ["--allowlist", str(Path(__file__).with_name("stubtest.txt")), "--ignore-unused-allowlist"]
    command = [sys.executable, "-m", "mypy.stubtest", "farcall._native", *allowed]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout


def test_the_package_is_the_program() -> None:
    installed = str(Path(sys.executable).with_name("farcall"))
    for command in ([sys.executable, "-m", "farcall"], [installed]):
        ended = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=LONG)
        assert ended.stdout.strip() == f"farcall {farcall.__version__}", ended.stderr


def test_errors_have_sentences() -> None:
    with pytest.raises(farcall.ClusterError, match="give host:port"):
        farcall.Node.open("nowhere")
    with pytest.raises(ValueError, match="0 to 254"):
        farcall.Refuse(255)


def test_counters_and_parameters_are_those_of_the_process() -> None:
    with farcall.Node.alone() as node, node.endpoint("ring+shm"):
        named = {(counter.group, counter.name): counter for counter in farcall.counters()}
        assert ("ring+shm#0", "polls") in named
        parameters = {parameter.name: parameter for parameter in node.settings()}
        assert parameters["endpoint.idle"].value == "block"
