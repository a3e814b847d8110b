from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.model.errors import SpecError
from meshnet.model.spec import Spec
from meshnet.spec import fields
from meshnet.spec.dump import document_of
from meshnet.spec.load import load_text
from meshnet.spec.schema import KINDS, schema
from tests.strategies import specs
from tests.unit.spec.writing import HEAD

EXAMPLES = sorted((Path(__file__).parents[3] / "docs" / "examples").iterdir())
VALIDATOR = jsonschema.Draft202012Validator(schema())
BARE = {"apiVersion": "meshnet/v1", "kind": "Interception"}


def _document(path: str, item: object) -> dict[str, Any]:
    section, _, key = path.rpartition(".")
    return {**BARE, **({section: {key: item}} if section else {key: item})}


def _decodes(document: object) -> bool:
    try:
        load_text(json.dumps(document), "s.json")
    except SpecError:
        return False
    return True


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    json.dumps(schema())


def test_every_field_is_described_and_has_the_default_of_the_model() -> None:
    defaults = document_of(Spec())
    for key, part in schema()["properties"].items():
        assert part["description"].endswith(".")
        if key in BARE:
            continue
        for inner, described in part.get("properties", {}).items():
            assert described["description"].endswith(".")
            assert described["default"] == defaults[key][inner]
        assert part["default"] == ({} if "properties" in part else defaults[key])


def test_every_kind_of_word_has_a_form() -> None:
    kinds = {item.key for item in vars(fields).values() if isinstance(item, fields.Kind)}
    assert kinds == set(KINDS)


def test_every_kinds_example_is_one() -> None:
    for kind in vars(fields).values():
        if isinstance(kind, fields.Kind):
            kind.read(kind.example)


def test_enumerations_are_what_decoding_takes() -> None:
    paths = {"inboundMode": "inbound.mode", "outboundMode": "outbound.mode", "dnsCapture": "dns.capture"}
    for key, path in paths.items():
        assert all(_decodes(_document(path, word)) for word in KINDS[key]["enum"])
    assert _decodes(_document("families", KINDS["family"]["enum"]))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    load_text(text, example.name)
    VALIDATOR.validate(yaml.safe_load(text.replace("\t", "  ")))


@given(specs())
@settings(max_examples=100, deadline=None)
def test_every_spec_is_valid(spec: Spec) -> None:
    VALIDATOR.validate(document_of(spec))


WRONG = [
    ("nftables.table", "1a"), ("nftables.table", "A"), ("nftables.table", "a b"), ("enrol", "all"),
    ("name", "Nginx"), ("name", "-a"), ("name", "a" * 64), ("name", ""),
    ("families", []), ("families", "both"), ("families", ["ipv5"]), ("families", ["ipv4", "ipv4"]),
    ("sidecar.uids", [-1]), ("sidecar.uids", [4294967295]), ("sidecar.uids", ["1337"]), ("sidecar.uids", [True]),
    ("sidecar.mark", 0), ("sidecar.mark", "0x0"), ("sidecar.mark", "010"), ("sidecar.mark", "0x100000000"),
    ("inbound.mode", "tproxi"), ("inbound.port", 0), ("inbound.port", 65536), ("inbound.port", "080"),
    ("inbound.ports", "80"), ("inbound.ports", [""]), ("inbound.ports", [None]), ("inbound.ports", ["http"]),
    ("inbound.ports", ["1000:"]), ("inbound.ports", [80, 80]), ("inbound.ports", None), ("inbound.prots", []),
    ("inbound.excludeSources", ["010.0.0.1"]), ("inbound.excludeSources", ["10.0.0"]),
    ("inbound.excludeSources", ["10.0.0.0/33"]), ("inbound.excludeSources", ["2001:db8::/129"]),
    ("inbound.originalSource", "true"), ("inbound.originalSource", None),
    ("outbound.ports", "*"), ("outbound.loopbackCidr", "10.0.0.0/8"), ("outbound.port", "1-2"),
    ("dns.resolvers", ["10.0.0.0/24"]), ("dns.capture", False), ("dns.capture", "on"),
    ("interfaces.exclude", ["lo"]), ("interfaces.exclude", ["lo+"]), ("interfaces.exclude", ["l+"]),
    ("interfaces.exclude", ["+"]), ("interfaces.exclude", [""]), ("interfaces.exclude", ["a/b"]),
    ("interfaces.exclude", ["a b"]), ("interfaces.exclude", ["a" * 16]), ("interfaces.exclude", ["all"]),
    ("interfaces.exclude", [".."]), ("interfaces.exclude", ["-a"]), ("interfaces.exclude", ["eth*"]),
    ("interfaces.exclude", ["\u00e4"]), ("interfaces.exclude", ["a'b"]),
    ("inbound.ownPod", "false"), ("outbound.excludeUsers", None), ("outbound.excludeUsers", {}),
    ("outbound.excludeUsers", [5]), ("outbound.excludeUsers", [{}]), ("outbound.excludeUsers", [{"uids": []}]),
    ("outbound.excludeUsers", [{"uids": ["a"]}]), ("outbound.excludeUsers", [{"uids": ["1-2-3"]}]),
    ("outbound.excludeUsers", [{"uids": [1], "ports": []}]), ("outbound.excludeUsers", [{"uids": [1], "extra": 1}]),
    ("outbound.excludeUsers", [{"uids": [1], "transport": "icmp"}]), ("interfaces.networks", [{"interface": "br0"}]),
    ("interfaces.networks", [{"interface": "br0", "cidrs": []}]), ("interfaces.networks", [{"cidrs": ["10.0.0.0/8"]}]),
    ("passthrough.ipv4", "127.0.0.1"), ("passthrough.ipv4", "10.0.0.1"), ("passthrough.ipv6", "127.0.0.6"),
    ("marks.mask", 0), ("marks.mask", 0x100000000), ("routing.table", 254), ("routing.table", 0),
    ("dropInvalid", "yes"), ("apiVersion", "meshnet/v2"), ("kind", "Pod"), ("inbound", []), ("extra", 1),
]  # fmt: skip


@pytest.mark.parametrize(("path", "item"), WRONG)
def test_schema_and_decoding_refuse_the_same(path: str, item: object) -> None:
    document = _document(path, item)
    assert not VALIDATOR.is_valid(document)
    assert not _decodes(document)


PATHS = [
    f"{field.key}.{inner.key}" if isinstance(field.shape, fields.Section) else field.key
    for field in fields.FIELDS
    for inner in (field.shape.fields if isinstance(field.shape, fields.Section) else (field,))
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70000),
    st.integers(),
    st.text("0123456789abcdefx:./-+*", max_size=12),
    st.sampled_from(("*", "auto", "off", "all", "none", "redirect", "ipv4", "127.0.0.9", "::9", "::/0", "1.2.3.4/32")),
)


@given(st.sampled_from(PATHS), st.one_of(SCALARS, st.lists(SCALARS, max_size=3)))
@settings(max_examples=500, deadline=None)
def test_what_decodes_is_valid(path: str, item: object) -> None:
    document = _document(path, item)
    words = item if isinstance(item, list) else [item]
    if path.startswith(("name", "interfaces", "nftables")) and not all(isinstance(word, str) for word in words):
        return  # where text is asked for, a bare 123 or false is the text of these letters
    if _decodes(document):
        VALIDATOR.validate(document)


def test_a_name_of_digits_needs_no_quotes_in_yaml() -> None:
    assert load_text(HEAD + "name: 123\n", "s.yaml").spec.name == "123"
