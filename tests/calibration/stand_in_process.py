"""Runs specadvisor in a process that finds the stand-in libraries instead of a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import specadvisor


@dataclass(frozen=True)
class StandIn:
    """Runs the command line, or Python text, in a process that finds the stand-in libraries instead of a GPU."""

    libraries: Path
    home: Path

    def environment(self, **settings: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(specadvisor.__file__).parents[1]),
            "LD_LIBRARY_PATH": str(self.libraries),
            "STAND_IN_KERNELS": str(self.libraries),
            "SPECADVISOR_CUBLASLT": str(self.libraries / "libcublasLt_stand_in.so"),
            "SPECADVISOR_HOME": str(self.home),
            "OPENBLAS_NUM_THREADS": "1",
            **settings,
        }

    def command(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        text = "from specadvisor.cli.app import main; main()"
        return self._run([sys.executable, "-c", text, "calibrate", *arguments], settings)

    def python(self, text: str, **settings: str) -> object:
        """What the text assigns to ``result``, through JSON."""
        done = self._run([sys.executable, "-c", f"import json\n{text}\nprint(json.dumps(result))"], settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def _run(self, command: list[str], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in self.environment(**settings).items() if value}
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)

    def saved(self) -> list[str]:
        """Files in the user's profile folder."""
        return sorted(p.name for p in self.home.rglob("*") if p.is_file())
