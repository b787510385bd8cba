"""Condition: a text such as `members>=4 and workload=image-classification`, parsed into a test of named values."""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, NoReturn, TypeGuard, cast, get_args

from trainmark.spec.errors import TrainmarkError
from trainmark.spec.expression import (
    Arithmetic,
    Comparison,
    Either,
    Every,
    Lookup,
    Name,
    Negative,
    Not,
    Number,
    Operand,
    Sign,
    Test,
    Text,
    as_text,
    holds,
    names_in,
)
from trainmark.spec.registry import did_you_mean

MAX_TOKENS, MAX_NESTING = 500, 30  # so that no text can exhaust the stack

POWERS = {"n": -9, "u": -6, "µ": -6, "m": -3, "%": -2, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5}
NAME = re.compile(r"[A-Za-z_]\w*(?:[.-]\w+)*", re.ASCII)
TOKEN = re.compile(
    rf"""
    \s*(?:
      (?P<moment>\d{{4}}-\d\d-\d\d(?:T[\d:+]*)?|\d{{8}}-\d{{6}}[\w.-]*)  # a date, or the id of a run
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{{1,3}})?)(?P<prefix>[KMGTP]i|[nuµmkKMGTPE%])?(?![\w.])
    | (?P<word>{NAME.pattern})
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<sign><=|>=|!=|==|[-=<>~+*/()])
    | (?P<end>\Z)
    )""",
    re.ASCII | re.VERBOSE,
)
PATTERN = re.compile(r"""\s*(?P<text>[^\s()'"]+)""")  # after ~, without quotes


class ConditionError(TrainmarkError):
    """A condition that cannot be parsed, or has unknown names."""


class Token(NamedTuple):
    """A word of a condition: its kind, how it is written, where it starts, and its value if it is a number or text."""

    kind: str
    written: str
    at: int
    value: Number | Text | None = None


@dataclass(frozen=True)
class Condition:
    """A parsed condition; `str` gives a text that is parsed as the same condition."""

    text: str
    test: Test

    @property
    def names(self) -> list[str]:
        """The names whose values it needs, each once."""
        return list(dict.fromkeys(name.name for name in names_in(self.test)))

    def holds(self, lookup: Lookup) -> bool:
        """Whether it holds for these values; a comparison with a value that is missing (None) does not."""
        return holds(self.test, lookup)

    def check_names(self, known: Collection[str]) -> None:
        """Raises if a name is not known, with its place and the nearest known name."""
        for name in names_in(self.test):
            if name.name not in known:
                hint = did_you_mean(name.name, sorted(known))
                if not hint and "-" in name.name:
                    hint = " To subtract, put spaces around the minus sign."
                fail(self.text, name.at, name.name, f"there is no value of this name.{hint}")

    def __str__(self) -> str:
        return as_text(self.test)


def parse(text: str, is_name: Callable[[str], bool] = lambda word: False) -> Condition:
    """Parses a condition; raises ConditionError with the place of the mistake.

    A word alone on the right of = or != is a text, unless `is_name` knows it; every other bare word is a name.
    """
    return Condition(text, _Parser(text, is_name).parse())


def fail(text: str, at: int, written: str, what: str) -> NoReturn:
    """Raises the error that points at a place in the text."""
    where = f"at '{written}' (character {at + 1})" if written else "at its end"
    raise ConditionError(f"The condition '{text}' is wrong {where}: {what}")


def _tokens(text: str) -> Iterator[Token]:
    at, after_tilde = 0, False
    while True:
        found = (PATTERN.match(text, at) if after_tilde else None) or TOKEN.match(text, at)
        if found is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            wrong = re.match(r"['\"]?[\w.]*|.", text[start:], re.DOTALL)
            fail(text, start, (wrong[0] if wrong else "") or text[start], _why(text[start]))
        kind = cast(str, found.lastgroup if found.lastgroup != "prefix" else "number")
        token = Token(kind, found[0].strip(), found.start(kind), _literal(text, kind, found))
        yield token
        if kind == "end":
            return
        at, after_tilde = found.end(), token.written == "~"


def _why(letter: str) -> str:
    if letter in "'\"":
        return "the closing quote is missing."
    if letter.isdigit() or letter == ".":
        return "this is not a number. Write numbers like 4, 0.95, 61.4G, 10m or 20%, and put other texts in quotes."
    return "this character has no meaning here. Put texts in quotes."


def _literal(text: str, kind: str, found: re.Match[str]) -> Number | Text | None:
    if kind == "number":
        prefix = found["prefix"] or ""
        exact = Decimal(found["number"]) * Decimal(1024) ** BINARY.get(prefix, 0)
        value = float(exact.scaleb(POWERS.get(prefix, 0)))
        if value == float("inf"):
            fail(text, found.start(kind), found["number"], "this number is too large.")
        return Number(value)
    if kind == "moment":
        return Text(found["moment"])
    if kind == "text":
        quote = found["text"][0]
        return Text(found["text"][1:-1].replace(quote * 2, quote) if quote in "'\"" else found["text"])
    return None


