"""Pass rates of the starting model, and pools made of them.

python -m pytest tests/train/test_pilot.py -v
"""

import time
from pathlib import Path

import pytest
import yaml

from configs.errors import UserError
from configs.pool import Pool
from tasks.catalog import TASKS
from tests.eval.scripted_server import ScriptedServer
from tests.train.conftest import SMALL, Configure
from train.checkpoints import export
from train.models import load_model
from train.pilot import main
from train.pool import PassRate, chosen, dead_share, expected_dead, read_rates, write_rates
from train.prepare import prepare
from train.turn_bins import bin_of, draw


@pytest.mark.parametrize(
    ("rewards", "group", "share"),
    [
        ([1.0] * 1819 + [0.0] * 8181, 2, 0.702),  # of the k(k-1)/2 pairs
        ([1.0] * 1819 + [0.0] * 8181, 8, 0.201),
        ([1.0, 0.0, 0.0, 0.0], 8, 0.25**8 + 0.75**8),  # fewer than a group: shares to the power
        ([0.5] * 4, 4, 1.0),
        ([0.1, 0.2, 0.3, 0.3], 4, 0.0),
        ([0.3, 0.3 + 1e-9], 2, 1.0),
    ],
)
def test_the_expected_share_of_dead_groups(rewards: list[float], group: int, share: float) -> None:
    assert expected_dead(rewards, group) == pytest.approx(share, abs=5e-4)


def rate(name: str, *rewards: float) -> PassRate:
    passed = sum(one >= 1 for one in rewards) / len(rewards) if rewards else None
    return PassRate(name, "calbench", "belief", 2, 4, rewards, passed, {}, {})


RATES = [
    rate("never", 0, 0, 0, 0), rate("always", 1, 1, 1, 1), rate("half", 0, 1, 0, 1),
    rate("rarely", 0, 0, 0, 1), rate("unscored"),
]  # fmt: skip
IDS = ["never", "always", "half", "rarely", "unscored", "not asked"]


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({}, ["half", "rarely", "unscored", "not asked"]),
        ({"unknown": "drop"}, ["half", "rarely"]),
        ({"unknown": "drop", "at_least": 0.3}, ["half"]),
        ({"unknown": "drop", "dead": "keep", "at_most": 0.3}, ["never", "rarely"]),
    ],
)
def test_a_pool_keeps_what_can_teach(
    tmp_path: Path, settings: dict[str, object], left: list[str]
) -> None:
    write_rates(tmp_path / "rates.jsonl", RATES)
    pool = Pool.model_validate({"file": str(tmp_path / "rates.jsonl"), **settings})
    places, note = chosen(IDS, pool)
    assert [IDS[place] for place in places] == left
    assert note == f"pool: {len(left)} of 6 prompts (5 asked by the pilot)"


def test_pools_that_leave_nothing_or_know_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rates.jsonl"
    with pytest.raises(UserError, match="no such file of pass rates"):
        chosen(IDS, Pool(file=str(path)))
    write_rates(path, RATES)
    assert read_rates(path)["half"] == RATES[2]
    assert dead_share(RATES, 4) == pytest.approx(0.5)
    with pytest.raises(UserError, match="knows 0 of the 1 prompts"):
        chosen(["other"], Pool(file=str(path)))
    with pytest.raises(UserError, match="leaves 0 to draw from"):
        chosen(IDS[:2], Pool(file=str(path)))
    path.write_text("{}\n")
    with pytest.raises(UserError, match=r"rates.jsonl:1: not a pass rate"):
        chosen(IDS, Pool(file=str(path)))


def test_prompts_are_drawn_evenly_and_the_same_each_time(configure: Configure) -> None:
    section = configure().sections[0]
    examples = list(TASKS[section.task](section))
    asked = draw(examples, 8, seed=0)
    kinds = [(one.condition, bin_of(one.turns)) for one in asked]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(kinds, 2)
    assert len(set(kinds)) == 4
    assert draw(examples[::-1][::-1], 8, seed=0) == asked != draw(examples, 8, seed=1)
    assert len(draw(examples, 10**6, seed=0)) == len(examples)


@pytest.fixture(scope="module")
def piloted(tmp_path_factory: pytest.TempPathFactory, configure: Configure) -> Path:
    """A folder with a config, a starting model and the pass rates of 8 prompts."""
    folder = tmp_path_factory.mktemp("pilot")
    (folder / "small.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    config = configure()
    section = config.sections[0]
    tokenizer = prepare(config, list(TASKS[section.task](section))).tokenizer
    export(load_model(config.model, tokenizer, 0), tokenizer, folder / "base")
    words = [str(folder / "small.yaml"), "--checkpoint", str(folder / "base"), "--prompts", "8"]
    assert main([*words, "--completions", "4", "--out", str(folder / "pilot")]) == 0
    return folder


def test_a_pilot_writes_a_rate_for_each_prompt_and_repeats_without_asking(
    piloted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = piloted / "pilot" / "pass_rates.jsonl"
    before = path.read_bytes()
    rates = read_rates(path)
    assert len(rates) == 8
    assert {one.completions for one in rates.values()} == {4}
    assert {name for one in rates.values() for name in one.parts} >= {"entries", "optimality"}
    words = [str(piloted / "small.yaml"), "--checkpoint", str(piloted / "base"), "--prompts", "8"]
    assert main([*words, "--completions", "4", "--out", str(piloted / "pilot")]) == 0
    said = capsys.readouterr().out
    assert path.read_bytes() == before
    assert "pilot: 32 of 32 answered (this time: nothing asked" in said
    assert "calbench belief, 0 to 3 turns: 2 prompts, reward 0.000, pass 0.0%, dead 100.0%" in said


def test_a_server_that_is_not_there_is_said_before_any_prompt_is_made(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    words = [str(path), "data.generated.count=20000", "--out", str(tmp_path / "pilot")]
    started = time.monotonic()
    with pytest.raises(UserError, match=r"server http://127.0.0.1:9: does not answer; start it"):
        main([*words, "--server", "http://127.0.0.1:9", "--model", "m"])
    with pytest.raises(UserError, match="--server needs --model"):
        main([*words, "--server", "http://127.0.0.1:9"])
    with ScriptedServer() as server, pytest.raises(UserError, match="not 'other'; give --model"):
        main([*words, "--server", server.url, "--model", "other"])
    assert time.monotonic() - started < 10  # making them takes minutes
    assert not (tmp_path / "pilot").exists()


def test_a_run_draws_from_its_pool_and_says_so(piloted: Path, configure: Configure) -> None:
    path = piloted / "pilot" / "pass_rates.jsonl"
    config = configure(f"curriculum.pool={{file: {path}, dead: keep, unknown: drop}}")
    section = config.sections[0]
    prepared = prepare(config, list(TASKS[section.task](section)))
    used = {prepared.examples[index].id for index in prepared.grpo.indices}
    assert used <= read_rates(path).keys()
    assert prepared.grpo.notes[0].endswith("(8 asked by the pilot)")
    assert prepared.sft is not None and len(set(prepared.sft.indices)) > 8
