"""Short formats are known from the flags of written-out /proc/cpuinfo lines."""

import os
from pathlib import Path

import pytest

from trainmark.machine import instructions
from trainmark.machine.instructions import (
    avoid_broken_amx,
    fast_formats,
    has_broken_amx,
    has_fast,
    separate_inductor_caches,
)

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


# Leaf 0x1d = 29 states the sizes of tiles; a hypervisor that ends at 28 hides it.
HIDDEN_TILES = f"processor\t: 0\ncpuid level\t: 28\n{SAPPHIRE_RAPIDS}\nprocessor\t: 1\ncpuid level\t: 32\n"


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (HIDDEN_TILES, True),
        (HIDDEN_TILES.replace("28", "29"), False),
        (HIDDEN_TILES.replace("amx_tile", ""), False),
        (f"cpuid level\t: 16\n{ZEN3}", False),
        (SAPPHIRE_RAPIDS, False),
        (A64FX, False),
        ("", False),
    ],
)
def test_amx_is_broken_where_a_hypervisor_hides_the_sizes_of_tiles(cpuinfo: str, expected: bool) -> None:
    assert has_broken_amx(cpuinfo) is expected


@pytest.mark.parametrize(("set_before", "expected"), [(None, "AVX512_CORE_FP16"), ("AVX2", "AVX2")])
def test_onednn_stays_below_broken_amx_and_below_a_users_own_limit(
    set_before: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(HIDDEN_TILES)
    monkeypatch.setattr(instructions, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", set_before or "")
    if set_before is None:
        monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    avoid_broken_amx()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == expected


@pytest.mark.parametrize(
    ("capability", "chosen", "ends_with"),
    [(None, None, ""), ("avx2", None, "_avx2"), ("../x", None, "_x"), ("avx2", "/mine", "/mine")],
)
def test_compiled_code_is_cached_apart_for_each_capability_that_torch_is_held_to(
    capability: str | None, chosen: str | None, ends_with: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("ATEN_CPU_CAPABILITY", capability), ("TORCHINDUCTOR_CACHE_DIR", chosen)):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    separate_inductor_caches()
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR", "").endswith(ends_with)
    assert ("TORCHINDUCTOR_CACHE_DIR" in os.environ) is (ends_with != "")
