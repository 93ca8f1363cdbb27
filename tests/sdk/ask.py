"""What is asked and what is answered, in the words of no SDK."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel


class Weather(BaseModel):
    """What a structured answer holds."""

    city: str
    degrees: int


@dataclass
class Tool:
    """A function the model may call."""

    name: str
    description: str
    schema: dict


WEATHER_TOOL = Tool(
    "get_weather",
    "Says what the weather is.",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
)
NEWS_TOOL = Tool("get_news", "Says what is new.", {"type": "object", "properties": {}})


@dataclass
class Call:
    """A function call of an answer."""

    id: str | None
    name: str
    arguments: dict


@dataclass
class Usage:
    """Tokens: `input` includes `cached`, `output` includes `reasoning`."""

    input: int
    cached: int
    output: int
    reasoning: int


@dataclass
class Answer:
    """An answer, read through the SDK's own types."""

    id: str
    model: str
    text: str
    thoughts: str
    calls: list[Call]
    finish: Any
    usage: Usage | None
    # What goes into the history of the next round, as the SDK's documentation says.
    native: Any
    # Text of a stream as it came.
    pieces: list[str] = field(default_factory=list)


@dataclass
class Round:
    """An earlier answer and the results of its calls, in the order they are sent back."""

    answer: Answer
    results: list[tuple[Call, dict]]


@dataclass
class Ask:
    """A request. What is absent is not sent."""

    prompt: str = "Hello there"
    system: str | None = None
    # Earlier turns: (role, text) with role `user` or `assistant`.
    turns: list[tuple[str, str]] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    # `none`, `any` or the name of a function.
    choice: str | None = None
    schema: type[BaseModel] | None = None
    image: bytes | None = None
    # An image elsewhere.
    image_url: str | None = None
    think: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    rounds: list[Round] = field(default_factory=list)
    # The SDK's own parameters, as they are.
    extra: dict = field(default_factory=dict)
