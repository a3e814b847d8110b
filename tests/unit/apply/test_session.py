from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from meshnet.apply.session import _joined, adapter
from meshnet.model.plan import ChangeSet, Step

ONE = ChangeSet((Step("drop", 4, "raw"),), ("- one",))
TWO = ChangeSet((Step("drop", 6, "nat"),), ("- two",))


def test_the_adapter_speaks_the_backend_that_was_asked_for():
    assert adapter("iptables-nft").name == "iptables-nft"
    assert adapter("iptables-legacy").name == "iptables-legacy"


def test_work_elsewhere_comes_after_the_work_here():
    assert _joined(ONE, (TWO, ONE)) == ChangeSet((*ONE.steps, *TWO.steps, *ONE.steps), ("- one", "- two", "- one"))
    assert _joined(ChangeSet(), ()).empty


COSTLY = {
    *("click", "yaml", "pyroute2", "scapy", "json", "re", "enum", "typing", "dataclasses", "subprocess", "ctypes"),
    *("socket", "selectors", "difflib", "inspect", "functools", "collections", "pathlib", "encodings.ascii"),
}


@pytest.mark.parametrize(
    "modules",
    [
        "meshnet.apply.session",
        "meshnet.apply.apply, meshnet.apply.host, meshnet.compile.pipeline, meshnet.render.plan, meshnet.kernel.facts",
    ],
)
def test_a_visit_loads_no_module_that_costs_as_much_as_the_interpreter(modules):
    script = f"import sys; sys.path.append({str(Path(__file__).resolve().parents[3])!r}); import {modules}"
    argv = [sys.executable, "-I", "-S", "-c", f"{script}; print(*sys.modules)"]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert not COSTLY & set(loaded)
