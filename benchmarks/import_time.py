"""How long `import roadworthy` and `roadworthy --help` take, best of five fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
import time

COMMANDS = {
    "python (nothing)": [sys.executable, "-c", "pass"],
    "import roadworthy": [sys.executable, "-c", "import roadworthy"],
    "import roadworthy.statistics": [sys.executable, "-c", "import roadworthy.statistics"],
    "roadworthy --help": [sys.executable, "-m", "roadworthy.cli", "--help"],
}


def best(command: list[str], rounds: int = 5) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    """Print the table."""
    print("\n| what | seconds | wanted |\n| --- | --- | --- |")
    for name, command in COMMANDS.items():
        wanted = "< 0.3" if name == "import roadworthy" else ""
        print(f"| {name} | {best(command):.3f} | {wanted} |")


if __name__ == "__main__":
    main()
