"""Short documents for tests, and what is said about wrong ones."""

from __future__ import annotations

import pytest

from meshnet.model.errors import SpecError
from meshnet.model.spec import Spec
from meshnet.spec.load import load_text

HEAD = "apiVersion: meshnet/v1\nkind: Interception\n"


def spec_of(body: str) -> Spec:
    """The Spec of a document of which only the body (from line 3 on) is given."""
    return load_text(HEAD + body, "s.yaml").spec


def said(body: str, head: str = HEAD) -> list[str]:
    """Every problem of a document, without the file's name."""
    with pytest.raises(SpecError) as caught:
        load_text(head + body, "s.yaml")
    assert caught.value.exit_code == 2
    lines = caught.value.lines()
    assert all(line.startswith("s.yaml:") and line.isprintable() for line in lines)
    return [line.removeprefix("s.yaml:") for line in lines]
