"""Freeze what an evaluation asks: config + examples -> ``requests.jsonl`` and ``plan.json``.

The plan hash covers everything that is sent (messages, sampling, seeds, runs) and nothing that is
not (timeouts, concurrency, reward weights). Planning the same again changes nothing; another plan
into the same folder is refused.
"""

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from configs.errors import UserError, shown
from configs.evaluation import RUBRIC_FIELDS, EvalConfig, Sampling, Transport
from eval.records import Key, canonical, read_json, sha256, write_json
from eval.structured import SCHEMAS
from tasks.basis.reference import KIND as RUBRIC
from tasks.calbench.reference import parse
from tasks.catalog import TASKS
from tasks.example import Example, Message, read_examples

FORMAT = 1

# Task -> what a request's target says is asked for. Calendar: belief or plan.
KIND_OF: dict[str, Callable[[str], str]] = {
    "calbench": lambda target: parse(target).kind,
    "basis": lambda target: RUBRIC,
}

ANSWER_FORMS = {True: "structured output (JSON schema)", False: "free text"}


@dataclass(frozen=True, slots=True)
class Plan:
    """A frozen plan folder. ``ids``: each request's place in plan order, from 0;
    ``kinds``: for each condition what it asks for: a belief, a plan, what a ``rubric`` judges."""

    folder: Path
    hash: str
    config: EvalConfig
    ids: Mapping[str, int]
    kinds: Mapping[str, str]

    @property
    def task(self) -> str:
        """The one task of all its requests."""
        return "basis" if RUBRIC in self.kinds.values() else "calbench"

    @property
    def answer_form(self) -> str:
        """How answers are asked for, as tables name it."""
        return ANSWER_FORMS[self.config.structured_output]

    @property
    def title(self) -> str:
        """The folder's name; of what is not free text also the form, for every table."""
        held = self.config.structured_output
        return f"{self.folder.name}, {self.answer_form}" if held else self.folder.name

    @property
    def runs(self) -> range:
        """Run numbers, from 1."""
        return range(1, self.config.runs + 1)

    def holds(self, key: Key) -> bool:
        """Whether this (request, run) is planned."""
        return key[1] in self.runs and key[0] in self.ids

    def with_transport(self, overrides: Sequence[str]) -> "Plan":
        """The same plan, sent otherwise: overrides such as ``concurrency=256``."""
        transport = {name: str(value) for name, value in self.config.transport}
        for override in overrides:
            name, equals, text = override.partition("=")
            if not equals or name not in transport:
                allowed = ", ".join(transport)
                raise UserError(f"override {override!r}: write key=value; keys here: {allowed}")
            transport[name] = text
        try:
            checked = Transport.model_validate_strings(transport)
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(
                f"{first['loc'][0]}: {shown(first['input'])} is refused: {first['msg']}"
            ) from None
        return replace(self, config=self.config.model_copy(update={"transport": checked}))

    def requests(self) -> Iterator[Example]:
        """Stream the frozen requests in plan order."""
        return read_examples(self.folder / "requests.jsonl")


