"""The build of torch is read from its own description, whatever it was built with."""

import pytest
import torch

from trainmark.train.torch.installation import build_facts, describe_torch, openmp

# As printed by torch 2.13 from PyPI, with fewer settings.
GCC_AND_MKL = """PyTorch built with:
  - GCC 13.3
  - C++ Version: 202002
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64 architecture applications
  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71049cd69a3df32adcccb623b12cd7baa22)
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - LAPACK is enabled (usually provided by MKL)
  - CPU capability usage: AVX512
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release, CUDA_FLAGS= -DA=1 -Xfatbin, CXX_COMPILER=/usr/bin/c++, \
CXX_FLAGS= -DNDEBUG -O2 -fPIC -Wall -Wl,-z,now -DX=2 -fno-math-errno, LAPACK_INFO=mkl, USE_MPI=OFF,\x20
"""
# Clang states which GCC it is compatible with.
CLANG_AND_OPENBLAS = """PyTorch built with:
  - GCC 4.2
  - C++ Version: 201703
  - clang 17.0.6
  - OpenMP 202011
  - LAPACK is enabled (usually provided by MKL)
  - Build settings: BLAS_INFO=open, CXX_FLAGS= -O3 -march=native, LAPACK_INFO=open, USE_MKLDNN=OFF
"""


def test_gcc_mkl_and_onednn_are_named_with_their_versions() -> None:
    assert build_facts(GCC_AND_MKL) == {
        "torch_compiler": "GCC 13.3",
        "torch_cxx_flags": "-O2 -fPIC -fno-math-errno",
        "torch_blas": "mkl 2024.2-Product",
        "torch_lapack": "mkl",
        "torch_onednn": "3.12.0",
    }


def test_a_build_with_clang_and_openblas_without_onednn_says_so() -> None:
    assert build_facts(CLANG_AND_OPENBLAS) == {
        "torch_compiler": "clang 17.0.6",
        "torch_cxx_flags": "-O3 -march=native",
        "torch_blas": "open",
        "torch_lapack": "open",
        "torch_onednn": "not built in",
    }


def test_what_a_build_does_not_state_is_unavailable_with_the_reason() -> None:
    facts = build_facts("PyTorch built with:\n")
    assert facts.pop("torch_onednn") == "not built in"
    assert set(facts) == {"torch_compiler", "torch_cxx_flags", "torch_blas", "torch_lapack"}
    assert all(value.startswith("unavailable: torch.__config__ does not state its ") for value in facts.values())


@pytest.mark.parametrize(
    ("config", "libraries", "expected"),
    [
        (GCC_AND_MKL, ["/x/torch/lib/libgomp-24e2ab19.so.1.0.0"], "libgomp-24e2ab19.so.1.0.0, OpenMP 4.5"),
        (GCC_AND_MKL, ["/opt/intel/libiomp5.so", "/usr/lib/libcompat.so"], "libiomp5.so, OpenMP 4.5"),
        (CLANG_AND_OPENBLAS, ["/usr/lib/llvm-17/libomp.so.5"], "libomp.so.5"),
        ("PyTorch built with:\n", [], "not built in"),
    ],
)
def test_the_openmp_runtime_is_the_one_that_is_loaded(config: str, libraries: list[str], expected: str) -> None:
    lines = [f"7f00-7f01 r-xp 00000000 08:01 1234      {path}\n" for path in libraries for _ in range(2)]
    assert openmp(config, "".join(lines)) == expected


def test_the_torch_of_this_process_is_described_in_lines() -> None:
    found = describe_torch()
    assert found["torch"] == torch.__version__
    assert found["torch_git"] == torch.version.git_version
    assert found["torch_config"] == torch.__config__.show().strip()
    assert all(value and "\n" not in value for name, value in found.items() if name != "torch_config")
    assert not any(value.startswith("unavailable") for value in found.values())
