"""A whole run as one HTML page that needs nothing else: no script, no font and no picture from anywhere."""

from __future__ import annotations

from html import escape
from typing import Any

from meshnet.lab.picture import picture
from meshnet.lab.report import NO_WORD
from meshnet.lab.topology import place_of

MOST_PICTURES = 4
STYLE = """
:root { color-scheme: light dark; --back: #fbfaf7; --front: #1d2129; --soft: #6a6f7a; --line: #d8d5cc; --card: #fff;
  --good: #1f7a45; --bad: #c22d2d; --mark: #2b5fb3; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --front: #e4e6ea; --soft: #9aa1ad; --line: #343a44;
  --card: #1b1f26; --good: #6fce97; --bad: #ff8080; --mark: #8db8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--back); color: var(--front);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin: 0; } h3 { font-size: 1rem; }
a { color: var(--mark); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; margin: 1rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; }
.wide table { min-width: 36rem; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
ul.index { columns: 16rem; padding-left: 1.2rem; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; margin-bottom: .3rem; }
svg { width: 100%; max-width: 44rem; height: auto; display: block; }
svg text { fill: var(--front); font: 9px ui-monospace, monospace; }
svg .head { font: 600 11px system-ui, sans-serif; } svg .reason { fill: var(--bad); font-weight: 600; }
svg .more { fill: var(--soft); } svg .step { font: italic 600 9.5px system-ui, sans-serif; fill: var(--soft); }
svg .lane { stroke: var(--line); stroke-width: 1; }
svg .arrow { stroke: var(--mark); stroke-width: 1.4; fill: none; } svg .tip, svg circle.arrow { fill: var(--mark); }
svg .wrong { stroke: var(--bad); stroke-dasharray: 4 3; }
svg .wrong.tip, svg circle.wrong { fill: var(--bad); stroke-dasharray: none; }
svg .tip { stroke: none; }
pre { overflow-x: auto; font-size: .75rem; line-height: 1.35; background: var(--back); padding: .6rem;
  border-radius: .4rem; }
summary { cursor: pointer; color: var(--mark); }
"""


def page(data: dict[str, Any]) -> str:
    """The page of a report's data (``report.data``)."""
    scenarios = data["scenarios"]
    good = sum(1 for item in scenarios if item["ok"])
    index = "".join(
        f'<li><a href="#{escape(item["name"])}">{escape(item["name"])}</a>{"" if item["ok"] else _mark(False)}</li>'
        for item in scenarios
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>meshnet lab</title><style>{STYLE}</style></head><body>"
        "<h1>Whom does the application see?</h1>"
        f"<p>{good} of {len(scenarios)} scenarios came out as expected. Each was measured with real packets through a "
        "real sidecar, in network namespaces of its own.</p>"
        f'<ul class="index">{index}</ul>{"".join(_section(item) for item in scenarios)}</body></html>\n'
    )


def _mark(ok: bool) -> str:
    return '<span class="good"> ✓ as expected</span>' if ok else '<span class="bad"> ✗ not as expected</span>'


def _section(item: dict[str, Any]) -> str:
    told = (("symptom", item["symptom"]), ("cure", item["cure"]))
    words = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in told if text)
    rows = "".join(_rows(record) for record in item["rows"])
    head = "".join(f"<th>{word}</th>" for word in ("way", "step", "expected", "predicted", "measured", ""))
    return (
        f'<section id="{escape(item["name"])}"><h2>{escape(item["name"])}{_mark(item["ok"])}</h2>'
        f"<p>{escape(item['about'])}</p><dl>{words}</dl>"
        f"{''.join(_figure(record) for record in telling(item['rows']))}"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"{''.join(_evidence(record) for record in telling(item['rows']))}</section>"
    )


def telling(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows whose pictures say something new: one of each outcome, those that differ from what is expected first."""
    chosen: dict[str, dict[str, Any]] = {}
    for record in sorted(records, key=lambda item: bool(item["ok"])):
        way = record["name"].rpartition(" ipv")[0].rpartition(" ")[0]  # the variant, where there are backends
        chosen.setdefault(f"{way} {_words(record)}", record)
    return list(chosen.values())[:MOST_PICTURES]


def _words(record: dict[str, Any]) -> str:
    """The outcome with places for addresses: a picture of IPv4 tells that of IPv6 as well."""
    parts = (word.partition(", ") for word in record["measured"].values())
    return "|".join(f"{place_of(seen)} {way}" for seen, _, way in parts)


def _rows(record: dict[str, Any]) -> str:
    made = []
    for label, expected in record["expected"].items():
        measured = record["measured"].get(label, record["trouble"] or "not measured")
        good = measured == expected
        cells = (record["name"], label, expected, record["predicted"].get(label, NO_WORD), measured)
        marked = f'<td class="{"good" if good else "bad"}">{"✓" if good else "✗"}</td>'
        made.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}{marked}</tr>")
    return "".join(made)


def _figure(record: dict[str, Any]) -> str:
    if not record["arrows"]:
        return ""
    title = ", ".join(f"{label}: {word}" for label, word in record["measured"].items())
    name = record["name"]
    shown = picture(record["arrows"], record["left_out"], f"{name}: {title}")
    return f"<figure><figcaption><b>{escape(name)}</b> {escape(title)}</figcaption>{shown}</figure>"


def _evidence(record: dict[str, Any]) -> str:
    from meshnet.lab.report import evidence

    lines = evidence({**record, "arrows": []})
    if not lines:
        return ""
    title = f"what the kernel and the sidecar say: {record['name']}"
    return f"<details><summary>{escape(title)}</summary><pre>{escape(chr(10).join(lines))}</pre></details>"
