"""A rank that runs out of memory reports the size of the request in readable units."""

import re

import numpy as np
import pytest
import torch

from trainmark.train.out_of_memory import explain_out_of_memory

# 2^50 bytes are 1 PiB; what this machine has follows.
MESSAGE = re.compile(
    r"out of memory: could not allocate 1(\.00)? PiB, and this machine has [\d.]+ GiB\. Choose smaller .*"
)


def test_a_failed_allocation_of_torch_is_reported_in_readable_units() -> None:
    with pytest.raises(RuntimeError) as error:
        torch.empty(2**50, dtype=torch.uint8)
    message = explain_out_of_memory(error.value)
    assert message is not None and MESSAGE.fullmatch(message), message


def test_a_failed_allocation_of_numpy_is_reported_in_the_same_way() -> None:
    with pytest.raises(MemoryError) as error:
        np.ones(2**50, np.uint8)
    message = explain_out_of_memory(error.value)
    assert message is not None and MESSAGE.fullmatch(message), message


def test_a_failed_allocation_on_an_accelerator_is_reported_as_such() -> None:
    # The message of torch 2.13.
    error = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.72 GiB of which 3.21 GiB is"
    )
    message = explain_out_of_memory(error)
    assert message is not None and message.startswith("out of memory: the accelerator could not allocate 20.00 GiB. ")


def test_other_errors_are_left_alone() -> None:
    assert explain_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
