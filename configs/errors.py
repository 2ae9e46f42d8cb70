"""What a user can get wrong, and how a command says so: one line, exit code 2, no traceback."""

import sys
from collections.abc import Callable


class UserError(ValueError):
    """A fault in the user's input. The message names the place, the value and the remedy."""


def run_command(main: Callable[[], int | None]) -> None:
    """Run ``main`` and exit with its code; a ``UserError`` is one line on stderr and code 2."""
    try:
        code = main()
    except UserError as error:
        message = " ".join(str(error).split())
        print(f"error: {message}", file=sys.stderr)
        raise SystemExit(2) from None
    raise SystemExit(code or 0)
