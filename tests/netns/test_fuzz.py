"""2,000 random packets through random rules: the simulator and the kernel agree. ``make fuzz`` sends more."""

from __future__ import annotations

import pytest

from meshnet.model.host import Listener
from meshnet.parse.ruleset import read
from meshnet.simulate.walk import Pod
from tests.netns import fuzz, randomrules

SEED, FLOWS = 1, 340


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("backend", ["nft", "legacy", "nftables"])
def test_simulator_and_kernel_agree(backend: str, family: int) -> None:
    wrong = [f"{rules}\n{flow!r}\n{said}" for rules, flow, said in fuzz.rounds(SEED, family, backend, FLOWS)]
    assert not wrong, "\n\n".join(wrong[:3])


def test_a_wrong_prediction_would_be_noticed() -> None:
    """With another set of rules than the kernel has, nearly every packet is a disagreement."""
    world = fuzz.World(4, "legacy")
    settings = fuzz.Settings(False, False, 0, False, True)
    try:
        world.setup(settings, "*nat\n-A PREROUTING -p tcp -j REDIRECT --to-ports 15006\nCOMMIT\n")
        pod = Pod([read("*nat\n-A PREROUTING -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n", 4)], world.host(settings))
        flow = fuzz.Flow("in", 4, "tcp", _number(randomrules.CLIENT[4][0]), _number(randomrules.POD[4][0]), 80, "eth0")
        said = fuzz.disagreement(world, pod, flow)
        assert "tcp 15001 *" in said and "tcp 15006" in said
    finally:
        world.close()
    assert isinstance(world.host(settings).listeners[0], Listener)


def _number(text: str) -> int:
    return fuzz.read_address(text)[1]
