from __future__ import annotations

from meshnet.model.spec import Spec
from meshnet.spec import fields


def test_the_table_has_every_field_of_the_values_in_their_order() -> None:
    assert tuple(field.attribute for field in fields.FIELDS) == Spec.__match_args__  # type: ignore[attr-defined]
    for field in fields.FIELDS:
        if isinstance(field.shape, fields.Section):
            made = field.shape.made
            assert tuple(inner.attribute for inner in field.shape.fields) == made.__match_args__  # type: ignore[attr-defined]
            assert getattr(Spec(), field.attribute) == made()
            for inner in field.shape.fields:
                if isinstance(inner.shape, fields.Each):
                    entry = inner.shape.entry
                    assert tuple(item.attribute for item in entry.fields) == entry.made.__match_args__  # type: ignore[attr-defined]
                    assert isinstance(inner.shape.example, entry.made)
