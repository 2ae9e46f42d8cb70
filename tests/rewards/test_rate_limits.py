"""No stretch of a window holds more than the limits allow."""

import asyncio
import time

import pytest

from rewards.rate_limits import RateLimits


def times(limits: RateLimits, costs: list[int], settled: int | None = None) -> list[float]:
    """When each request was admitted, in seconds from the start, in order of asking."""

    async def one(cost: int, started: float) -> float:
        ticket = await limits.admit(cost)
        if settled is not None:
            limits.settle(ticket, settled)
        return time.monotonic() - started

    async def go() -> list[float]:
        started = time.monotonic()
        return await asyncio.gather(*(one(cost, started) for cost in costs))

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("limits", "costs"),
    [
        (RateLimits(5, None, window_s=0.3), [1] * 15),
        (RateLimits(None, 50, window_s=0.3), [10] * 15),
        (RateLimits(7, 50, window_s=0.3), [10] * 15),
    ],
)
def test_five_in_any_window(limits: RateLimits, costs: list[int]) -> None:
    at = times(limits, costs)
    assert at == sorted(at)
    assert all(later - earlier >= 0.29 for earlier, later in zip(at, at[5:], strict=False))
    assert 0.6 <= at[-1] < 1.2


def test_no_limit_does_not_wait() -> None:
    assert max(times(RateLimits(None, None), [10**9] * 1000)) < 0.5


def test_what_a_request_really_cost_frees_the_rest() -> None:
    assert times(RateLimits(None, 100, window_s=0.5), [60] * 2)[-1] >= 0.49
    assert times(RateLimits(None, 100, window_s=0.5), [60] * 5, settled=10)[-1] < 0.4


def test_one_larger_than_the_limit_goes_alone() -> None:
    at = times(RateLimits(None, 100, window_s=0.2), [500, 10, 10])
    assert at[0] < 0.1
    assert 0.19 <= at[1] < 0.6
