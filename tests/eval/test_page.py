"""The report page in a real browser: it loads, filters, is quiet, runs nothing of a model."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main
from eval.plan import Plan
from eval.records import Response
from eval.scoring import score_policies, score_system
from tasks.calbench.examples import examples
from tasks.calbench.policies import initial_copy, right_answer, world_copy
from tasks.calbench.reference import parse
from tasks.example import Example
from tests.eval.chromium import Page, needs_chromium, page
from tests.eval.stories import data, make_plan, some
from tests.eval.test_scoring import store

PATIENCE_S = 300  # a busy machine starts a browser slowly
EVIL = '<script>window.owned=1</script><img src=x onerror="window.owned=1"></script>|\u2028{}'


def answered(asked: list[Example], system: str) -> list[Response]:
    """Base copies the start, and is cut off on every ninth request; trained is right."""
    texts = {"base": initial_copy, "trained": right_answer, "third": world_copy}
    found = []
    for number, one in enumerate(asked):
        for run in (1, 2):
            text = texts[system](parse(one.target))
            state = "truncated" if system == "base" and number % 9 == 0 else "ok"
            if system == "base" and number % 10 == 1:
                text += EVIL
            found.append(Response(one.id, run, state, text, completion_tokens=5))  # type: ignore[arg-type]
    return found


def reported(folder: Path, asked: list[Example], systems: tuple[str, ...]) -> Plan:
    plan = make_plan(folder, asked, runs=2)
    for name in systems:
        store(plan, answered(asked, name), name)
        score_system(plan, name)
    score_policies(plan)
    trained = ["--trained", *systems[1:]]
    assert main(["compare", str(plan.folder), "--base", systems[0], *trained]) == 0
    assert main(["report", str(plan.folder)]) == 0
    return plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("page")
    return reported(folder, some(400, tasks=10), ("base", "trained", "third"))


def across(one: Example) -> tuple[str, str, str]:
    return one.story, one.variant, one.holder


def in_browser(path: Path, act: Callable[[Page], Awaitable[Any]], width: int = 1300) -> Any:
    """Open the page, act on it, and see that it neither complained nor fetched anything."""

    async def go() -> Any:
        async with page(width) as opened:
            await opened.open(path)
            found = await act(opened)
            assert opened.errors == []
            assert opened.requests == [path.resolve().as_uri()]
            return found

    return asyncio.run(asyncio.wait_for(go(), PATIENCE_S))


CHOOSE = (
    (
        "(n, v) => {{ const s = document.getElementById(n); s.value = v;"
        " s.dispatchEvent(new Event(s.tagName === 'INPUT' ? 'input' : 'change')); }}"
    )
    .replace("{{", "{")
    .replace("}}", "}")
)
COUNT = "document.querySelectorAll('#case-list .case').length"
FIRST = "document.querySelector('#case-view h3').textContent"


@needs_chromium
def test_what_training_won_comes_first_and_filters_work(plan: Plan) -> None:
    async def act(opened: Page) -> None:
        assert await opened.run(FIRST) == "only trained right"
        won = await opened.run("document.getElementById('case-count').textContent")
        await opened.run(f"({CHOOSE})('by-outcome', '')")
        assert "320 match" in await opened.run("document.getElementById('case-count').textContent")
        assert won.startswith(str(await outcomes(opened, "only trained right")))
        await opened.run(f"({CHOOSE})('by-outcome', '5')")
        assert await opened.run(FIRST) == "base incomplete"
        assert "36 match" in await opened.run("document.getElementById('case-count').textContent")
        assert await opened.run(COUNT) == 36
        await opened.run(f"({CHOOSE})('by-condition', 'direct')")
        assert 0 < await opened.run(COUNT) < 36
        await opened.run(f"({CHOOSE})('by-text', 'no such words')")
        assert await opened.run(COUNT) == 0
        assert "No case" in await opened.run("document.getElementById('case-view').textContent")

    in_browser(plan.folder / "report.html", act)


async def outcomes(opened: Page, name: str) -> int:
    data = json.loads(await opened.run("document.getElementById('case-data').textContent"))
    return int(data["counts"][data["keys"].index(name)])


@needs_chromium
def test_a_number_of_the_matrix_opens_its_cases(plan: Plan) -> None:
    async def act(opened: Page) -> None:
        await opened.run("document.querySelector('.gain button[data-condition=belief]').click()")
        assert await opened.run(FIRST) == "only trained right"
        shown = await opened.run("document.getElementById('case-count').textContent")
        number = await opened.run(
            "document.querySelector('.gain button[data-condition=belief] b').textContent"
        )
        assert shown.split()[0] == number
        answers = await opened.run("document.querySelectorAll('#case-view .card').length")
        assert answers == 3
        wrong = await opened.run("document.querySelectorAll('#case-view .entries b').length")
        assert wrong > 0
        assert await opened.run("document.querySelectorAll('tr.differs').length") > 0

    in_browser(plan.folder / "report.html", act)


@needs_chromium
def test_what_a_model_wrote_never_runs(plan: Plan) -> None:
    async def act(opened: Page) -> None:
        await opened.run(f"({CHOOSE})('by-outcome', '')")
        await opened.run(f"({CHOOSE})('by-text', 'window.owned')")
        assert await opened.run(COUNT) > 0
        shown = await opened.run("document.querySelector('#case-view .card pre').textContent")
        assert shown.endswith(EVIL)
        assert await opened.run("window.owned") is None
        assert await opened.run("document.querySelectorAll('img').length") == 0
        assert await opened.run("document.scripts.length") == 2

    in_browser(plan.folder / "report.html", act)


@needs_chromium
def test_a_script_that_got_into_the_page_is_stopped_by_its_policy(
    plan: Plan, tmp_path: Path
) -> None:
    text = (plan.folder / "report.html").read_text()
    (tmp_path / "bad.html").write_text(text.replace("</main>", f"{EVIL}</main>", 1))

    async def go() -> tuple[Any, list[str]]:
        async with page() as opened:
            await opened.open(tmp_path / "bad.html")
            return await opened.run("window.owned"), opened.errors

    owned, errors = asyncio.run(asyncio.wait_for(go(), PATIENCE_S))
    assert owned is None
    assert any("Content Security Policy" in text for text in errors)


@needs_chromium
@pytest.mark.parametrize("width", [1300, 1100, 800])
def test_wide_tables_scroll_in_their_own_box(plan: Plan, width: int) -> None:
    async def act(opened: Page) -> tuple[int, int]:
        sizes = "document.documentElement"
        wide = await opened.run(f"{sizes}.scrollWidth")
        return int(wide), int(await opened.run(f"{sizes}.clientWidth"))

    wide, seen = in_browser(plan.folder / "report.html", act, width)
    assert wide == seen


def test_the_page_is_whole_without_a_network(plan: Plan) -> None:
    text = (plan.folder / "report.html").read_text()
    assert not re.search(r"<(link|img|iframe)\b|@import|url\((?!#)", text)
    assert text.count("<script") == 2
    addresses = set(re.findall(r"https?://[^\"' <]+", text))
    assert all(one.startswith("http://www.w3.org/") for one in addresses)


@needs_chromium
def test_two_settings_of_one_system_stand_side_by_side(tmp_path: Path) -> None:
    """Symbolic is always right, direct in every second source task."""
    settings = data(9).model_copy(update={"conditions": ("direct", "symbolic")})
    asked = list(examples(settings))
    plan = make_plan(tmp_path, asked)
    rows = []
    for one in asked:
        right = one.condition == "symbolic" or int(one.source[-1]) % 2
        text = right_answer(parse(one.target))
        rows.append(Response(one.id, 1, "ok", text if right else re.sub(r":\d+", ":1", text)))
    store(plan, rows, "trained")
    score_system(plan, "trained")
    score_policies(plan)
    arms = ["--base", "trained/direct", "--trained", "trained/symbolic"]
    assert main(["compare", str(plan.folder), *arms]) == 0
    assert main(["report", str(plan.folder)]) == 0

    async def act(opened: Page) -> None:
        assert await opened.run(FIRST) == "only trained/symbolic right"
        heads = "[...document.querySelectorAll('#case-view .card:not(.asked) header')]"
        named = await opened.run(f"{heads}.map((one) => one.firstChild.textContent)")
        assert named == ["trained/direct", "trained/symbolic"]
        said = await opened.run(f"{heads}.map((one) => one.lastChild.textContent)")
        assert "optimal, cost" in said[1] and "optimal, cost" not in said[0]
        columns = "[...document.querySelectorAll('#case-view .card.asked')]"
        texts = await opened.run(f"{columns}.map((one) => one.textContent)")
        assert len(texts) == 2 and texts[0] != texts[1]
        place = await opened.run("document.querySelector('#case-view .code').textContent")
        direct = next(one for one in asked if place.startswith(one.id))
        twins = [one for one in asked if across(one) == across(direct)]
        assert [one.condition for one in twins] == ["direct", "symbolic"]
        for one, text in zip(twins, texts, strict=True):
            assert all(message["content"] in text for message in one.messages)
        await opened.run(f"({CHOOSE})('by-outcome', '')")
        said = await opened.run("document.getElementById('case-count').textContent")
        assert said.startswith(f"{len(asked) // 2} match")
        await opened.run(f"({CHOOSE})('by-outcome', '3')")
        assert await opened.run(FIRST) == "both right"
        assert await opened.run(COUNT) == await outcomes(opened, "both right")
        await opened.run(f"({CHOOSE})('by-variant', 'PUBLIC')")
        assert await opened.run(COUNT) > 0

    in_browser(plan.folder / "report.html", act)


@needs_chromium
@pytest.mark.slow
def test_twenty_thousand_rows_fit(tmp_path: Path) -> None:
    asked = some(10_000, tasks=320)
    plan = reported(tmp_path, asked, ("base", "trained"))
    rows = sum(
        1 for name in ("base", "trained") for _ in (plan.folder / f"scores/{name}.jsonl").open()
    )
    assert rows >= 20_000
    report = plan.folder / "report.html"
    assert report.stat().st_size <= 20_000_000

    async def act(opened: Page) -> str:
        return str(await opened.run("document.getElementById('case-count').textContent"))

    said = in_browser(report, act)
    assert "of 1,500 cases held here, of 10,240 in the evaluation" in said
