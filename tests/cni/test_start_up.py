"""What a whole ADD loads and which processes it starts, with a kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.cni.conftest import path_of
from tests.unit.cni.test_start_up import BARE, FOR_ADD, FOR_VERSION, ROOT, SCRIPT, STANDARD, foreign, of_meshnet

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.kernel.netns import Namespace


def test_a_whole_add_loads_what_it_needs(config: Callable[..., dict[str, Any]], pod: Namespace) -> None:
    environment = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "one", "CNI_IFNAME": "eth0", "CNI_NETNS": path_of(pod)}
    argv = (sys.executable, "-I", "-S", "-c", SCRIPT, str(ROOT), json.dumps(config()))
    said = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout
    answer, _, modules = said.strip().rpartition("\n")
    assert answer.startswith("0 ")
    loaded = set(modules.split())
    passes = {name for name in of_meshnet(loaded) if name.startswith("compile.passes.")}
    assert of_meshnet(loaded) - passes == FOR_VERSION | FOR_ADD
    assert foreign(loaded) <= BARE | STANDARD
