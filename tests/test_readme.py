"""The README's Python runs as it stands, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specadvisor.cli.app import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_python_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", README, re.S)
    assert snippets
    for snippet in snippets:
        names: dict[str, object] = {}
        exec(compile(snippet, "README.md", "exec"), names)
        assert names["k"] in range(17)
    assert list((tmp_path / "plots").glob("*.png"))


def test_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"specadvisor ([a-z]+) (?:--|[a-z]+\.csv|fit)", README))
    assert {"recommend", "sweep", "acceptance", "calibrate", "validate"} <= commands
    for command in commands:
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert not stopped.value.code
        assert "Usage" in capsys.readouterr().out


def test_every_output_block_is_filled() -> None:
    blocks = re.findall(r"<!-- output of: (.+?) -->\n```text\n(.*?)```", README, re.S)
    assert len(blocks) == 4
    for command, printed in blocks:
        assert printed.strip(), f"run: python benchmarks/readme.py ({command})"


def test_linked_pages_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target
