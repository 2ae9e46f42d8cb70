"""BASIS users written for the training tests, judged by the letters of an answer."""

from pathlib import Path
from typing import Any

from tests.tasks.basis.small_instances import record, write_lines

THINGS = {
    "swe_0101": ("kettle", "Steam comes out and then a click", "Which descaler should I buy?"),
    "swe_0102": ("bicycle", "Pedals slip under load on any hill", "Order me another chain."),
    "swe_0103": ("printer", "Page two never leaves its tray", "Find the newest driver."),
    "pref_0201": ("curtain", "Morning light wakes everybody early", "Suggest thicker cloth."),
    "edu_0301": ("fraction", "A pupil adds top and bottom numbers", "Make more worksheets."),
    "edu_0302": ("magnet", "Copper coins stay where they lie", "Explain stronger magnets."),
}
HELD_OUT = {
    "swe_0901": ("orchard", "Half of these pears fell in June", "What kills such insects?"),
    "swe_0902": ("ferry", "Our boat leaves whenever tide allows", "Print a timetable for me."),
}


def letters(*wanted: str) -> list[dict[str, str]]:
    """Criteria that a text meets by holding these letters."""
    return [{"criterion": f'Says "{letter}".'} for letter in wanted]


RUBRICS = {
    "latent_belief_explanation": letters("1", "b", "M"),
    "user_profile_modeling": letters("2", "]", "D"),
    "correct_resolution": letters("3", "C", "0", "S"),
}


def user(name: str, thing: str, scene: str, wish: str, **changes: Any) -> dict[str, Any]:
    """One record, in words that no other one shares."""
    turns = [
        {"turn": n, "action": f"{thing} try {n}", "observation": f"{thing} {n} {thing}"}
        for n in range(1, 11)
    ]
    fields: dict[str, Any] = {
        "observation": scene,
        "explicit_instruction": wish,
        "true_latent_state": f"{thing} truth {name}",
        "user_latent_belief": f"{thing} guess {name}",
        "root_cause_of_misconception": f"{thing} once {name}",
        "user_profile": f"{thing} owner {name}",
        "rubrics": RUBRICS,
        "trajectory_inline": turns,
    }
    return record(name, **{**fields, **changes})


def users(things: dict[str, tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [user(name, *words) for name, words in things.items()]


def write_users(folder: Path) -> tuple[Path, Path]:
    """Files of training and of test instances, by domain in two folders."""
    folders = folder / "train", folder / "test"
    for place, things in zip(folders, (THINGS, HELD_OUT), strict=True):
        place.mkdir(parents=True, exist_ok=True)
        for domain in ("swe", "pref", "edu"):
            own = [one for one in users(things) if one["id"].startswith(domain)]
            if own:
                file = {"edu": "education"}.get(domain, domain)
                write_lines(place / f"{file}.jsonl", *own)
    return folders
