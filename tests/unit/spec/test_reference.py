from __future__ import annotations

from pathlib import Path

from meshnet.spec import fields
from meshnet.spec.load import load_text
from meshnet.spec.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "spec.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run scripts/gen_spec_docs.py"


def test_every_field_is_on_the_page() -> None:
    text = reference()
    for field in fields.FIELDS:
        for item in (field, *(field.shape.fields if isinstance(field.shape, fields.Section) else ())):
            assert item.says in text
            if isinstance(item.shape, fields.Each):
                assert all(inner.says in text for inner in item.shape.entry.fields)


def test_the_document_on_the_page_is_a_spec() -> None:
    load_text(reference().partition("```yaml\n")[2].partition("```")[0], "spec.md")
