"""What a request shows: each condition, word for word, and nothing that the holder cannot know."""

from tasks.calbench.examples import example
from tasks.calbench.stories import Scenario, Update, tell
from tests.tasks.calbench.small_tasks import task

SMALL = task("1 . 2 | . 5 . | 3 . .", "ABC")
TOLD = Scenario(SMALL, "lock", (Update(0, 0), Update(1, 1)), intermediary=2)
PRIVATE, PUBLIC = (tell(TOLD, variant, 1, 0) for variant in ("PRIVATE", "PUBLIC"))


def shown(condition: str, holder: int, public: bool = False) -> list[str]:
    """The lines of the user message."""
    story = PUBLIC if public else PRIVATE
    return example(story, holder, condition).messages[1]["content"].split("\n")


def test_the_story_says_who_hears() -> None:
    private = "Turn 1. A tells only C: A0 is now X. B tells only C: B1 is now X."
    told = shown("belief", 0)
    assert told[0] in (private, "Turn 1. B tells only C: B1 is now X. A tells only C: A0 is now X.")
    assert shown("belief", 0, public=True)[0] == told[0].replace("only C", "all")


def test_holders_of_one_story_share_all_but_the_last_line() -> None:
    for condition in ("belief", "direct"):
        first, second = shown(condition, 0), shown(condition, 2)
        assert (first[:-1], first[-1][-2:], second[-1][-2:]) == (second[:-1], "A:", "C:")


def test_belief_and_direct_show_the_start_calendars() -> None:
    grid = ["Start calendars:", "A0:M1 A1:F A2:M2", "B0:F B1:M5 B2:F", "C0:M3 C1:F C2:F"]
    assert shown("belief", 1)[1:] == [*grid, "Belief of B:"]
    assert shown("direct", 1)[1:] == [*grid, "Meetings: M1 A B C", "Plan of B:"]


def test_textual_and_symbolic_show_the_holders_belief_and_no_other() -> None:
    assert shown("textual", 0) == [
        "A believes:",
        "A is free in 1; movable at cost 2 in 2; immovable in 0.",
        "B is free in 0, 2; movable at cost 5 in 1.",
        "C is free in 1, 2; movable at cost 3 in 0.",
        "Meetings: M1 A B C",
        "Plan of A:",
    ]
    believed = '{"belief":{"A":["M1","F","M2"],"B":["F","X","F"],"C":["M3","F","F"]}}'
    assert shown("symbolic", 1)[:2] == ["B believes:", believed]
    world = '{"belief":{"A":["X","F","M2"],"B":["F","X","F"],"C":["M3","F","F"]}}'
    assert shown("symbolic", 2)[1] == world


def test_access_adds_the_news_the_holder_has() -> None:
    line = "Calendar news that {} has: {}."
    assert shown("access", 0)[1] == line.format("A", "turn 1 (A0)")
    assert shown("access", 1)[1] == line.format("B", "turn 1 (B1)")
    assert shown("access", 0)[:1] + shown("access", 0)[2:] == shown("belief", 0)
    both = {
        line.format("C", f"turn 1 ({a}), turn 1 ({b})") for a, b in (("A0", "B1"), ("B1", "A0"))
    }
    assert shown("access", 2)[1] in both
