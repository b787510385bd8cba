"""Short formats are known from the flags of written-out /proc/cpuinfo lines."""

from pathlib import Path

import pytest

from trainmark.machine import instructions
from trainmark.machine.instructions import fast_formats, has_fast

ZEN3 = "flags\t\t: fpu sse4_2 fma avx avx2 f16c sha_ni\n"
ICE_LAKE = "processor\t: 0\nflags\t\t: avx2 f16c avx512f avx512vl avx512_vnni avx512_vpopcntdq\n"
SAPPHIRE_RAPIDS = "flags\t\t: avx2 avx_vnni avx512_bf16 avx512_vnni amx_bf16 avx512_fp16 amx_tile amx_int8\n"
A64FX = "Features\t: fp asimd evtstrm sha1 crc32 atomics fphp asimdhp cpuid asimdrdm fcma dcpop sve\n"
GRAVITON3 = "Features\t: fp asimd fphp asimdhp asimddp sve svei8mm svebf16 i8mm bf16 dgh\n"


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (ZEN3, set()),  # f16c converts fp16, and multiplies nothing
        (ICE_LAKE, {"int8"}),
        (SAPPHIRE_RAPIDS, {"bf16", "fp16", "int8"}),
        (A64FX, {"fp16"}),
        (GRAVITON3, {"bf16", "fp16", "int8"}),
        ("model name\t: avx512_bf16\n", set()),  # a name is no flag
        ("", set()),
    ],
)
def test_formats_are_those_with_instructions_that_multiply(cpuinfo: str, expected: set[str]) -> None:
    assert fast_formats(cpuinfo) == expected


def test_the_machine_is_asked_and_silence_means_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(ICE_LAKE)
    monkeypatch.setattr(instructions, "CPUINFO", tmp_path / "cpuinfo")
    assert has_fast("int8")
    assert not has_fast("bf16")
    monkeypatch.setattr(instructions, "CPUINFO", tmp_path / "missing")
    assert not has_fast("int8")
