from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.lab import runner

if TYPE_CHECKING:
    from pathlib import Path


def test_a_report_s_folder_is_made_before_anything_runs(
    called: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meshnet.kernel.netns.require_capabilities", lambda *_: None)
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("ran"))
    taken = tmp_path / "report"
    taken.write_text("")
    code, _, err = called("lab", "run", "without-rules", "--report", str(taken))
    assert code == 2 and f"can't write into {taken}: File exists" in err


def test_a_shell_without_a_lab_names_what_builds_one(called: Any) -> None:
    code, _, err = called("lab", "shell", "--prefix", "no-such-lab-")
    assert code == 3 and "meshnet lab up SPEC builds one" in err
