from __future__ import annotations

import pytest

from meshnet.compile.resolve import resolve
from meshnet.model.cidr import read_cidr
from meshnet.model.errors import SpecError
from meshnet.model.facts import Facts
from tests.unit.spec.writing import spec_of

SERVER = read_cidr("10.96.0.10")
ASKS = "dns: {capture: resolvers}\n"


def test_auto_is_what_the_namespace_speaks_and_a_list_is_what_it_says():
    assert resolve(spec_of(""), Facts(families=(4,)))[1] == (4,)
    assert resolve(spec_of("families: [ipv6]\n"), Facts(families=(4,)))[1] == (6,)


def test_resolvers_of_the_namespace_fill_an_empty_list():
    assert resolve(spec_of(ASKS), Facts(resolvers=(SERVER,)))[0].dns.resolvers == (SERVER,)


def test_listed_resolvers_win():
    spec = spec_of("dns: {capture: resolvers, resolvers: [10.0.0.2]}\n")
    assert resolve(spec, Facts(resolvers=(SERVER,)))[0] is spec


def test_no_resolver_anywhere_is_refused_with_the_place():
    with pytest.raises(SpecError) as caught:
        resolve(spec_of(ASKS), Facts(resolvers_from="/etc/other"))
    (line,) = caught.value.lines()
    assert line.startswith("dns.resolvers: ")
    assert "/etc/other" in line


def test_without_capture_of_resolvers_nobody_is_asked():
    assert resolve(spec_of("dns: {capture: all}\n"), Facts())[0].dns.resolvers == ()
