"""One rule of a chain, read."""

from __future__ import annotations

from meshnet.model.ruleset import HeldRule
from meshnet.parse.ruleset import read


def rule(words: str, family: int = 4) -> HeldRule:
    (made,) = rules(words, family)
    return made


def rules(words: str, family: int = 4) -> tuple[HeldRule, ...]:
    chain = read(f"*mangle\n:A - [0:0]\n:B - [0:0]\n-A A {words}\nCOMMIT\n", family).tables[0].chain("A")
    assert chain is not None
    return chain.rules
