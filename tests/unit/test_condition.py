"""Conditions are parsed without eval: what they mean, what they refuse and where, and that printing gives them back."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.spec.condition import MAX_NESTING, MAX_TOKENS, NAME, Condition, ConditionError, parse
from trainmark.spec.expression import (
    Arithmetic,
    Comparison,
    Either,
    Every,
    Name,
    Negative,
    Not,
    Number,
    Operand,
    Test,
    Text,
)

RUN: dict[str, Any] = {
    "members": 4,
    "workload": "image-classification",
    "model": "ResNet50-v1.5",
    "state": "complete",
    "flops": 61.4e9,
    "flops_share_of_ceiling": 0.2,
    "vflops": None,
    "started_at": "2026-11-15T04:53:55+00:00",
    "run_id": "20261115-045355-image-classification-efc0",
    "tags": ["baseline", "night"],
    "train.torch.onednn": True,
    "nothing": [],
    "infinite": math.inf,
    "huge": 10**400,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("members>=4 and workload=image-classification", True),
        ("members>4 or workload = 'image-classification'", True),
        ("members<4 or not members=4", False),
        ("members=4 and members<4 or members=4", True),  # and binds tighter
        ("members=4 or members=4 and members<4", True),
        ("(members=4 or members=4) and members<4", False),
        ("not members=5 and members=4", True),  # not binds tighter than and
        ("NOT members = 5", True),
        ("members == 4", True),
        ("members = 2*1 + 2", True),
        ("members = 2 + 1*2", True),
        ("members = 10 - 4 - 2", True),  # from the left
        ("members = 16 / 2 / 2", True),
        ("members = -(-4)", True),
        ("8 - members = members", False),  # the text "members": nobody said that it is a name
        ("8 - members = (members)", True),
        ("flops > 61.3G and flops < 61.5e9", True),
        ("flops=0.0614T and flops=61400M and members=4000m and flops = 61400000k", True),
        ("members = 4.096k / 1Ki", True),
        ("flops_share_of_ceiling=20%", True),
        ("flops_share_of_ceiling = 57% - 37%", False),  # floating point, as Python has it
        ("model~resnet", True),
        ("model~resnet*", True),
        ("model~resnet", True),
        ("model~*50", False),
        ("model ~ '*v1.?'", True),
        ("model=resnet50-v1.5", False),  # = compares case
        ("model=ResNet50-v1.5", True),
        ("model!=ResNet50-v1.5", False),
        ("members ~ 4", False),  # ~ compares texts
        ("tags=baseline and tags=night", True),
        ("tags=base", False),
        ("tags~base", True),
        ("tags!=baseline", False),
        ("tags!=other", True),
        ("nothing!=other", True),
        ("nothing=other or tags<z or tags=4", False),
        ("baseline=tags", False),  # there is no value called baseline
        ("'baseline'=(tags)", True),
        ("train.torch.onednn = true", True),
        ("started_at >= 2026-11-15 and started_at < 2026-11-16", True),
        ("started_at >= 2026-11-15T05", False),
        ("run_id = 20261115-045355-image-classification-efc0", True),
        ("run_id ~ 20261115-*", True),
        ("state < 'd' and state >= \"complete\"", True),
        ("members = 'four'", False),
        ("members != 'four'", True),
        ("members < 'four' or members > 'four'", False),
    ],
)
def test_a_condition_means(text: str, expected: bool) -> None:
    assert parse(text).holds(RUN.get) is expected


@pytest.mark.parametrize("sign", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    "side", ["vflops", "absent", "0.95*vflops", "flops/0", "-state", "infinite", "huge", "1e300*1e300", "state + 1"]
)
def test_a_comparison_with_a_missing_value_does_not_hold(side: str, sign: str) -> None:
    assert not parse(f"{side} {sign} 1").holds(RUN.get)
    assert not parse(f"1 {sign} ({side})").holds(RUN.get)
    assert parse(f"not {side} {sign} 1").holds(RUN.get)


def test_a_word_alone_on_the_right_is_a_name_if_the_caller_knows_it() -> None:
    condition = parse("members_finished != members", {"members", "members_finished"}.__contains__)
    assert condition.names == ["members_finished", "members"]
    assert condition.holds({"members_finished": 3, "members": 4}.get)
    assert parse("members_finished != 'members'", {"members"}.__contains__).names == ["members_finished"]


def test_names_are_those_that_the_condition_needs_each_once() -> None:
    condition = parse("flops < 0.95*baseline.flops and not (flops = 0 or tag=night) and model~res*")
    assert condition.names == ["flops", "baseline.flops", "tag", "model"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "at its end: expected a name"),
        ("members", "at its end: expected a comparison"),
        ("members >= ", "at its end: expected a name, a number or a text"),
        ("members >= 4 and", "at its end: expected a name"),
        ("members >= 4 adn state=x", "at 'adn' (character 14): expected 'and', 'or' or the end"),
        ("1 < members < 5", "at '<' (character 13): expected 'and', 'or' or the end here. Join"),
        ("(members = 4", "at its end: expected ')'"),
        ("members = 4)", "at ')' (character 12)"),
        ("state = 'complete", "at ''complete' (character 9): the closing quote is missing"),
        ("members = 4x", "at '4x' (character 11): this is not a number"),
        ("members = 1.2.3", "at '1.2.3' (character 11): this is not a number"),
        ("members = 1e400", "at '1e400' (character 11): this number is too large"),
        ("members § 4", "at '§' (character 9)"),
        ("(members=4) + 1 = 2", "a comparison cannot be compared or calculated with"),
        ("not members", "expected a comparison"),
        ("model ~ (name)", "at '(' (character 9): expected a text or a pattern"),
        ("state = and", "at 'and' (character 9)"),
        ("(" * (MAX_NESTING + 1) + "a=1", f"nested more than {MAX_NESTING} deep"),
        ("not " * (MAX_NESTING + 1) + "a=1", f"nested more than {MAX_NESTING} deep"),
        ("a=" + "1+" * MAX_TOKENS + "1", f"more than {MAX_TOKENS} words"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, place: str) -> None:
    with pytest.raises(ConditionError) as error:
        parse(text)
    assert str(error.value).startswith(f"The condition '{text}' is wrong ")
    assert place in str(error.value)


def test_an_unknown_name_is_named_with_its_place_and_the_nearest_one() -> None:
    condition = parse("members>=4 and wrkload=x and x-1 > 2")
    with pytest.raises(ConditionError, match=r"at 'wrkload' \(character 16\): .* Did you mean 'workload'\?"):
        condition.check_names(["members", "workload"])
    with pytest.raises(ConditionError, match=r"at 'x-1' .* put spaces around the minus sign"):
        condition.check_names(["members", "wrkload", "x"])
    condition.check_names(["members", "wrkload", "x-1"])


def test_as_many_words_as_are_allowed_are_evaluated() -> None:
    long = "a = 0" + " + 1" * ((MAX_TOKENS - 4) // 2)
    assert parse(long).holds({"a": float((MAX_TOKENS - 4) // 2)}.get)
    deep = "(" * MAX_NESTING + "a = 1" + ")" * MAX_NESTING
    assert parse(deep).holds({"a": 1}.get)
    assert str(parse(str(parse(long)))) == str(parse(long))


NAMES = ["a", "b.c", "model-v1.5", "x_2", "nothing"]
texts = st.text(st.characters(codec="utf-8"), max_size=8)
numbers = st.floats(0, 1e300, allow_nan=False).map(abs).map(Number)


def operands(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Operand]:
    return st.recursive(
        leaves,
        lambda inner: st.builds(Negative, inner) | st.builds(Arithmetic, st.sampled_from("+-*/"), inner, inner),
        max_leaves=6,
    )


def drawn_tests(leaves: st.SearchStrategy[Any], signs: list[str]) -> st.SearchStrategy[Test]:
    values = operands(leaves)
    several = lambda inner: st.lists(inner, min_size=2, max_size=3).map(tuple)  # noqa: E731
    return st.recursive(
        st.builds(Comparison, st.sampled_from(signs), values, values),
        lambda inner: st.builds(Not, inner) | st.builds(Every, several(inner)) | st.builds(Either, several(inner)),
        max_leaves=6,
    )


ORDERS = ["=", "!=", "<", "<=", ">", ">="]
names = st.sampled_from(NAMES).map(Name)
all_tests = drawn_tests(names | numbers | texts.map(Text), ORDERS) | st.builds(
    Comparison, st.just("~"), names, texts.map(Text)
)


@given(all_tests, st.booleans())
def test_a_printed_condition_is_parsed_as_the_same_condition(test: Test, knows: bool) -> None:
    assert parse(str(Condition("", test)), lambda word: knows).test == test


SOUP = [*"()<>=!~+-*/'\". \t", "and", "or", "not", "a", "b.c", "4", "1e9", "61.4G", "x-1", "2026-11-15", "×", "%"]


@given(st.text(max_size=30) | st.lists(st.sampled_from(SOUP), max_size=30).map("".join))
def test_any_text_is_a_condition_or_a_condition_error(text: str) -> None:
    try:
        condition = parse(text)
    except ConditionError as error:
        assert str(error).startswith("The condition ")
    else:
        assert isinstance(condition.holds({"a": 1.0, "b.c": "x"}.get), bool)
        assert all(NAME.fullmatch(name) for name in condition.names)
        assert parse(str(condition)).test == condition.test


def as_python(node: Operand | Test) -> str:
    """The same expression in Python, fully parenthesised."""
    match node:
        case Number(value):
            return repr(value)
        case Name(name):
            return f"values[{name!r}]"
        case Negative(of):
            return f"(-{as_python(of)})"
        case Arithmetic(sign, left, right) | Comparison(sign, left, right):
            return f"({as_python(left)} {'==' if sign == '=' else sign} {as_python(right)})"
        case Not(of):
            return f"(not {as_python(of)})"
        case Every(parts) | Either(parts):
            return "(" + (" and " if isinstance(node, Every) else " or ").join(map(as_python, parts)) + ")"
        case _:
            raise AssertionError(node)


small = st.integers(-3, 3).map(float)


@given(drawn_tests(names | small.filter(lambda x: x >= 0).map(Number), ORDERS), st.tuples(*[small] * len(NAMES)))
def test_a_condition_means_what_python_means(test: Test, drawn: tuple[float, ...]) -> None:
    values = dict(zip(NAMES, drawn, strict=True))
    try:
        expected = eval(as_python(test), {"values": values})
    except ZeroDivisionError:  # a missing value here
        return
    assert parse(str(Condition("", test))).holds(values.get) is expected
