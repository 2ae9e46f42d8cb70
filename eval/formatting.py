"""Numbers as a reader sees them: percentages, signs, p values, intervals; names and colours."""

from collections.abc import Mapping
from typing import Any

MINUS = "\N{MINUS SIGN}"
DIGITS = {"hit": 1, "part": 2, "score": 3, "count": 2}  # decimals by unit of measure
PERCENT = frozenset({"hit", "part"})
BETTER, WORSE, NEUTRAL = "#2a78c8", "#c8641e", "#7a7f87"


def number(value: float | None, unit: str, bare: bool = False) -> str:
    """Hits and parts as a percentage, scores and counts as they are; ``bare`` leaves % away."""
    if value is None:
        return "n/a"
    percent = unit in PERCENT
    shown = f"{100 * value if percent else value:.{DIGITS[unit]}f}"
    return _minus(shown) + (" %" if percent and not bare else "")


def signed(value: float | None, unit: str) -> str:
    """A difference, with its sign; in percentage points for hits and parts."""
    if value is None:
        return "n/a"
    return _minus(f"{100 * value if unit in PERCENT else value:+.{DIGITS[unit]}f}")


def _minus(shown: str) -> str:
    """The minus sign of print, and none before a zero."""
    if not shown.strip("+-0."):
        return shown.lstrip("+-")
    return shown.replace("-", MINUS)


def p_value(p: float | None) -> str:
    """Three digits, never 0."""
    if p is None:
        return "n/a"
    return "< .001" if p < 0.001 else f"{p:.3f}".replace("0.", ".", 1)


def interval(one: Mapping[str, Any]) -> str:
    if one["low"] is None:
        return "n/a"
    return f"{signed(one['low'], one['unit'])} to {signed(one['high'], one['unit'])}"


def place(contrast: Mapping[str, Any]) -> str:
    """The name of a row: label and condition."""
    where = "" if contrast["condition"] == "all" else f" ({contrast['condition']})"
    return f"{contrast['label']}{where}"


def colour(verdict: str) -> str:
    """Blue for better, orange for worse, grey for everything not shown to be either."""
    return {"better": BETTER, "worse": WORSE}.get(verdict, NEUTRAL)
