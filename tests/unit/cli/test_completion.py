from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(called: Any, shell: str) -> None:
    code, out, _ = called("completion", shell)
    assert code == 0 and "_MESHNET_COMPLETE" in out and f"{shell}_complete" in out


def test_another_shell(called: Any) -> None:
    code, out, err = called("completion", "csh")
    assert code == 2 and out == "" and "csh" in err
