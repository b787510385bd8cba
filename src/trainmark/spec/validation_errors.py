"""Messages for invalid values that name what the user may write, not the validation library's types."""

from typing import Any

from pydantic_core import ErrorDetails

WHOLE, NUMBER, TRUTH = "must be a whole number", "must be a number", "must be true or false"

# By pydantic's error type; {…} is a bound from the error's context.
MESSAGES = {
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
    "string_type": "must be a string",
    "string_unicode": "must be a string",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "model_type": "must be a section with settings",
    "model_attributes_type": "must be a section with settings",
    "dict_type": "must be a section with settings",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} item(s)",
    "too_long": "must have at most {max_length} item(s)",
}


def describe_error(error: ErrorDetails) -> str:
    """Returns the message to follow the setting's name: `must be at least 1`; our own checks bring theirs."""
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    message = MESSAGES.get(error["type"], "has an invalid value")
    return message.format(**{name: _shown(value) for name, value in error.get("ctx", {}).items()})


def _shown(bound: Any) -> str:
    return f"{bound:g}" if isinstance(bound, float) else f"{bound:,}" if isinstance(bound, int) else str(bound)
