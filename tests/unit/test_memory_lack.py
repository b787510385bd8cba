"""A rank that asks for more memory than any machine has says so in words that people know."""

import re

import numpy as np
import pytest
import torch

from trainmark.train.out_of_memory import explain_out_of_memory

# 2^50 bytes are 1 PiB; what this machine has follows.
SAID = re.compile(
    r"out of memory: 1(\.00)? PiB were asked for at once, and this machine has [\d.]+ GiB\. Choose smaller .*"
)


def test_what_torch_could_not_allocate_is_told_in_bytes_that_people_read() -> None:
    with pytest.raises(RuntimeError) as error:
        torch.empty(2**50, dtype=torch.uint8)
    said = explain_out_of_memory(error.value)
    assert said is not None and SAID.fullmatch(said), said


def test_what_numpy_could_not_allocate_is_told_alike() -> None:
    with pytest.raises(MemoryError) as error:
        np.ones(2**50, np.uint8)
    said = explain_out_of_memory(error.value)
    assert said is not None and SAID.fullmatch(said), said


def test_what_an_accelerator_has_not_is_told_of_it() -> None:
    # As torch 2.13 words it.
    error = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.72 GiB of which 3.21 GiB is"
    )
    said = explain_out_of_memory(error)
    assert said is not None and said.startswith("out of memory: 20.00 GiB more were asked for than the accelerator has")


def test_other_errors_are_left_alone() -> None:
    assert explain_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
