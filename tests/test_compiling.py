import pytest

from tiltyard import compiling
from tiltyard.compiling import chosen_kernel, compiled
from tiltyard.errors import BadOption, MissingExtra


def test_work_decides_unless_the_kernel_is_named():
    assert chosen_kernel("auto", 10) == "plain"
    assert chosen_kernel("auto", 10**9) == "compiled"
    assert chosen_kernel("plain", 10**9) == "plain"
    assert chosen_kernel("compiled", 10) == "compiled"


def test_without_the_compiler_plain_it_is(monkeypatch):
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    assert chosen_kernel("auto", 10**9) == "plain"
    with pytest.raises(
        MissingExtra, match=r"The compiled kernel needs an extra: pip install 'tiltyard\[fast\]'"
    ):
        chosen_kernel("compiled", 10)


def test_other_kernels_are_unknown():
    with pytest.raises(BadOption, match="expected auto, plain or compiled"):
        chosen_kernel("gpu", 10)


def test_a_loop_is_compiled_once():
    def twice(x):
        return 2 * x

    assert compiled(twice) is compiled(twice)
    assert compiled(twice)(21) == 42
