"""What is wrong with a value, in our own words: a library's would name its types, not what a person may write."""

from typing import Any

from pydantic_core import ErrorDetails

WHOLE, NUMBER, TRUTH = "must be a whole number", "must be a number", "must be true or false"

# By the library's name of the error; {…} is a bound that comes with it.
WORDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "int_type": WHOLE,
    "int_parsing": WHOLE,
    "int_parsing_size": WHOLE,
    "int_from_float": WHOLE,
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": TRUTH,
    "bool_parsing": TRUTH,
    "string_type": "must be a text",
    "string_unicode": "must be a text",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "model_type": "must be a section with settings of its own",
    "model_attributes_type": "must be a section with settings of its own",
    "dict_type": "must be a section with settings of its own",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} in its list",
    "too_long": "must have at most {max_length} in its list",
}


def what_is_wrong(error: ErrorDetails) -> str:
    """What follows the name of its setting: `must be at least 1`; a check of ours speaks for itself."""
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    words = WORDS.get(error["type"], "has a value that cannot be used here")
    return words.format(**{name: _shown(value) for name, value in error.get("ctx", {}).items()})


def _shown(bound: Any) -> str:
    return f"{bound:g}" if isinstance(bound, float) else f"{bound:,}" if isinstance(bound, int) else str(bound)
