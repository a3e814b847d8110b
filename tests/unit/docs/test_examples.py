"""What the documents show works: examples compile, commands run, links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from meshnet.cli import init
from meshnet.cli.main import meshnet
from meshnet.cni import conflist
from meshnet.cni.config import read_config
from meshnet.compile.pipeline import compile_spec
from meshnet.model.facts import Facts
from meshnet.model.program import Program
from meshnet.render.plan import render
from meshnet.spec.load import load_body, load_text

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted(path for path in (ROOT / "docs" / "examples").iterdir() if path.suffix in (".yaml", ".json"))
RESOLVERS = Facts(
    resolvers=load_text(
        "{apiVersion: meshnet/v1, kind: Interception, dns: {resolvers: [10.96.0.10]}}", ""
    ).spec.dns.resolvers
)

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PURE = ("meshnet compile ", "meshnet schema", "meshnet explain ", "meshnet compare ", "meshnet doctor ")
PURE += ("meshnet cni manifests", "meshnet init-container")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands() -> list[tuple[str, str]]:
    """Every line of a shell block that needs neither root nor a namespace, with the page that it is on."""
    return [
        (name_of(page), line)
        for page in PAGES
        for language, text in FENCE.findall(page.read_text(encoding="utf-8"))
        if language == "sh"
        for line in text.splitlines()
        if line.startswith(PURE)
    ]


def headings(page: Path) -> set[str]:
    """The anchors that a page has: its headings in lower case, blanks as hyphens, signs left out."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def compiled(example: Path) -> Program:
    return compile_spec(load_text(example.read_text(encoding="utf-8"), name_of(example)).spec, RESOLVERS)


def test_there_are_commands_to_try() -> None:
    pages = {page for page, _ in commands()}
    assert "README.md" in pages


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_on_a_page_runs(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(line, comments=True)[1:]
    done = CliRunner().invoke(meshnet, words, catch_exceptions=False, standalone_mode=False)
    assert (done.return_value or 0) == int(line.endswith("# exit 1")), f"{page}: {line}\n{done.output}"
    assert done.output
    if "json" in words or words[0] == "schema":
        json.loads(done.stdout)


def init_commands() -> list[tuple[str, str]]:
    """The lines of shell blocks with ``meshnet-init`` that only print."""
    return [
        (name_of(page), line)
        for page in PAGES
        for language, text in FENCE.findall(page.read_text(encoding="utf-8"))
        if language == "sh"
        for line in text.splitlines()
        if line.startswith("meshnet-init ") and ("--print-spec" in line or "--help" in line)
    ]


@pytest.mark.parametrize(("page", "line"), init_commands())
def test_a_command_of_meshnet_init_runs(page: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert init.call(shlex.split(line, comments=True)[1:], {}) == 0, f"{page}: {line}"
    said = capsys.readouterr().out
    assert "meshnet-init" in said or load_text(said, page).spec.profile in ("istio", "meshnet")


def test_a_network_on_the_page_is_one_that_the_plugin_takes() -> None:
    text = (ROOT / "docs" / "cni" / "10-mesh.conflist").read_text(encoding="utf-8")
    entry = conflist.entry_of(text)
    assert entry is not None
    config = read_config("ADD", {"cniVersion": "1.0.0", "name": "mesh", **entry})
    assert load_body(config.interception, "").spec.inbound.mode == "redirect"


def test_there_are_commands_of_meshnet_init() -> None:
    assert {page for page, _ in init_commands()} >= {"README.md", "docs/meshnet-init.md"}


def test_there_are_examples() -> None:
    assert {path.suffix for path in EXAMPLES} == {".yaml", ".json"}


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_compiles_to_rules(example: Path) -> None:
    program = compiled(example)
    assert program.rules()
    assert render(program).tables


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_every_example_is_named_for_what_it_holds(example: Path) -> None:
    name = load_text(example.read_text(encoding="utf-8"), name_of(example)).spec.name
    assert name in (example.stem, "default")


def test_the_readme_names_its_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [text.split("\n") for language, text in FENCE.findall(readme) if language == "sh"]
    assert any("make demo" in block and "make test" in block for block in blocks)


def test_the_readme_shows_each_of_the_five_things() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = "\n".join(text for language, text in FENCE.findall(readme) if language == "sh")
    for verb in ("compile", "apply", "diff", "verify", "remove"):
        assert re.search(rf"^meshnet {verb} ", shown, re.MULTILINE), verb


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        there = page if not path else (page.parent / path)
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in headings(there)):
            broken.append(target)
    assert not broken
