"""Whatever a dialect is given, it answers with a good spec or with a SpecError: no other way out, and no wrong spec."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.model.errors import SpecError
from meshnet.model.spec import Spec
from meshnet.spec.check import problems
from meshnet.spec.dialects import kuma, linkerd
from meshnet.spec.dialects.istio_annotations import (
    ANNOTATIONS,
    GUESTS,
    INJECT,
    MODE,
    STATUS_PORTS,
    VARIABLES,
    spec_of_pod,
)
from meshnet.spec.dialects.linkerd import FLAGS
from meshnet.spec.dump import to_yaml
from meshnet.spec.load import load_text

WORDS = (
    "", "*", "80", "0", "-1", "65536", "80,443", "1-2", "2-1", "22:30", "tcp:53,3000-5000:106-108", "10.0.0.0/8",
    "::/0", "::1", "fd00::1/64", "true", "false", "NONE", "TPROXY", "ipv4", "docker0:172.17.0.0/16", "br+:fd00::/8",
    "lo", "eth0", ",", " ", "\x00", "\u0663", "9" * 30,
)  # fmt: skip
words = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 70000), words, st.binary(max_size=2))
plain = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3))
)
SOME = settings(max_examples=300, deadline=None)


def good(spec: Spec) -> None:
    assert problems(spec) == []
    assert load_text(to_yaml(spec), "printed").spec == spec


@given(st.lists(st.one_of(words, st.sampled_from([f"--{flag.name}" for flag in FLAGS] + ["-p", "-o1", "-u=5"]))))
@SOME
def test_linkerd(arguments: list[str]) -> None:
    for given_words in (arguments, ["-p", "4143", "-o", "4140", "-u", "2102", *arguments]):
        try:
            good(linkerd.spec_of(given_words).spec)
        except SpecError as error:
            assert error.problems and all(line.isprintable() for line in error.lines())


def configuration(entries: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for path, item in entries.items():
        *sections, key = path.split(".")
        inside = made
        for section in sections:
            inside = inside.setdefault(section, {})
        inside[key] = item
    return made


@given(st.one_of(plain, st.dictionaries(st.sampled_from(kuma.KNOWN), plain, max_size=6).map(configuration)))
@SOME
def test_kuma(document: object) -> None:
    try:
        good(kuma.spec_of(document).spec)
    except SpecError as error:
        assert error.problems and all(line.isprintable() for line in error.lines())


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pods whose form is good but for some places."""
    keys = st.sampled_from((*ANNOTATIONS, *GUESTS, *STATUS_PORTS, INJECT, MODE, "traffic.sidecar.istio.io/x"))
    text = st.dictionaries(keys, st.one_of(words, plain), max_size=4)
    env = st.lists(
        st.fixed_dictionaries({"name": st.sampled_from((*VARIABLES, "DISABLE_ENVOY")), "value": plain}), max_size=3
    )
    security = st.one_of(plain, st.fixed_dictionaries({"runAsUser": st.one_of(scalars, st.integers())}))
    proxy = {"name": "istio-proxy", "env": draw(st.one_of(plain, env)), "securityContext": draw(security)}
    proxy["args"] = draw(plain)
    annotations = {"sidecar.istio.io/status": "x", **draw(text)}
    spec = {"containers": [proxy, *draw(st.lists(plain, max_size=1))], "securityContext": draw(security)}
    return {"kind": "Pod", "metadata": {"name": draw(plain), "annotations": annotations}, "spec": spec}


@given(st.one_of(plain, pods()), st.sampled_from(("istio", "meshnet")))
@SOME
def test_pods(pod: object, profile: Any) -> None:
    try:
        found = spec_of_pod(pod, profile=profile)
    except SpecError as error:
        assert error.problems and all(line.isprintable() for line in error.lines())
    else:
        if isinstance(found, Spec):
            good(found)
        else:
            assert found.reason.isprintable()
