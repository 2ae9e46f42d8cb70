"""Every request of a BASIS data section, as Examples: instance x setting x prefix x call.

In an Example, ``source`` is the group of instances made from one source item, ``story`` the
instance, ``variant`` its domain, ``condition`` the setting, ``holder`` the dimension asked for (or
``all``), and ``turns`` the prefix.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.data import BasisData, Setting, Transfer
from tasks.basis.collection import read_instances, sound_instances
from tasks.basis.donors import donors_for
from tasks.basis.instances import Dimension, Instance
from tasks.basis.predictions import Key, Prediction, pick, read_predictions
from tasks.basis.prompts import MARKER, messages
from tasks.basis.reference import Notation, dump, gold_texts, reference
from tasks.basis.settings import Call, Notes, calls
from tasks.example import Example


@dataclass(frozen=True, slots=True)
class Lenders:
    """Where the notes of ``shuffle`` and ``transfer`` come from; empty where not asked for."""

    instances: Mapping[str, Instance]
    donors: Mapping[str, str]
    predictions: Mapping[Key, Prediction]
    rule: Transfer | None


def examples(config: BasisData) -> Iterator[Example]:
    """Requests in a fixed order: by instance, setting, prefix, call.

    An instance with a fault is left out, and each fault is a line on stderr; under
    ``config.strict`` the first raises ``UserError``.
    """
    collection = read_instances([Path(name) for name in config.files], config.strict)
    for fault in collection.faults:
        print(f"left out: {fault}", file=sys.stderr)
    instances = sound_instances(collection)
    lend = lenders(instances, config)
    for instance in first_of_each(instances, config.per_domain):
        for setting, prefixes in config.settings.items():
            for num_turns in drawn_prefixes(prefixes, instance.id, config):
                for call in calls(setting, config.guided_format):
                    yield example(instance, call, num_turns, lend)


def first_of_each(instances: Sequence[Instance], per_domain: int | None) -> Iterator[Instance]:
    """The first ``per_domain`` instances of each domain, in order; all of them for None."""
    taken: Counter[str] = Counter()
    for instance in instances:
        taken[instance.domain] += 1
        if per_domain is None or taken[instance.domain] <= per_domain:
            yield instance


def drawn_prefixes(prefixes: Sequence[int], name: str, config: BasisData) -> list[int]:
    """The prefixes at which this instance is asked, in the order of the config."""
    if config.prefixes_per_instance is None:
        return list(prefixes)
    rng = random.Random(f"{config.seed}:prefixes:{name}")
    drawn = set(rng.sample(sorted(prefixes), config.prefixes_per_instance))
    return [num_turns for num_turns in prefixes if num_turns in drawn]


def lenders(instances: Sequence[Instance], config: BasisData) -> Lenders:
    """Donors and predictions, as far as the settings need them. Raises ``UserError``."""
    donors: Mapping[str, str] = {}
    if "shuffle" in config.settings:
        saved = None if config.shuffle.saved is None else Path(config.shuffle.saved)
        donors = donors_for(instances, config.shuffle.seed, saved)
    files = config.transfer.predictions if config.transfer else ()
    predictions = read_predictions(Path(name) for name in files)
    return Lenders({one.id: one for one in instances}, donors, predictions, config.transfer)


def notes_for(
    instance: Instance, setting: Setting, num_turns: int, lend: Lenders
) -> tuple[Notes | None, Notation]:
    """The notes that a setting shows about the user, and where they come from."""
    if setting == "gt":
        return Notes(instance.belief, instance.profile), Notation(donor=instance.id)
    if setting == "belief":
        return Notes(instance.belief, None), Notation(donor=instance.id)
    if setting == "profile":
        return Notes(None, instance.profile), Notation(donor=instance.id)
    if setting == "shuffle":
        donor = lend.instances[lend.donors[instance.id]]
        return Notes(donor.belief, donor.profile), Notation(donor=donor.id)
    if setting == "transfer":
        return _transferred(instance, num_turns, lend)
    return None, Notation()


def _transferred(
    instance: Instance, num_turns: int, lend: Lenders
) -> tuple[Notes | None, Notation]:
    assert lend.rule is not None, "the schema asks for the rule with the setting"
    picked = pick(lend.predictions, instance.id, num_turns, lend.rule)
    if picked is None:
        return None, Notation(rule=lend.rule.pick)
    oracle = lend.rule.pick == "oracle_best_by_judge"
    origin = Notation(
        system=picked.system,
        rule=lend.rule.pick,
        oracle=oracle,
        score=picked.mean_score if oracle else None,
    )
    return Notes(picked.belief, picked.profile), origin


def example(instance: Instance, call: Call, num_turns: int, lend: Lenders) -> Example:
    """One request, with its reference and the gold answer in the form asked for."""
    notes, origin = notes_for(instance, call.setting, num_turns, lend)
    return Example(
        id=f"{instance.id}:{call.setting}:{call.name}:k{num_turns}",
        task="basis",
        source=instance.group,
        source_hash=instance.fingerprint(),
        story=instance.id,
        variant=instance.domain,
        condition=call.setting,
        holder=call.name,
        turns=num_turns,
        messages=messages(instance, call, num_turns, notes),
        target=dump(reference(instance, call, num_turns, origin)),
        reference_answer=_gold_answer(instance, call),
    )


def _gold_answer(instance: Instance, call: Call) -> str:
    gold = gold_texts(instance)
    asked: dict[Dimension, str] = {dimension: gold[dimension] for dimension in call.asks}
    if call.form == "json":
        return json.dumps(asked, ensure_ascii=False)
    if call.form == "tags":
        return "\n".join(f"<{name}>{text}</{name}>" for name, text in asked.items())
    text = asked[call.asks[0]]
    return f"{MARKER} {text}" if call.form == "marker" else text
