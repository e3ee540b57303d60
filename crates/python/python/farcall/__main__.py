"""The program: ``farcall perf echo`` where the package is installed, or ``python -m farcall perf echo``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program that the wheel brought along, or else that of the search path."""
    shipped = Path(__file__).parent / "bin" / "farcall"
    program = str(shipped) if shipped.exists() else shutil.which("farcall")
    # The package's own command is no program to become.
    if program is None or Path(program).samefile(sys.argv[0]):
        sys.exit(
            "farcall: this wheel was built without the program; "
            "build one with `make wheel`, or put `farcall` into the search path"
        )
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
