from __future__ import annotations

import struct

import pytest

from meshnet.lab.calls import query, read_text_record
from meshnet.lab.resolver import answer


@pytest.mark.parametrize("name", ["dns-proxy", "resolver", "x" * 200])
def test_an_answer_names_its_server_under_the_question_s_number(name):
    whole = answer(query(), name)
    assert whole[:2] == query()[:2]
    assert read_text_record(whole) == name


def test_it_is_an_answer_to_one_question_with_one_record():
    flags, questions, answers = struct.unpack_from("!3H", answer(query(), "x"), 2)
    assert flags & 0x8000
    assert (questions, answers) == (1, 1)
