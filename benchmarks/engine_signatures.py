"""Whether the engines' packages still have the functions that calibration calls, with the parameters it passes.

    python benchmarks/engine_signatures.py PATH...             # PATH: site-packages, or unpacked wheels; nothing is imported
    python benchmarks/engine_signatures.py PATH... --record    # write what was found into tests/data/engine_signatures.json

Reads the sources only, so neither torch nor a GPU is needed. Exit code 1 if a function or a parameter is missing; packages that
are not there are left out. The fakes of ``tests/calibration/fake_engines`` are held to the recorded parameters.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "engine_signatures.json"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters(source: str, name: str) -> list[str] | None:
    """Parameter names of ``function`` or ``Class.method``, without self; the last definition counts, as after overloads."""
    body: Sequence[ast.AST] = ast.parse(source).body
    *classes, function = name.split(".")
    for wanted in classes:
        found = [node for node in _nested(body) if isinstance(node, ast.ClassDef) and node.name == wanted]
        if not found:
            return None
        body = found[-1].body
    functions = [node for node in _nested(body) if isinstance(node, Function) and node.name == function]
    if not functions:
        return None
    given = functions[-1].args
    names = [a.arg for a in (*given.posonlyargs, *given.args)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    return [n for n in (*names, *(a.arg for a in given.kwonlyargs)) if n != "self"]


def _nested(body: Sequence[ast.AST]) -> list[ast.AST]:
    """Statements of a module or class, also those under ``if`` and ``try``."""
    found: list[ast.AST] = []
    for node in body:
        found.append(node)
        for field in ("body", "handlers", "orelse", "finalbody"):
            if not isinstance(node, Function | ast.ClassDef):
                found += _nested(getattr(node, field, []))
    return found


def exports(source: str, name: str) -> bool:
    """Whether a module defines ``name`` or imports it, be it with a star."""
    for node in _nested(ast.parse(source).body):
        if isinstance(node, Function | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.ImportFrom) and {a.asname or a.name for a in node.names} & {name, "*"}:
            return True
    return False


def problem(root: Path, call: dict[str, Any]) -> tuple[str, list[str]]:
    """(what is wrong or nothing, parameters found) of one call in the package under ``root``."""
    module, name = call["call"].split(":")
    place = root / module.replace(".", "/")
    file = next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)
    if file is None:
        return f"no module {module}", []
    if not exports(file.read_text(encoding="utf-8"), name.split(".")[0]):
        return f"{module} does not have {name.split('.')[0]}", []
    defined = root / call["defined"]
    found = parameters(defined.read_text(encoding="utf-8"), name) if defined.is_file() else None
    if found is None:
        return f"{name} is not defined in {call['defined']}", []
    missing = [p for p in call["passed"] if p not in found and f"*{p}" not in found]
    return f"no parameter {', '.join(missing)}" if missing else "", found


def installed_version(root: Path, distributions: list[str]) -> str:
    """``name version`` of the first of these distributions whose metadata lies in ``root``."""
    for file in sorted((*root.glob("*.dist-info/METADATA"), *root.glob("PKG-INFO"))):
        head = file.read_text(encoding="utf-8")
        facts = dict(re.findall(r"^(Name|Version): (.+)$", head, re.MULTILINE)[:2])
        if re.sub(r"[-_.]+", "-", facts.get("Name", "")).lower() in distributions:
            return f"{facts['Name']} {facts['Version']}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    failures = 0
    for package in recorded["packages"]:
        for root in options.paths:
            version = installed_version(root, package["distributions"])
            if not version or not (root / package["calls"][0]["call"].split(":")[0].split(".")[0]).is_dir():
                continue
            for call in package["calls"]:
                wrong, found = problem(root, call)
                failures += bool(wrong)
                print(f"{version:28} {call['call']:96} {wrong or 'ok'}")
                if options.record and not wrong:
                    package["version"], call["parameters"] = version, found
    if options.record:
        text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda names: f"[{' '.join(names[1].split())}]", json.dumps(recorded, indent=1))
        RECORDED.write_text(text + "\n", encoding="utf-8")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
