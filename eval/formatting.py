"""Numbers as a reader sees them: percentages, signs, p values, intervals."""

from collections.abc import Mapping
from typing import Any

MINUS = "\N{MINUS SIGN}"
DIGITS = {"hit": 1, "part": 2, "score": 3, "count": 2}  # decimals by unit of measure
PERCENT = frozenset({"hit", "part"})


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