def seed_for(seed: int, request_id: str, run: int) -> int:
    """The sampling seed of one (request, run): 53 bits, equal for every system."""
    digest = hashlib.sha256(f"{seed}\0{request_id}\0{run}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 11


def request_body(
    sampling: Sampling,
    messages: Sequence[Message],
    seed: int,
    response_format: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything one chat completion request sends, but the model's name."""
    held = {} if response_format is None else {"response_format": response_format}
    return {
        **held,
        "messages": list(messages),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "max_tokens": sampling.max_tokens,
        "stop": list(sampling.stop),
        "seed": seed,
        "n": 1,
        "stream": False,
        "chat_template_kwargs": {"enable_thinking": sampling.enable_thinking},
    }


def write_plan(config: EvalConfig, folder: Path) -> tuple[Plan, bool]:
    """Freeze ``config`` and its examples into ``folder``; the flag says whether it was new.

    Raises ``UserError`` on duplicate ids, on no examples, on a folder that holds another plan.
    """
    with tempfile.TemporaryDirectory() as apart:  # what is refused leaves nothing in ``folder``
        part = Path(apart) / "requests.jsonl"
        plan = _plan_facts(config, _freeze_requests(planned_examples(config), part, config))
        if (folder / "plan.json").exists():
            _refuse_difference(folder, plan)
            return read_plan(folder), False
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--out {folder}: cannot be made a folder ({error.strerror})") from None
        shutil.move(part, folder / "requests.jsonl")
    write_json(folder / "plan.json", plan)
    return read_plan(folder), True


def planned_examples(config: EvalConfig) -> Iterator[Example]:
    """The requests that ``config`` asks for, none frozen. Raises ``UserError``."""
    if config.examples is None:
        assert config.data is not None, "the schema asks for one of the two"
        return TASKS[config.data.task](config.data)
    if not config.examples.is_file():
        raise UserError(f"{config.examples}: no such examples file; set `examples` to one")
    return read_examples(config.examples)


class _Census:
    """What the requests of a plan are: their number and kinds, and hashes over all of them."""

    def __init__(self) -> None:
        self._sent, self._targets = hashlib.sha256(), hashlib.sha256()
        self._counts: Counter[str] = Counter()
        self._sources: set[str] = set()
        self._first: dict[str, Example] = {}
        self.ids: dict[str, int] = {}
        self.tasks: set[str] = set()

    def add(self, example: Example) -> None:
        """Count the next request in plan order."""
        self.ids[example.id] = len(self.ids)
        self.tasks.add(example.task)
        self._sources.add(example.source)
        self._first.setdefault(example.condition, example)
        self._counts[f"{example.condition}/{example.variant}"] += 1
        self._sent.update(sha256(canonical([example.id, list(example.messages)])).encode())
        self._targets.update(sha256(canonical([example.id, example.target])).encode())

    def hashes(self) -> dict[str, str]:
        """Of what is sent, and of what answers are scored against."""
        return {
            "messages_sha256": self._sent.hexdigest(),
            "targets_sha256": self._targets.hexdigest(),
        }

    def facts(self) -> dict[str, Any]:
        """What ``plan.json`` says of the requests."""
        return {
            **self.hashes(),
            "requests": len(self.ids),
            "source_tasks": len(self._sources),
            "kinds": {name: KIND_OF[one.task](one.target) for name, one in self._first.items()},
            "counts": dict(sorted(self._counts.items())),
        }


def _freeze_requests(asked: Iterator[Example], part: Path, config: EvalConfig) -> dict[str, Any]:
    """Write the examples to ``part``; returns what they are."""
    census = _Census()
    with part.open("w", encoding="utf-8") as out:
        for example in asked:
            if example.id in census.ids:
                raise UserError(f"example id {example.id!r} is there twice; make ids unique")
            census.add(example)
            _refuse_task(example, census.tasks)
            _refuse_without_judge(example, config)
            out.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")
    if not census.ids:
        raise UserError("the config yields no examples; nothing to evaluate")
    return census.facts()


def _refuse_task(example: Example, tasks: set[str]) -> None:
    if example.task not in KIND_OF:
        raise UserError(
            f"example {example.id!r} is of task {example.task!r}, which has no scores in "
            f"evaluation; tasks here: {', '.join(KIND_OF)}"
        )
    if len(tasks) > 1:
        raise UserError(
            f"example {example.id!r} is of task {example.task!r}, others are not; "
            "make one plan for each task"
        )


def _refuse_without_judge(example: Example, config: EvalConfig) -> None:
    if example.task == "basis" and config.judge is None:
        raise UserError(
            "judge is missing; BASIS answers need one: give its endpoint and model in the config"
        )


def _plan_facts(config: EvalConfig, facts: Mapping[str, Any]) -> dict[str, Any]:
    sampling = config.sampling.model_dump(mode="json")
    left_out = set() if RUBRIC in facts["kinds"].values() else set(RUBRIC_FIELDS)
    left_out |= set() if config.structured_output else {"structured_output"}
    hashed = {
        "format": FORMAT,
        "runs": config.runs,
        "sampling": sampling,
        "messages_sha256": facts["messages_sha256"],
        **({"structured_output": SCHEMAS} if config.structured_output else {}),
    }
    return {
        "plan_hash": sha256(canonical(hashed))[:16],
        "format": FORMAT,
        **facts,
        "config": config.model_dump(mode="json", exclude=left_out),
    }


def _refuse_difference(folder: Path, plan: Mapping[str, Any]) -> None:
    old = read_json(folder / "plan.json", "remove the folder and plan again")
    fields = differing(old, plan)
    if fields:
        raise UserError(
            f"{folder}: holds another plan; differs in {', '.join(fields)}; "
            "plan into a new folder, or restore those values"
        )


def differing(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of the fields in which two nested records differ, with both values."""
    names = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            names += differing(before, after, f"{prefix}{name}.")
        elif before != after and name != "plan_hash":
            names.append(f"{prefix}{name} ({_short(before)} there, {_short(after)} now)")
    return names


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."


_AGAIN = "restore it, or plan again into a new folder"


def read_plan(folder: Path) -> Plan:
    """Open a frozen plan folder. Raises ``UserError`` when it is none, or was changed since."""
    place = folder / "plan.json"
    raw = read_json(place, "make it with `python -m eval plan`")
    try:
        config = EvalConfig.model_validate_json(json.dumps(raw["config"]))
    except (KeyError, ValidationError):
        raise UserError(f"{place}: not a plan of this version; plan again") from None
    census = _Census()
    for example in read_examples(folder / "requests.jsonl"):
        census.add(example)
        _refuse_task(example, census.tasks)
    if any(raw.get(name) != found for name, found in census.hashes().items()):
        raise UserError(
            f"{folder}/requests.jsonl: changed since it was frozen, or plan.json was; {_AGAIN}"
        )
    _refuse_edited(place, raw, _plan_facts(config, census.facts()))
    return Plan(folder, raw["plan_hash"], config, census.ids, raw["kinds"])


def _refuse_edited(place: Path, raw: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Every fact, but the config, follows from the requests; the hash from them and the config."""
    fields = differing({**raw, "config": None}, {**now, "config": None})
    if fields:
        raise UserError(
            f"{place}: was edited or damaged: {', '.join(fields)} by the requests beside it; "
            f"{_AGAIN}"
        )
    if raw.get("plan_hash") != now["plan_hash"]:
        raise UserError(
            f"{place}: was edited or damaged: plan_hash is {_short(raw.get('plan_hash'))}, its "
            f"sampling, runs and requests give {now['plan_hash']}; {_AGAIN}"
        )
