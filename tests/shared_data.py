"""Where the real inputs lie: beside the checkout, never in it."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_file(*parts: str) -> Path:
    """A file of the shared inputs; the calling test is skipped, with the reason, without it."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"real input {'/'.join(parts)} is not beside the checkout (../shared/data)")
    return path
