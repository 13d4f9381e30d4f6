"""Folds and boards give the same bits whatever the processor, the linear algebra library and the number of threads are.

Libraries choose among variants for the processor when they are loaded. Environment variables make them choose as on
older ones, so that each child process computes as another machine would.
"""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tiltyard.core
from support import TESTS
from support.folded_log import digests

SCRIPT = TESTS / "support/folded_log.py"
#: Models and matchups: with 60 models the online ratings are refitted after 300 and 600 votes.
SIZES = ((5, 600), (60, 800))
#: What the tests themselves run with must not count.
VARIABLES = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NPY_DISABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
)


def environments():
    for core in ("Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX"):
        yield f"blas-{core}", {"OPENBLAS_CORETYPE": core}
    for threads in ("1", "4"):
        yield f"threads-{threads}", {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    for count in range(1, len(found) + 1):
        yield f"numpy-without-{count}", {"NPY_DISABLE_CPU_FEATURES": " ".join(found[-count:])}
    for features in ("-AVX512F", "-AVX2,-FMA,-FMA4,-AVX512F", "-AVX,-AVX2,-FMA,-FMA4,-AVX512F"):
        yield f"glibc{features}", {"GLIBC_TUNABLES": f"glibc.cpu.hwcaps={features}"}
    old = {
        "OPENBLAS_CORETYPE": "Prescott",
        "OPENBLAS_NUM_THREADS": "3",
        "NPY_DISABLE_CPU_FEATURES": " ".join(found),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",
    }
    yield "an-old-machine", old


ENVIRONMENTS = dict(environments())


@cache
def digests_here():
    return [digest for size in SIZES for digest in digests(*size)]


def digests_in(variables):
    """The digests of a process that is started with these variables."""
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables
    said = subprocess.run(
        [sys.executable, SCRIPT, *(str(number) for size in SIZES for number in size)],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    return said.stdout.split()


@pytest.mark.slow(but=("blas-Haswell", "an-old-machine"))
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_folds_and_publishes_the_same_bits(name):
    assert digests_in(ENVIRONMENTS[name]) == digests_here()


def test_the_variables_change_what_libraries_compute():
    """Otherwise the test above would prove nothing: a matrix product differs between two of these processors."""
    program = (
        "import hashlib, numpy as np; x = np.sin(np.arange(160.0 * 160)).reshape(160, 160); "
        "print(hashlib.sha256((x @ x).tobytes()).hexdigest())"
    )
    found = set()
    for core in ("Prescott", "Haswell"):
        environ = os.environ | {"OPENBLAS_CORETYPE": core}
        found.add(
            subprocess.run(
                [sys.executable, "-c", program], env=environ, check=True, capture_output=True, text=True
            ).stdout
        )
    assert len(found) == 2


#: Modules that folds are made of, and what each may not use.
FOLDING = (
    "ratings/kernels/exponential.py",
    "ratings/kernels/glicko2.py",
    "ratings/index_sums.py",
    "ratings/online_bradley_terry.py",
    "ratings/portable_functions.py",
    "policy/state/exposure_window.py",
    "policy/state/pair_counts.py",
    "policy/state/prompt_cells.py",
    "policy/state/rating_fold.py",
    "policy/state/session_memory.py",
    "policy/state/standing.py",
    "policy/state/vote_log.py",
    "policy/validity/arena_fold.py",
    "policy/validity/evaluation.py",
    "policy/validity/pair_floors.py",
    "policy/validity/publication.py",
    "policy/validity/vote_forecast.py",
)
FORBIDDEN = {
    *("dot", "einsum", "expm1", "inner", "linalg", "log1p"),
    *("log10", "log2", "matmul", "mean()", "pow", "power"),
} | {f"{module}.{name}" for module in ("math", "np") for name in ("exp", "log", "tanh", "cos", "sin")}


def test_folds_use_no_library_function_whose_last_bit_varies():
    for path in FOLDING:
        assert not names_in(Path(tiltyard.core.__file__).parent / path) & FORBIDDEN, path


def names_in(path):
    tree = ast.parse(path.read_text())
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used |= {node.attr, f"{getattr(node.value, 'id', '')}.{node.attr}"}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            used.add(f"{node.func.attr}()")
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult | ast.Pow):
            used.add("pow" if isinstance(node.op, ast.Pow) else "matmul")
        elif isinstance(node, ast.ImportFrom):
            used |= set((node.module or "").split("."))
    return used
