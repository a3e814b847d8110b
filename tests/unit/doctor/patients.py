"""Patients made of rules as text: a pod with one link, and a sidecar of the usual ids."""

from __future__ import annotations

from typing import Any

from meshnet.doctor.patient import Patient
from meshnet.model.story import Conduct
from meshnet.parse.ruleset import read
from tests.unit.simulate.pods import host, number

SPOOFS = Conduct(spoofs=True, mark=0x539)
PLAIN = Conduct(bind=number("127.0.0.6"))


def patient(text: str, sidecar: Conduct = PLAIN, **more: Any) -> Patient:
    return Patient(read(text, 4), (("", host(**more)),), (sidecar,))


CAPTURE = """\
*nat
:OUT - [0:0]
-A PREROUTING -p tcp -j REDIRECT --to-ports 15006
-A OUTPUT -p tcp -j OUT
-A OUT -s 127.0.0.6/32 -o lo -j RETURN
-A OUT -m owner --uid-owner 1337 -j RETURN
-A OUT -o lo -j RETURN
-A OUT -p tcp -m tcp -j REDIRECT --to-ports 15001
COMMIT
"""
"""As simple as it gets, and sound."""

KEPT = """\
*mangle
-A PREROUTING -p tcp -m mark --mark 0x539 -j CONNMARK --save-mark
-A PREROUTING -p tcp -m mark --mark 0x539 -j RETURN
-A PREROUTING -i lo -j RETURN
-A PREROUTING -p tcp -m socket --transparent -j MARK --set-mark 0x539
-A PREROUTING -p tcp -m socket --transparent -j ACCEPT
-A PREROUTING -p tcp -m socket -j ACCEPT
-A PREROUTING -p tcp -j TPROXY --on-port 15006 --tproxy-mark 0x539
-A OUTPUT -p tcp -m connmark --mark 0x539 -j CONNMARK --restore-mark
COMMIT
"""
"""The client's address kept under TPROXY."""
