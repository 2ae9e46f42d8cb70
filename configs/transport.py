"""How chat requests travel to a server, whoever asks: evaluation, a judge, a generator."""

from pydantic import Field

from configs.load import Frozen


class ChatTransport(Frozen):
    """None of this changes an answer, so none of it belongs to a plan or to a cache key."""

    concurrency: int = Field(default=64, ge=1)
    """Requests in flight at each server; a server that is overloaded gets fewer, never more."""
    timeout_s: float = Field(default=600.0, gt=0)
    """For one attempt, counted from sending."""
    max_tries: int = Field(default=4, ge=1)
    backoff_s: float = Field(default=0.5, gt=0)
    """First wait between tries; doubles each time, plus jitter; Retry-After may lengthen it."""
    max_wait_s: float = Field(default=600.0, gt=0)
    """A server that asks for a longer wait than this is not waited for: the request fails."""
    max_connection_errors: int = Field(default=8, ge=1)
    """This many in a row, over all requests, and the server counts as unreachable."""
