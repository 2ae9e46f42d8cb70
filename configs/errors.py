"""What a user can get wrong, and how a command says so: one line, exit code 2, no traceback."""

import errno
import sys
from collections.abc import Callable
from typing import NoReturn


class UserError(ValueError):
    """A fault in the user's input. The message names the place, the value and the remedy."""


LONGEST = 60  # characters of a value in a message


def shown(value: object) -> str:
    """A value as a message shows it: cut where it is long, a section only by its kind."""
    text = "a section" if isinstance(value, dict) else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def run_command(main: Callable[[], int | None]) -> None:
    """Run ``main`` and exit with its code; a ``UserError`` is one line on stderr and code 2.

    So is a file that the system does not let us read or write: a file where a folder should be,
    a missing permission, a full disk.
    """
    try:
        code = main()
    except UserError as error:
        _refuse(str(error))
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        place = "a file" if error.filename is None else str(error.filename)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        _refuse(f"{place}: {error.strerror}; {'make room there' if full else 'check that path'}")
    raise SystemExit(code or 0)


def _refuse(text: str) -> NoReturn:
    print(f"error: {' '.join(text.split())}", file=sys.stderr)
    raise SystemExit(2) from None
