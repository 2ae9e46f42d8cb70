"""Who answers at an endpoint and how it is asked; of a judge also how far it may fail."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, model_validator

from configs.errors import shown
from configs.load import Frozen
from configs.transport import ChatTransport


class JudgeSampling(Frozen):
    """Sent with every request and part of the cache key."""

    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=1024, ge=1)
    seed: int = 0
    """Of the first request; a retry after an unusable verdict sends the next one."""
    enable_thinking: bool | None = False
    """The chat template's own switch; null leaves it out, for servers that refuse it."""
    extra: Mapping[str, JsonValue] = Field(
        default_factory=lambda: {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
    )
    """Fields that vLLM would otherwise take from the checkpoint; ``{}`` for a hosted API."""

    def fields(self, attempt: int) -> dict[str, JsonValue]:
        """What a request holds beside its messages; ``attempt`` counts from 0."""
        fields: dict[str, JsonValue] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed + attempt,
            "n": 1,
            "stream": False,
            **self.extra,
        }
        if self.enable_thinking is not None:
            fields["chat_template_kwargs"] = {"enable_thinking": self.enable_thinking}
        return fields

    @model_validator(mode="after")
    def _extra_is_extra(self) -> "JudgeSampling":
        known = {"temperature", "top_p", "max_tokens", "seed", "chat_template_kwargs"}
        known |= {"model", "messages", "n", "stream"}
        if twice := sorted(known & set(self.extra)):
            raise ValueError(f"extra repeats {', '.join(twice)}; set it by its own key")
        return self


class ChatEndpoint(ChatTransport):
    """A server and its model. A key never stands here, only the variable that holds it."""

    endpoint: str
    """http://HOST:PORT of an OpenAI-compatible server, with or without /v1."""
    model: str = Field(min_length=1)
    """The served name."""
    revision: str = ""
    """Names the weights behind ``model``: change it when they change, or what is kept
    on disk goes on answering for the old ones."""
    api_key_env: str | None = None
    """Environment variable that holds the key; null sends none."""
    sampling: JudgeSampling = JudgeSampling()
    rpm: int | None = Field(default=None, ge=1)
    """Requests in any 60 s, of this process: divide a shared allowance by the number of ranks."""
    tpm: int | None = Field(default=None, ge=1)
    """Tokens in any 60 s, of this process; prompt and answer together."""

    concurrency: int = Field(default=16, ge=1)
    timeout_s: float = Field(default=120.0, gt=0)
    max_tries: int = Field(default=4, ge=1)
    max_wait_s: float = Field(default=60.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _names_no_key(cls, given: object) -> object:
        """An unknown key's error would print its value; here that may be the secret itself."""
        secret = {"api_key", "apikey", "key", "token", "authorization", "headers", "password"}
        if isinstance(given, dict):
            for name in given:
                if str(name).lower().replace("-", "_") in secret:
                    raise ValueError(
                        f"{name} has no place in a config; put the key into an environment "
                        "variable and name that in api_key_env"
                    )
        return given

    @model_validator(mode="after")
    def _holds_no_secret(self) -> "ChatEndpoint":
        """Checked on the whole model, because a field's own error would print its value."""
        if self.api_key_env and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", self.api_key_env):
            raise ValueError(
                "api_key_env is not the name of an environment variable (A-Z, 0-9, _); "
                "put the key into a variable and write the variable's name here"
            )
        if "@" in self.endpoint or "?" in self.endpoint:
            raise ValueError(
                "endpoint holds credentials or a query; put the key into a variable and name it "
                "in api_key_env"
            )
        if not _is_address(self.endpoint):
            raise ValueError(
                f"endpoint {shown(self.endpoint)} is no address; write it as http://HOST:PORT"
            )
        return self


def _is_address(endpoint: str) -> bool:
    try:
        where = urlsplit(endpoint)
        return where.scheme in ("http", "https") and bool(where.hostname) and where.port != 0
    except ValueError:  # brackets that hold no address, a port that is no number
        return False


class JudgeConfig(ChatEndpoint):
    """One judge."""

    mode: Literal["isolated", "joint"] = "isolated"
    """isolated: one call a dimension, which sees only its own text and rubric; joint: one call
    for all of them, as the BASIS release judges."""
    verdict_tries: int = Field(default=2, ge=1)
    """Requests until a usable verdict; from the second on the prompt is stricter."""
    cache: Path | None = None
    """SQLite file on a local disk (not NFS); any number of processes may share it."""
    deadline_s: float | None = Field(default=600.0, gt=0)
    """For one batch of a training step; what is not judged by then has failed."""
    max_failing_share: float = Field(default=0.2, ge=0, lt=1)
    """More failures than this among the last ``window`` judgements asked for: stop."""
    window: int = Field(default=200, ge=1)
