"""A check that cannot fail is none: the emulation must notice each defect planted in a copy of the kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from defects import DEFECTS, HARMLESS, kernel_name, variant_of
from emulated_kernels import GXX, attention_source, build

from specadvisor.calibration.compiler import SOURCES

pytestmark = pytest.mark.skipif(GXX is None, reason="g++ is not installed")


def test_every_planted_defect_is_noticed(tmp_path: Path) -> None:
    original = (SOURCES / "attention.cu").read_text()
    copies = []
    for defect in DEFECTS:
        assert not defect.old or original.count(defect.old) == 1, f"{defect.name}: its place in the kernel text is gone"
        text = tmp_path / f"{kernel_name(defect)}.cu"
        text.write_text(original.replace(defect.old, defect.new) if defect.old else original)
        copies.append((kernel_name(defect), variant_of(defect), text))
    library = build(attention_source(copies), tmp_path / "defects.so", "-O1")
    script = Path(__file__).with_name("defects.py")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(script), str(library.path)], capture_output=True, text=True, env=environment, check=True
    )
    outcomes = json.loads(done.stdout)
    assert {name for name, text in outcomes.items() if text == "passed"} == set(HARMLESS), outcomes
    assert len(outcomes) - len(HARMLESS) >= 12
