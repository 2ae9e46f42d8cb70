"""Every request of a data section, as Examples: story x variant x turns x condition x holder."""

import random
import sys
from collections.abc import Iterator

from configs.data import CalbenchData
from configs.errors import UserError
from tasks.calbench import prompts
from tasks.calbench.reference import Reference, dump
from tasks.calbench.solver import first_optimal_plan
from tasks.calbench.sources import source_tasks
from tasks.calbench.stories import BOTH, Scenario, Story, scenario, tell
from tasks.example import Example


def scenarios(config: CalbenchData) -> list[Scenario]:
    """The scenarios of all families and source tasks.

    A task without one is left out, and how many are is a line on stderr for each family. Raises
    ``UserError`` when none is left.
    """
    tasks = source_tasks(config)
    found = []
    for family in config.families:
        drawn = [scenario(task, family, config.story_seed) for task in tasks]
        told = [one for one in drawn if one is not None]
        if len(told) < len(tasks):
            print(
                f"left out: {len(tasks) - len(told)} of {len(tasks)} source tasks ({config.split}) "
                f"have no {family} story",
                file=sys.stderr,
            )
        found += told
    if not found:
        raise UserError(
            f"none of the {len(tasks)} source tasks has a story of the families "
            f"{list(config.families)}: they need 3 agents and movable errands of 2"
        )
    return found


def examples(config: CalbenchData) -> Iterator[Example]:
    """Requests in a fixed order: by scenario, turns, variant, condition, holder."""
    for told in scenarios(config):
        for num_turns in _lengths(config, told):
            for variant in config.variants:
                story = tell(told, variant, num_turns, config.story_seed)
                for condition in config.conditions:
                    for holder in range(told.source.num_agents):
                        yield example(story, holder, condition)


def _lengths(config: CalbenchData, told: Scenario) -> list[int]:
    """The numbers of turns at which this scenario is told, in the order of the config."""
    if config.lengths_per_story is None:
        return list(config.turns)
    rng = random.Random(f"{config.story_seed}:lengths:{told.id}")
    drawn = set(rng.sample(config.turns, config.lengths_per_story))
    return [num_turns for num_turns in config.turns if num_turns in drawn]


def example(story: Story, holder: int, condition: str) -> Example:
    """One request, with its reference and a right answer."""
    source = story.scenario.source
    ref = reference(story, holder, condition)
    answer = (
        prompts.plan_answer(first_optimal_plan(ref.subjective), ref.meetings)
        if ref.kind == "plan"
        else prompts.belief_answer(ref.belief, source.agents)
    )
    name = source.agents[holder]
    return Example(
        id=f"{story.id}:{story.variant}:{condition}:{name}",
        task="calbench",
        source=source.id,
        source_hash=source.fingerprint(),
        story=story.id,
        variant=story.variant,
        condition=condition,
        holder=name,
        turns=len(story.turns),
        messages=prompts.messages(story, holder, condition),
        target=dump(ref),
        reference_answer=answer,
    )


def reference(story: Story, holder: int, condition: str) -> Reference:
    """What the answer is scored against; independent of the filler and the number of turns."""
    told = story.scenario
    known = told.known(story.variant, holder)
    everybody = {told.known(story.variant, agent) for agent in range(told.source.num_agents)}
    differing = [i for i in (0, 1) if len({i in one for one in everybody}) == 2]
    return Reference(
        kind="plan" if prompts.ASKS_PLAN[condition] else "belief",
        agents=tuple(told.source.agents),
        meetings=tuple(f"M{meeting.id}" for meeting in told.source.meetings),
        num_slots=told.source.num_slots,
        initial=prompts.tokens(told.source.calendars),
        belief=prompts.tokens(told.calendars(known)),
        world=prompts.tokens(told.calendars(BOTH)),
        perspective=tuple((told.updates[i].owner, told.updates[i].slot) for i in differing),
        subjective=told.tables[known],
        objective=told.tables[BOTH],
        starting=told.tables[frozenset()],
    )
