"""What a process loads for a spec: an init container pays for it on every pod."""

from __future__ import annotations

import subprocess
import sys


def test_a_good_spec_loads_no_more_than_it_needs() -> None:
    script = (
        "import sys; from meshnet.spec.load import load_text\n"
        "assert 'yaml' not in sys.modules\n"
        "load_text('apiVersion: meshnet/v1\\nkind: Interception\\n', 's.yaml')\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    unwanted = {"dataclasses", "typing", "inspect", "ipaddress", "socket", "subprocess", "json", "difflib"}
    unwanted |= {f"meshnet.spec.{name}" for name in ("schema", "reference", "dump", "nearest")}
    assert unwanted.isdisjoint(loaded)
