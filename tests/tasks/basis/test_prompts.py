"""Compared arms differ by exactly the block that names them, on the rendered prompts."""

import importlib.util
import json
from pathlib import Path

import pytest

from configs.data import BasisData, Setting, Transfer
from configs.errors import UserError
from tasks.basis.collection import read_instances
from tasks.basis.donors import draw_donors
from tasks.basis.examples import Lenders, example
from tasks.basis.instances import Instance
from tasks.basis.predictions import Prediction
from tasks.basis.prompts import GUIDED, STEPS, SYSTEM, blocks, messages
from tasks.basis.settings import Call, Notes, calls
from tests.shared_data import shared_file
from tests.tasks.basis.small_instances import instance, turns

SOLUTION = Call("separate", ("solution",), "text")
BOTH = Notes("IT IS THE FUSE", "RETIRED")


def text(one: Instance, call: Call, num_turns: int = 0, notes: Notes | None = None) -> str:
    return messages(one, call, num_turns, notes)[1]["content"]


def lenders(instances: tuple[Instance, ...]) -> Lenders:
    rule = Transfer(pick="fixed", system="other", predictions=("x",))
    predictions = {
        ("other", one.id, k): Prediction("other", one.id, k, "SAID", "WHO", None, None)
        for one in instances
        for k in range(11)
    }
    donors = draw_donors(instances, seed=0)
    return Lenders({one.id: one for one in instances}, donors, predictions, rule)


def test_a_whole_prompt_reads_like_this(tmp_path: Path) -> None:
    changed = turns(t1={"observation": "a\n  b "}, t2={"observation": ""})
    del changed[2]["observation"]
    one = instance(tmp_path, trajectory_inline=changed)
    assert messages(one, SOLUTION, 3, BOTH)[0] == {"role": "system", "content": SYSTEM}
    assert text(one, SOLUTION, 3, BOTH).split("\n") == [
        "What the user sees:",
        "The lamp of swe_0001 stays dark.",
        "",
        "What the user asks for:",
        "Find a fuse for swe_0001.",
        "",
        "What the user did and then saw (without observation: none was recorded):",
        '{"turn": 1, "action": "look 1", "observation": "a\\n  b "}',
        '{"turn": 2, "action": "look 2", "observation": ""}',
        '{"turn": 3, "action": "look 3"}',
        "",
        "Notes about the user:",
        "Belief: IT IS THE FUSE",
        "Profile: RETIRED",
        "",
        "Help the user: say what is going on, and what the user should do about it.",
    ]


def test_separate_solution_knows_nothing_of_beliefs(tmp_path: Path) -> None:
    words = (SYSTEM + text(instance(tmp_path), SOLUTION, 10)).lower()
    assert not any(word in words for word in ("belie", "profile", "assum", "misconcept", "notes"))


def test_separate_is_three_independent_requests() -> None:
    made = calls("separate", "json")
    assert [call.asks for call in made] == [("belief",), ("profile",), ("solution",)]
    assert all(call.form == "text" for call in made)


SETTINGS: list[Setting] = ["gt", "belief", "profile", "shuffle", "transfer", "cot", "guided"]
NAMED = {"cot": "steps", "guided": "ask"}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("num_turns", [0, 5, 10])
def test_an_arm_differs_from_its_baseline_by_its_block_on_all_real_instances(
    setting: Setting, num_turns: int
) -> None:
    folder = shared_file("basis", "synchtom")
    instances = read_instances([folder], strict=True).instances
    lend = lenders(instances)
    [call] = calls(setting, "json")
    block = NAMED.get(setting, "notes")
    assert len(instances) == 313
    for one in instances:
        arm = example(one, call, num_turns, lend).messages
        baseline = example(one, SOLUTION, num_turns, lend).messages
        assert arm[0] == baseline[0]
        parts, base = arm[1]["content"].split("\n\n"), baseline[1]["content"].split("\n\n")
        if block == "ask":  # the one block is another text
            assert parts[:-1] == base[:-1]
            assert parts[-1].startswith(GUIDED) and parts[-1] != base[-1]
        elif block == "steps":
            assert parts == [*base, STEPS]
        else:
            [added] = [part for part in parts if part.startswith("Notes about the user:")]
            assert [part for part in parts if part != added] == base


