"""The order of requests and which server gets which."""

from dataclasses import replace

from configs.evaluation import Sampling
from eval.dispatch import Dispatch
from eval.engines import Call
from eval.ordering import groups
from tasks.example import Message
from tests.eval.stories import some


def test_prefixes_of_one_dialogue_stand_together() -> None:
    dialogue = ["turns 1 2 3", "turns 1", "notes", "turns 1 2"]
    one = some(1)[0]
    asked = [
        replace(
            one, id=f"{source}{text}", source=source, messages=(Message(role="u", content=text),)
        )
        for source in ("b", "a")
        for text in dialogue
    ]
    found = [[example.id for example in group] for group in groups(asked)]
    assert found == [
        ["bnotes", "bturns 1", "bturns 1 2", "bturns 1 2 3"],
        ["anotes", "aturns 1", "aturns 1 2", "aturns 1 2 3"],
    ]


def test_a_lane_keeps_its_group_and_helps_at_the_end() -> None:
    call = Call((), Sampling(), 0)
    names = [["a1", "a2", "a3"], ["b1"], []]
    dispatch = Dispatch(iter([iter([((n, 1), call) for n in group]) for group in names]), 2)

    def take(lane: int, count: int = 1) -> list[str]:
        return [key[0] for key, _ in dispatch.take(lane, count)]

    assert (take(0), take(1)) == (["a1"], ["b1"])
    assert take(1) == ["a2"]  # nothing else is left, so it helps
    dispatch.give_back([(("a1", 1), call)])
    assert dispatch.returned
    assert take(1, 5) == ["a1", "a3"]
    assert (take(0), take(1)) == ([], [])
