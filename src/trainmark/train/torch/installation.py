"""The torch that runs: version, compiler and flags of its build, BLAS, LAPACK, oneDNN and OpenMP."""

import re
from pathlib import Path

import torch

COMPILER = re.compile(r"(?:clang|GCC|MSVC|Intel\S* compiler)\b.*", re.IGNORECASE)
MKL = re.compile(r"Math Kernel Library Version (\S+)")
ONEDNN = re.compile(r"(?:MKL-DNN|oneDNN) v?(\S+)")
OPENMP = re.compile(r"a\.k\.a\. (OpenMP [\d.]+)")
# NAME=value, NAME=value, …; values contain spaces and commas, but no «, NAME=».
SETTING = re.compile(r"\b([A-Z][A-Z0-9_]*)=(.*?)(?=, [A-Z][A-Z0-9_]*=|,? *$)")
RUNTIME = re.compile(r"/(lib(?:gomp|iomp5|omp)[-.][^/\n]*)$", re.MULTILINE)


def describe_torch() -> dict[str, str]:
    """Returns the version, build and instruction set of torch, and the OpenMP runtime that this process has loaded."""
    config = torch.__config__.show()
    return {
        "torch": str(torch.__version__),
        "torch_git": torch.version.git_version or "unavailable: not built from a git checkout",
        "torch_isa": torch.backends.cpu.get_cpu_capability(),
        **build_facts(config),
        "torch_openmp": openmp(config, Path("/proc/self/maps").read_text()),
        "torch_config": config.strip(),
    }


def build_facts(config: str) -> dict[str, str]:
    """Returns compiler, flags, BLAS, LAPACK and oneDNN from the text of torch.__config__.show()."""
    lines = [line.strip().removeprefix("- ") for line in config.splitlines()]
    settings = dict(SETTING.findall(next((line for line in lines if line.startswith("Build settings:")), "")))
    compilers = [line for line in lines if COMPILER.fullmatch(line)]
    blas, mkl = settings.get("BLAS_INFO"), MKL.search(config)
    is_mkl = mkl is not None and blas in (None, "mkl")
    onednn = ONEDNN.search(config)
    return {
        # Clang states the GCC version that it is compatible with before its own.
        "torch_compiler": compilers[-1] if compilers else _unstated("compiler"),
        "torch_cxx_flags": _flags(settings["CXX_FLAGS"]) if "CXX_FLAGS" in settings else _unstated("CXX_FLAGS"),
        "torch_blas": f"mkl {mkl[1]}" if mkl and is_mkl else blas or _unstated("BLAS_INFO"),
        "torch_lapack": settings.get("LAPACK_INFO") or _unstated("LAPACK_INFO"),
        "torch_onednn": onednn[1] if onednn else "not built in",
    }


def openmp(config: str, memory_map: str) -> str:
    """Returns the loaded OpenMP libraries and the version that torch was compiled for."""
    libraries = dict.fromkeys(RUNTIME.findall(memory_map))
    version = OPENMP.search(config)
    if not libraries and not version:
        return "not built in"
    return ", ".join([*libraries, *([version[1]] if version else [])])


def _flags(text: str) -> str:
    """Returns the flags that can change the machine code, without warnings and defines."""
    return " ".join(flag for flag in text.split() if not flag.startswith(("-W", "-D")))


def _unstated(name: str) -> str:
    return f"unavailable: torch.__config__ does not state its {name}"
