"""Write docs/spec.md, the reference of the spec. A test fails while the file on disk is another."""

from __future__ import annotations

from pathlib import Path

from meshnet.spec.reference import reference

if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("docs", "spec.md").write_text(reference(), encoding="utf-8")
