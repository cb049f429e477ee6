"""Refresh the printed outputs in README.md: every block after ``<!-- output of: COMMAND -->`` is what COMMAND prints.

python benchmarks/readme.py            all blocks
python benchmarks/readme.py recommend  only those whose command contains this word
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- output of: (?P<command>.+?)(?P<filter> \| .+?)? -->\n```(?:text)?\n).*?(^```$)", re.S | re.M)


def output(command: str, keep: str) -> str:
    """Standard output of ``command``, a shell filter applied where the marker names one."""
    environment = {**os.environ, "COLUMNS": "100", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command + keep], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.rstrip().splitlines())


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    readme = ROOT / "README.md"

    def refreshed(match: re.Match[str]) -> str:
        if word not in match["command"]:
            return match[0]
        print(match["command"], flush=True)
        return match[1] + output(match["command"], match["filter"] or "") + match[4]

    readme.write_text(BLOCK.sub(refreshed, readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
