from __future__ import annotations

from html.parser import HTMLParser

from meshnet.lab.page import MOST_PICTURES, page, telling
from meshnet.lab.report import data
from tests.unit.lab.runs import ran, record


class Tags(HTMLParser):
    VOID = ("meta", "link")

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.ids, self.loads = [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.loads += [
            word for key, word in given.items() if key in ("src", "href") and not word.startswith(("#", "data:"))
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


def read(*items):
    tags = Tags()
    tags.feed(page(data(items)))
    assert tags.open == []
    return tags


def test_a_page_is_whole_and_loads_nothing():
    tags = read(ran("one", record("nft ipv4")), ran("two", record("nft ipv6", "127.0.0.6")))
    assert (tags.ids, tags.loads) == (["one", "two"], [])
    assert any(text.startswith("1 of 2 scenarios") for text in tags.texts)
    assert " ✗ not as expected" in tags.texts


def test_no_scenario_is_a_page_too():
    assert any(text.startswith("0 of 0") for text in read().texts)


def test_what_was_measured_can_t_end_the_page():
    evil = "</table><script>alert(1)</script>"
    tags = read(ran("one", record(evil, evil, trouble=evil, logs={evil: evil})))
    assert evil in tags.texts


def test_pictures_are_one_of_each_outcome_those_that_differ_first():
    good, again = record("way nft ipv4"), record("way nft ipv6")
    bad = record("way nft ipv4", "127.0.0.6")
    assert telling([good, again, bad]) == [bad, good]
    many = [record(f"way{n} nft ipv4") for n in range(9)]
    assert len(telling(many)) == MOST_PICTURES
