"""Stories: who knows what, the paper's counts, and that filler changes no reference."""

import json

import pytest

from configs.data import CalbenchData, GeneratedTasks, PublicTasks
from configs.errors import UserError
from tasks.calbench.calendars import Errand
from tasks.calbench.examples import examples, reference, scenarios
from tasks.calbench.policies import POLICIES, right_answer
from tasks.calbench.reference import parse
from tasks.calbench.solver import plan_table
from tasks.calbench.stories import BOTH, Scenario, Update, lock, scenario, tell
from tests.shared_data import shared_file
from tests.tasks.calbench.small_tasks import task

FOUR = task("1 . . 1 | . 1 . 1 | . . 1 . | 1 . . .", "ABCD")
TOLD = Scenario(FOUR, "lock", (Update(0, 0), Update(1, 3)), intermediary=2)


def public_data(**changes: object) -> CalbenchData:
    files = tuple(
        str(shared_file("calbench", f"{kind}_full.jsonl")) for kind in ("uniform", "varied")
    )
    fields = {"split": "test", "public": PublicTasks(files=files)} | changes
    return CalbenchData.model_validate(fields)


def test_who_knows_what() -> None:
    assert [TOLD.known("PRIVATE", holder) for holder in range(4)] == [{0}, {1}, {0, 1}, set()]
    assert [TOLD.known("PUBLIC", holder) for holder in range(4)] == [BOTH] * 4
    assert TOLD.uninformed == (3,)


def test_a_belief_is_the_start_calendars_plus_the_known_locks() -> None:
    assert TOLD.calendars(frozenset()) == FOUR.calendars
    owner_0 = TOLD.calendars(frozenset({0}))
    assert owner_0[0][0] == Errand(1, 1, blocked=True)
    assert owner_0[1:] == FOUR.calendars[1:]


def test_equal_beliefs_share_one_solve() -> None:
    assert len(TOLD.tables) == 4
    first = reference(tell(TOLD, "PUBLIC", 3, 0), 0, "direct")
    last = reference(tell(TOLD, "PUBLIC", 3, 0), 3, "direct")
    assert first.subjective is last.subjective


def test_perspective_entries_are_those_on_which_holders_differ() -> None:
    private = reference(tell(TOLD, "PRIVATE", 2, 0), 3, "belief")
    public = reference(tell(TOLD, "PUBLIC", 2, 0), 3, "belief")
    assert private.perspective == ((0, 0), (1, 3))
    assert public.perspective == ()


@pytest.mark.parametrize("num_turns", range(1, 11))
def test_a_story_has_its_turns_both_deliveries_and_one_world(num_turns: int) -> None:
    private = tell(TOLD, "PRIVATE", num_turns, 7)
    public = tell(TOLD, "PUBLIC", num_turns, 7)
    assert len(private.turns) == len(public.turns) == num_turns
    for story in (private, public):
        updates = [said.update for turn in story.turns for said in turn]
        assert sorted(u for u in updates if u is not None) == [0, 1]
    differing = [
        (a, b)
        for one, other in zip(private.turns, public.turns, strict=True)
        for a, b in zip(one, other, strict=True)
        if a != b
    ]
    assert len(differing) == 2  # only the deliveries, and only in who hears
    for a, b in differing:
        assert (a.speaker, a.update) == (b.speaker, b.update)
        assert a.hearers == (2,)
        assert len(b.hearers) == 3


def test_references_do_not_depend_on_filler_or_length() -> None:
    told = [
        reference(tell(TOLD, "PRIVATE", n, seed), 1, "belief") for n in (1, 10) for seed in (0, 9)
    ]
    assert told[1:] == told[:-1]


def test_a_scenario_depends_on_task_family_and_seed_alone() -> None:
    draws = [scenario(FOUR, "lock", seed) for seed in (3, 3, 4, 5, 6)]
    assert draws[0] == draws[1]
    assert len({(d.updates, d.intermediary) for d in draws if d}) > 1


def test_a_task_without_a_pivotal_lock_yields_none() -> None:
    easy = task(". 1 | . 1 | . 1", "A")
    assert scenario(easy, "pivotal", 0) is None
    assert scenario(task(". 1 | . 1", "AB"), "lock", 0) is None  # two agents
    nothing = CalbenchData(
        split="test",
        generated=GeneratedTasks(agents=2, slots=9, meetings=1, participants=2, count=4),
    )
    with pytest.raises(UserError, match="none of the 4 source tasks has a story"):
        scenarios(nothing)


def test_how_many_tasks_have_no_pivotal_story_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(scenarios(public_data(families=("pivotal", "lock")))) == 70 + 90
    said = capsys.readouterr().err
    assert said == "left out: 20 of 90 source tasks (test) have no pivotal story\n"


