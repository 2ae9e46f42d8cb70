"""Faults of data files, one line each: raised at once in strict mode, else collected."""

from dataclasses import dataclass, field

from configs.errors import UserError


@dataclass(slots=True)
class Faults:
    """The faults of one file so far. An instance that adds one is left out of the data."""

    strict: bool
    lines: list[str] = field(default_factory=list)

    def add(self, where: str, problem: str) -> None:
        """Note ``where: problem``. Raises ``UserError`` in strict mode."""
        self.add_line(f"{where}: {problem}")

    def add_line(self, line: str) -> None:
        """Note a fault that names its place itself. Raises ``UserError`` in strict mode."""
        line = " ".join(line.split())
        if self.strict:
            raise UserError(line)
        self.lines.append(line)