class _Parser:
    """Recursive descent, one method per level of precedence, from the weakest."""

    def __init__(self, text: str, is_name: Callable[[str], bool]) -> None:
        self._text, self._is_name, self._nesting = text, is_name, 0
        self._tokens = list[Token]()
        for token in _tokens(text):
            if len(self._tokens) == MAX_TOKENS:
                fail(text, token.at, token.written, f"it has more than {MAX_TOKENS} words and signs.")
            self._tokens.append(token)
        self._at = 0

    def parse(self) -> Test:
        found = self._either()
        if self._next().kind != "end":
            self._fail("expected 'and', 'or' or the end here.")
        return self._as_test(found)

    def _next(self) -> Token:
        return self._tokens[self._at]

    def _takes(self, *written: str) -> str | None:
        """Moves on and returns the sign or keyword, if it is one of these."""
        token = self._next()
        if token.kind in ("sign", "word") and token.written.lower() in written:
            self._at += 1
            return token.written.lower()
        return None

    def _fail(self, what: str) -> NoReturn:
        fail(self._text, self._next().at, self._next().written, what)

    def _as_test(self, found: Operand | Test) -> Test:
        if _is_operand(found):
            self._fail("expected a comparison (=, !=, <, <=, >, >= or ~) here.")
        return cast(Test, found)

    def _as_operand(self, found: Operand | Test) -> Operand:
        if not _is_operand(found):
            self._fail("a comparison cannot be compared or calculated with. Join comparisons with 'and' or 'or'.")
        return found

    def _either(self) -> Operand | Test:
        first = self._every()
        parts = [first]
        while self._takes("or"):
            parts[-1] = self._as_test(parts[-1])
            parts.append(self._as_test(self._every()))
        return first if len(parts) == 1 else Either(tuple(cast(list[Test], parts)))

    def _every(self) -> Operand | Test:
        first = self._not()
        parts = [first]
        while self._takes("and"):
            parts[-1] = self._as_test(parts[-1])
            parts.append(self._as_test(self._not()))
        return first if len(parts) == 1 else Every(tuple(cast(list[Test], parts)))

    def _not(self) -> Operand | Test:
        if self._takes("not"):
            return Not(self._as_test(self._nested(self._not)))
        return self._comparison()

    def _comparison(self) -> Operand | Test:
        left = self._sum()
        sign = self._takes("=", "==", *get_args(Sign))
        if sign is None:
            return left
        sign = "=" if sign == "==" else sign
        left = self._as_operand(left)
        return Comparison(cast(Sign, sign), left, self._right(sign))

    def _right(self, sign: str) -> Operand:
        token, after = self._next(), self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if sign == "~" and not isinstance(token.value, Text):
            self._fail("expected a text or a pattern such as resnet* here.")
        is_alone = token.kind == "word" and token.written.lower() not in KEYWORDS and after.written not in OPERATIONS
        if sign in ("=", "!=") and is_alone and not self._is_name(token.written):
            self._at += 1
            found: Operand = Text(token.written)
        else:
            found = self._as_operand(self._sum())
        if self._next().written in ("==", *get_args(Sign)):
            self._fail("expected 'and', 'or' or the end here. Join comparisons with 'and'.")
        return found

    def _sum(self) -> Operand | Test:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Operand | Test:
        return self._chain(self._signed, "*", "/")

    def _chain(self, term: Callable[[], Operand | Test], *signs: str) -> Operand | Test:
        found = term()
        while sign := self._takes(*signs):
            left = self._as_operand(found)
            found = Arithmetic(sign, left, self._as_operand(term()))  # type: ignore[arg-type]
        return found

    def _signed(self) -> Operand | Test:
        return Negative(self._as_operand(self._nested(self._signed))) if self._takes("-") else self._primary()

    def _primary(self) -> Operand | Test:
        token = self._next()
        if self._takes("("):
            inside = self._nested(self._either)
            if not self._takes(")"):
                self._fail("expected ')' here.")
            return inside
        if token.value is None and (token.kind != "word" or token.written.lower() in KEYWORDS):
            self._fail("expected a name, a number or a text here.")
        self._at += 1
        return token.value or Name(token.written, token.at)

    def _nested(self, parse: Callable[[], Operand | Test]) -> Operand | Test:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self._fail(f"it is nested more than {MAX_NESTING} deep.")
        found = parse()
        self._nesting -= 1
        return found


KEYWORDS = ("and", "or", "not")
OPERATIONS = ("+", "-", "*", "/")


def _is_operand(found: Operand | Test) -> TypeGuard[Operand]:
    return isinstance(found, Operand)