def test_pivotal_locks_raise_the_optimum() -> None:
    data = public_data(families=("pivotal",))
    told = scenarios(data)
    assert len(told) == 70  # of 90
    for one in told:
        assert one.tables[frozenset({0})].optimum > one.tables[frozenset()].optimum
        assert one.tables[BOTH].optimum > one.tables[frozenset()].optimum


def counts(data: CalbenchData) -> dict[str, int]:
    """Counts of the deterministic references over one plan and one belief request per holder."""
    found = dict.fromkeys(("entries", "right", "whole", "private", "feasible", "holders"), 0)
    for one in examples(data):
        ref = parse(one.target)
        if ref.kind == "belief":
            wrong = sum(
                b != w
                for row, other in zip(ref.belief, ref.world, strict=True)
                for b, w in zip(row, other, strict=True)
            )
            found["entries"] += 80
            found["right"] += 80 - wrong
            found["whole"] += wrong == 0
            found["private"] += wrong == 0 and one.variant == "PRIVATE"
            found["holders"] += 1
        else:
            plan = json.loads(POLICIES["world copy"](ref))["plan"]
            costs = [ref.subjective.costs[m][plan[name]] for m, name in enumerate(ref.meetings)]
            found["feasible"] += None not in costs and len(set(plan.values())) == 5
    return found


def test_the_paper_like_set_gives_the_papers_counts() -> None:
    found = counts(public_data())
    assert found["entries"] == 72_000
    assert found["right"] / found["entries"] == 0.9925
    assert found["holders"] == found["feasible"] == 900
    assert found["whole"] == 540
    assert found["private"] == 90


def test_training_and_test_sources_are_disjoint() -> None:
    files = public_data().public
    assert files is not None
    train = public_data(split="train", public=PublicTasks(files=files.files, select="rest"))
    test_ids = {told.source.id for told in scenarios(public_data())}
    train_ids = {told.source.id for told in scenarios(train)}
    assert len(test_ids) == 90
    assert len(train_ids) == 54
    assert test_ids.isdisjoint(train_ids)


def test_training_on_the_test_selection_is_refused() -> None:
    with pytest.raises(ValueError, match="holds test tasks"):
        CalbenchData(split="train", public=PublicTasks(files=("x",), select="pick90"))


def test_the_example_story_is_reproduced() -> None:
    raw = json.loads(shared_file("calbench", "example_story.json").read_text())
    data = public_data(public=PublicTasks(files=public_data().public.files, select="all"))  # type: ignore[union-attr]
    [source] = [s.source for s in scenarios(data) if s.source.id == raw["source"]]
    updates = tuple(Update("ABCDE".index(u["owner"]), u["slot"]) for u in raw["updates"])
    told = Scenario(source, "lock", (updates[0], updates[1]), "ABCDE".index(raw["intermediary"]))
    assert ["ABCDE"[agent] for agent in told.uninformed] == raw["uninformed"]
    for holder in raw["private"]:
        known = told.known("PRIVATE", "ABCDE".index(holder["agent"]))
        assert sorted(known) == holder["knows"]
        assert told.tables[known].optimum == holder["optimum"]


def test_every_right_answer_states_the_reference() -> None:
    data = CalbenchData(
        split="train",
        generated=GeneratedTasks(agents=4, slots=6, meetings=2, participants=3, count=5),
        conditions=("belief", "direct", "textual", "symbolic", "access"),
        turns=(1, 4),
    )
    made = list(examples(data))
    assert len({one.id for one in made}) == len(made)
    assert all(right_answer(parse(one.target)) == one.reference_answer for one in made)
    assert made == list(examples(data))


def test_each_story_is_told_at_as_many_lengths_as_asked() -> None:
    data = CalbenchData(
        split="train",
        generated=GeneratedTasks(agents=4, slots=6, meetings=2, participants=3, count=30),
        turns=(1, 2, 3, 8, 9, 10),
        lengths_per_story=2,
    )
    told: dict[str, set[int]] = {}
    for one in examples(data):
        told.setdefault(one.source, set()).add(one.turns)
    assert {len(lengths) for lengths in told.values()} == {2}
    assert set.union(*told.values()) == {1, 2, 3, 8, 9, 10}
    with pytest.raises(ValueError, match="lengths_per_story 3 exceeds the 2 turns"):
        CalbenchData(split="train", generated=data.generated, turns=(1, 2), lengths_per_story=3)


def test_lock_keeps_costs_and_free_entries() -> None:
    locked = lock(FOUR.calendars, [Update(0, 0)])
    before, after = (plan_table(rows, FOUR.meetings) for rows in (FOUR.calendars, locked))
    assert before is not None
    assert after is not None
    assert before.costs[0] == (2, 1, 1, 2)
    assert after.costs[0] == (None, 1, 1, 2)
