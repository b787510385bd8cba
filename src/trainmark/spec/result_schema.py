"""Reads result.json of every schema up to the present one: a table of migrations, one step each."""

import json
from collections.abc import Callable, Mapping
from typing import Any, get_args

from trainmark.spec.errors import TrainmarkError
from trainmark.spec.result import Result

NAME = "trainmark.result/"
Record = dict[str, Any]

# Version → what turns a record of that version into one of the next. Schema 1 stays readable for ever.
MIGRATIONS: Mapping[int, Callable[[Record], Record]] = {}


class NewerSchemaError(TrainmarkError):
    """A Result that a newer version of trainmark wrote."""


def newest_schema() -> int:
    """Returns the number of the schema that this version writes."""
    (written,) = get_args(Result.model_fields["schema_"].annotation)
    return int(written.removeprefix(NAME))


def parse_result(text: bytes) -> Result:
    """Returns the Result in the text, migrated if its schema is older; raises ValueError if it is none.

    A newer schema raises NewerSchemaError, which names both.
    """
    record = json.loads(text)
    schema = record.get("schema") if isinstance(record, dict) else None
    if not isinstance(schema, str) or not schema.startswith(NAME) or not schema.removeprefix(NAME).isdecimal():
        return Result.model_validate_json(text)  # raises, and says what is wrong
    version, newest = int(schema.removeprefix(NAME)), newest_schema()
    if version > newest:
        raise NewerSchemaError(
            f"its schema is {schema}, but this version of trainmark reads up to {NAME}{newest}. Update trainmark"
        )
    if version == newest:
        return Result.model_validate_json(text)
    for step in range(version, newest):
        record = MIGRATIONS[step](record) | {"schema": f"{NAME}{step + 1}"}
    return Result.model_validate_json(json.dumps(record))  # as JSON: in Python a list is no tuple
