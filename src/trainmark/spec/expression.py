"""Expressions on named values: arithmetic, comparisons, and, or, not; evaluated, and printed to be parsed again."""

import fnmatch
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Lookup = Callable[[str], Any]  # the value of a name; None: it is missing or unavailable
Value = float | str | frozenset[str] | None

Sign = Literal["=", "!=", "<", "<=", ">", ">=", "~"]
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Number:
    """A finite number that is not negative."""

    value: float


@dataclass(frozen=True)
class Text:
    """A text."""

    value: str


@dataclass(frozen=True)
class Name:
    """A value that is looked up; `at` is its place in the text that was parsed."""

    name: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Negative:
    """Minus a value."""

    of: "Operand"


@dataclass(frozen=True)
class Arithmetic:
    """Two numbers and a sign between them."""

    sign: Literal["+", "-", "*", "/"]
    left: "Operand"
    right: "Operand"


@dataclass(frozen=True)
class Comparison:
    """Two values and what must hold between them; `~` compares a text with a pattern."""

    sign: Sign
    left: "Operand"
    right: "Operand"


@dataclass(frozen=True)
class Not:
    """Holds if the test does not."""

    of: "Test"


@dataclass(frozen=True)
class Every:
    """Holds if all tests do (and)."""

    parts: tuple["Test", ...]


@dataclass(frozen=True)
class Either:
    """Holds if at least one test does (or)."""

    parts: tuple["Test", ...]


Operand = Number | Text | Name | Negative | Arithmetic
Test = Comparison | Not | Every | Either


def holds(test: Test, lookup: Lookup) -> bool:
    """Whether the test holds; a comparison with a missing value does not."""
    match test:
        case Not(of):
            return not holds(of, lookup)
        case Every(parts):
            return all(holds(part, lookup) for part in parts)
        case Either(parts):
            return any(holds(part, lookup) for part in parts)
        case Comparison(sign, left, right):
            return _compare(sign, value_of(left, lookup), value_of(right, lookup))


def value_of(operand: Operand, lookup: Lookup) -> Value:
    """Returns the value; None if a part of it is missing, is no number where one is needed, or is not finite."""
    match operand:
        case Number(value) | Text(value):
            return value
        case Name(name):
            return plain(lookup(name))
        case Negative(of):
            inner = value_of(of, lookup)
            return -inner if isinstance(inner, float) else None
        case Arithmetic(sign, left, right):
            return _calculate(sign, value_of(left, lookup), value_of(right, lookup))


def plain(value: Any) -> Value:
    """Returns a stored value as one that can be compared: true and false as text, a list as a set of texts."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return float(value) if abs(value) <= MAX_FLOAT else None  # NaN compares false
    if isinstance(value, list | tuple | set | frozenset):
        return frozenset(map(str, value))
    return value if isinstance(value, str) else None


MAX_FLOAT = 1.7976931348623157e308


def _calculate(sign: str, left: Value, right: Value) -> float | None:
    if not isinstance(left, float) or not isinstance(right, float) or (sign == "/" and right == 0):
        return None
    calculate = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[sign]
    value: float = calculate(left, right)
    return value if math.isfinite(value) else None


def _compare(sign: str, left: Value, right: Value) -> bool:
    if left is None or right is None:
        return False
    if isinstance(left, frozenset):
        return _compare_set(sign, left, right)
    if isinstance(right, frozenset):
        return sign in ("=", "!=") and _compare_set(sign, right, left)
    if sign == "~":
        return isinstance(left, str) and isinstance(right, str) and _matches(left, right)
    if type(left) is not type(right):
        return sign == "!="
    return ORDERS[sign](left, right)


def _compare_set(sign: str, texts: frozenset[str], other: Value) -> bool:
    """Of a set, `=` asks whether it has the text, `~` whether one of its texts matches, `!=` whether it has it not."""
    if sign == "~":
        return isinstance(other, str) and any(_matches(text, other) for text in texts)
    return sign in ("=", "!=") and (other in texts) == (sign == "=")


def _matches(text: str, pattern: str) -> bool:
    """Whether the text contains the pattern, or matches it as a whole if that has wildcards; case does not count."""
    text, pattern = text.lower(), pattern.lower()
    return fnmatch.fnmatchcase(text, pattern) if set(pattern) & set("*?[") else pattern in text


def names_in(node: Operand | Test) -> Iterator[Name]:
    """Yields the names in an expression, in order."""
    match node:
        case Name():
            yield node
        case Negative(of) | Not(of):
            yield from names_in(of)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            yield from names_in(left)
            yield from names_in(right)
        case Every(parts) | Either(parts):
            for part in parts:
                yield from names_in(part)


def as_text(node: Operand | Test) -> str:
    """Returns a text that is parsed as this expression."""
    match node:
        case Number(value):
            return repr(value)
        case Text(value):
            return "'" + value.replace("'", "''") + "'"
        case Name(name):
            return name
        case Negative(of):
            return f"-{_enclosed(of, Arithmetic)}"
        case Arithmetic(sign, left, right):
            weaker = () if sign in "+-" else (("+", "-"),)
            return f"{_term(left, *weaker)} {sign} {_term(right, ('+', '-'), ('*', '/') if sign in '*/' else ())}"
        case Comparison(sign, left, right):
            return f"{as_text(left)} {sign} {_enclosed(right, Name)}"
        case Not(of):
            return f"not {_enclosed(of, Every, Either)}"
        case Every(parts):
            return " and ".join(_enclosed(part, Every, Either) for part in parts)
        case Either(parts):
            return " or ".join(_enclosed(part, Either) for part in parts)


def _enclosed(node: Operand | Test, *kinds: type) -> str:
    """Returns the text, in parentheses if the node is of one of these kinds."""
    return f"({as_text(node)})" if isinstance(node, kinds) else as_text(node)


def _term(node: Operand, *weaker: tuple[str, ...]) -> str:
    """Returns the text of a term, in parentheses if it is a calculation with one of these signs."""
    is_weaker = isinstance(node, Arithmetic) and any(node.sign in signs for signs in weaker)
    return f"({as_text(node)})" if is_weaker else as_text(node)
