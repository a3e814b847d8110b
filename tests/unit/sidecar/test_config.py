from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.errors import Wrong
from meshnet.model.ports import PortRange
from meshnet.model.spec import Inbound, Marks, Outbound, Passthrough, Sidecar, Spec
from meshnet.sidecar.config import Settings, settings_of


def test_json_gives_the_same_value_back() -> None:
    settings = Settings(
        inbound_mode="redirect",
        inbound_ports=PortRange(15006, 15009),
        outbound_mark=7,
        uid=None,
        gid=0,
        families=(6,),
        dials="loopback",
        connect_seconds=0.5,
    )
    assert Settings.from_json(settings.to_json()) == settings
    assert "\n" not in settings.to_json()
    assert Settings.from_json("{}") == Settings()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"colour": 1}',
        '{"inbound_mode": "sideways"}',
        '{"inbound_ports": "80-70"}',
        '{"outbound_port": 0}',
        '{"uid": 4294967295}',
        '{"gid": true}',
        '{"inbound_mark": 4294967296}',
        '{"families": []}',
        '{"families": [5]}',
        '{"families": 4}',
        '{"passthrough4": "::6"}',
        '{"passthrough6": 6}',
        '{"dials": "home"}',
        '{"connections": 0}',
        '{"connect_seconds": 0}',
        '{"connect_seconds": "1"}',
        '{"original_source": 1}',
        '{"inbound_ports": "15000-15010"}',
    ],
)
def test_what_is_not_settings_is_refused(text: str) -> None:
    with pytest.raises(Wrong):
        Settings.from_json(text)


def test_a_spec_decides_every_setting() -> None:
    spec = Spec(
        sidecar=Sidecar(uids=(5, 6), gids=(7,), mark=0x99),
        inbound=Inbound(mode="redirect", port=PortRange(15006, 15007), original_source=False),
        outbound=Outbound(port=15011),
        passthrough=Passthrough(read_cidr("127.0.0.9"), read_cidr("::9")),
        marks=Marks(inbound=0x11, outbound=0x12, mask=0xFF),
    )
    assert settings_of(spec, (4,)) == Settings(
        inbound_mode="redirect",
        inbound_ports=PortRange(15006, 15007),
        outbound_port=15011,
        original_source=False,
        inbound_mark=0x11,
        outbound_mark=0x99,
        passthrough4="127.0.0.9",
        passthrough6="::9",
        uid=5,
        gid=7,
        families=(4,),
    )


def test_a_direction_that_captures_nothing_has_no_listener() -> None:
    settings = settings_of(
        Spec(sidecar=Sidecar((), (), 1), inbound=Inbound(ports=()), outbound=Outbound(mode="none")), (4, 6)
    )
    assert (settings.inbound_mode, settings.outbound_mode, settings.own_ports) == ("none", "none", frozenset())
    assert (settings.uid, settings.gid) == (None, None)
    assert not settings.transparent