def test_note_arms_share_all_but_the_lines_of_their_notes(tmp_path: Path) -> None:
    one = instance(tmp_path)
    arms = {
        "gt": text(one, Call("gt", ("solution",), "text"), 5, Notes("B", "P")),
        "belief": text(one, Call("belief", ("solution",), "text"), 5, Notes("B", None)),
        "profile": text(one, Call("profile", ("solution",), "text"), 5, Notes(None, "P")),
        "shuffle": text(one, Call("shuffle", ("solution",), "text"), 5, Notes("OB", "OP")),
    }
    assert arms["belief"] == arms["gt"].replace("Profile: P\n", "")
    assert arms["profile"] == arms["gt"].replace("Belief: B\n", "")
    assert arms["shuffle"] == arms["gt"].replace("Belief: B\nProfile: P", "Belief: OB\nProfile: OP")


def test_prefixes_differ_by_the_turns_shown(tmp_path: Path) -> None:
    one = instance(tmp_path)
    for k in range(11):
        names = [block.name for block in blocks(one, SOLUTION, k, None)]
        assert names == ["sees", "wants", *(["history"] if k else []), "ask"]
        shown = [line for line in text(one, SOLUTION, k).split("\n") if line.startswith("{")]
        assert [json.loads(line)["turn"] for line in shown] == list(range(1, k + 1))
    for k in (-1, 11):
        with pytest.raises(UserError, match=f"a prefix of {k} turns is asked for, there are 10"):
            blocks(one, SOLUTION, k, None)


def test_hidden_fields_show_in_no_prompt_but_as_notes(tmp_path: Path) -> None:
    one = instance(
        tmp_path,
        user_latent_belief="HIDDEN-BELIEF",
        user_profile="HIDDEN-PROFILE",
        true_latent_state="HIDDEN-STATE",
        root_cause_of_misconception="HIDDEN-CAUSE",
        misconception_type="HIDDEN-TYPE",
    )
    data = BasisData(task="basis", split="test", files=("x",), settings={"gt": (10,)})
    lend = Lenders({one.id: one}, {}, {}, data.transfer)
    for setting in ("separate", "guided", "cot"):
        for call in calls(setting, "json"):
            assert "HIDDEN" not in json.dumps(example(one, call, 10, lend).messages)
    [call] = calls("gt", "json")
    shown = json.dumps(example(one, call, 10, lend).messages)
    assert "HIDDEN-BELIEF" in shown and "HIDDEN-PROFILE" in shown
    assert not any(word in shown for word in ("STATE", "CAUSE", "TYPE"))


@pytest.mark.parametrize("template", ["qwen3", "qwen3_8", "qwen2_5", "deepseek_r1_distill"])
def test_every_template_shows_the_same_history_without_thinking(
    tmp_path: Path, template: str
) -> None:
    sandbox = pytest.importorskip("jinja2.sandbox", reason="jinja2 comes with the train extra")
    trl = importlib.util.find_spec("trl")
    if trl is None or trl.origin is None:
        pytest.skip("the bundled templates come with trl, in the train extra")
    source = Path(trl.origin).parent / "chat_templates" / f"{template}.jinja"
    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    thinking = turns(**{f"t{n}": {"action": f"<think>why</think>look {n}"} for n in range(1, 11)})
    one = instance(tmp_path, trajectory_inline=thinking)
    chat = messages(one, SOLUTION, 8, None)
    compiled = environment.from_string(source.read_text(encoding="utf-8"))
    rendered = str(compiled.render(messages=chat))
    assert chat[1]["content"] in rendered
    assert "<think>" not in rendered
    assert [f'"look {n}"' in rendered for n in range(1, 11)] == [True] * 8 + [False] * 2
