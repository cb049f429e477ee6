from __future__ import annotations

import pytest

from specadvisor.serving import load_engine


@pytest.mark.parametrize(("version", "overlap"), [("0.10.1", False), ("0.13.2", False), ("0.14.0", True), ("0.25.0", True)])
def test_facts_of_older_releases(version: str, overlap: bool) -> None:
    assert load_engine("vllm", version).host_overlap is overlap


@pytest.mark.parametrize("version", [None, "master", "0.1.dev13107+ge1a34c3a5"])
def test_what_names_no_release_counts_as_the_version_read(version: str | None) -> None:
    assert load_engine("vllm", version).host_overlap is True
