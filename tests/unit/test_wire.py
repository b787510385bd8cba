"""The bytes of messages: what the kernel counted, and what each wire format keeps of a gradient."""

import math
import socket
import threading
import time

import pytest
import torch

from tests.conformance.test_communication import settings
from trainmark.machine import network
from trainmark.machine.network import tcp_bytes_sent
from trainmark.train.torch.communication.allreduce import form_groups, row_length
from trainmark.train.torch.communication.wire import Cast, Encoder, Int8

needs_count = pytest.mark.skipif(tcp_bytes_sent() is None, reason="this kernel does not count bytes per socket")


@needs_count
def test_the_kernel_counts_every_byte_that_was_sent_and_none_that_was_received() -> None:
    count = 3_000_001
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            before = tcp_bytes_sent()
            sending = threading.Thread(target=client.sendall, args=(bytes(count),))
            sending.start()
            received = 0
            while received < count:
                received += len(accepted.recv(1 << 20))
            sending.join()
            after = tcp_bytes_sent()
            assert client.fileno() >= 0
            client.sendall(b"x")  # the descriptors that were looked at are still the owner's
            assert accepted.recv(1) == b"x"
    assert before is not None and after is not None
    assert after - before == count


@needs_count
def test_other_sockets_count_nothing() -> None:
    before = tcp_bytes_sent()
    one, other = socket.socketpair()
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        one.sendall(b"local")
        datagrams.sendto(b"datagram", ("127.0.0.1", 9))
        assert tcp_bytes_sent() == before


@needs_count
def test_counting_costs_less_than_a_millisecond() -> None:
    costs_s = []
    for _ in range(20):
        started_s = time.perf_counter()
        tcp_bytes_sent()
        costs_s.append(time.perf_counter() - started_s)
    assert min(costs_s) < 1e-3


def test_a_kernel_that_does_not_count_is_told_from_one_that_counted_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_sent_by", lambda _: None)
    with socket.create_server(("127.0.0.1", 0)):
        assert tcp_bytes_sent() is None


def test_int8_is_a_scale_and_one_byte_a_value() -> None:
    payload = Int8(settings()).encode(torch.tensor([0.0, 2.54, -2.54, 0.021, -0.029]))
    # scale = 2.54 / 127 = 0.02; 0.021 and -0.029 are 1.05 and -1.45 units of it
    assert payload[4:].view(torch.int8).tolist() == [0, 127, -127, 1, -1]
    assert payload[:4].view(torch.float32).item() == pytest.approx(0.02)
    assert payload.numel() == Int8(settings()).payload_bytes(5) == 9


@pytest.mark.parametrize("values", [[0.0, 0.0], [1e-44, -3e-45], [3e38, -1.0]])
def test_int8_takes_every_finite_value(values: list[float]) -> None:
    wire, given = Int8(settings()), torch.tensor(values)
    decoded = wire.decode(wire.encode(given))
    assert (decoded - given).abs().max() <= max(1.01 * wire.tolerance * given.abs().max().item(), 1e-38)


@pytest.mark.parametrize("broken", [math.inf, -math.inf, math.nan])
def test_int8_keeps_an_overflow_visible_and_does_not_remember_it(broken: float) -> None:
    encoder = Encoder(Int8(settings()))
    assert not encoder.decode(encoder.encode(torch.tensor([1.0, broken]))).isfinite().any()
    encoder.start()
    assert encoder.decode(encoder.encode(torch.tensor([1.0, -1.0]))).tolist() == pytest.approx([1.0, -1.0])


def test_what_int8_loses_is_sent_later() -> None:
    encoder, given, total = Encoder(Int8(settings())), torch.tensor([1.0, 0.003, -0.0021]), torch.zeros(3)
    for _ in range(100):
        encoder.start()
        total += encoder.decode(encoder.encode(given))
    # One unit is 1/127 = 0.0079: without feedback the two small values would be 0 for ever.
    assert (total / 100 - given).abs().max() <= Int8.tolerance / 100 * 1.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_cast_travels_as_bytes(dtype: torch.dtype) -> None:
    wire = Cast(dtype, tolerance=0.0)
    payload = wire.encode(torch.tensor([1.0, -0.5, 0.1]))
    assert payload.dtype == torch.uint8 and payload.numel() == wire.payload_bytes(3) == 3 * dtype.itemsize
    assert wire.decode(payload).tolist() == torch.tensor([1.0, -0.5, 0.1]).to(dtype).float().tolist()


def test_nothing_is_an_empty_message() -> None:
    encoder = Encoder(Int8(settings()))
    assert encoder.encode(torch.empty(0)).numel() == encoder.empty_message(torch.empty(0)).numel() == 0
    assert encoder.decode(torch.empty(0, dtype=torch.uint8)).numel() == 0


def test_groups_are_nodes_unless_a_size_is_given() -> None:
    assert form_groups(("a", "a", "b", "a", "b"), None) == [[0, 1, 3], [2, 4]]
    assert form_groups(("a", "a", "a", "a", "a"), 2) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(("workers", "length"), [(2, 2), (4, 2), (6, 3), (7, 7), (8, 4), (9, 3), (12, 4), (16, 4)])
def test_a_torus_is_nearly_square(workers: int, length: int) -> None:
    assert row_length(workers, None) == length


def test_rows_have_the_length_that_was_chosen() -> None:
    assert row_length(8, 2) == 2
