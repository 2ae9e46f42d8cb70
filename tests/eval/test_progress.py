"""What a run says of itself, on a terminal and in the log of a batch job."""

import io

from eval.progress import Progress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(out: io.StringIO) -> str:
    times = iter([100.0, 110.0])
    progress = Progress("base", planned=400, done=100, out=out, now=lambda: next(times))
    for state, tokens, final in [("ok", 30, True), ("ok", 20, True), ("http_error", None, False)]:
        progress.count(state, tokens, final)
    progress.show()
    return out.getvalue()


def test_done_states_rate_and_time_left() -> None:
    line = "base: 102/400 (26%), http_error 1, ok 2, 5 tok/s, 0.2 req/s, 25 min left"
    assert shown(io.StringIO()) == f"{line}\n"
    assert shown(Terminal()) == f"\r\x1b[K{line}"


def test_nothing_came_yet_and_all_is_done() -> None:
    assert Progress("a", 4, 0, io.StringIO()).line() == "a: 0/4 (0%)"
    assert Progress("a", 4, 4, io.StringIO()).line() == "a: 4/4 (100%)"
    assert (Progress("a", 4, 0, Terminal()).period_s, Progress("a", 4, 0).period_s) == (0.5, 30.0)


def test_durations_are_guesses() -> None:
    assert [duration(s) for s in (41.3, 1500.0, 9000.0)] == ["41 s", "25 min", "2.5 h"]
