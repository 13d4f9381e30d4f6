import pytest

from tiltyard.errors import BadOption, MissingExtra
from tiltyard.foundation import compiled_kernels
from tiltyard.foundation.compiled_kernels import choose_kernel, compile_kernel


def test_work_decides_unless_a_known_kernel_is_named():
    assert choose_kernel("auto", 10) == "plain"
    assert choose_kernel("auto", 10**9) == "compiled"
    assert choose_kernel("plain", 10**9) == "plain"
    assert choose_kernel("compiled", 10) == "compiled"
    with pytest.raises(BadOption, match="auto, plain"):
        choose_kernel("gpu", 10)


def test_without_the_compiler_plain_it_is(monkeypatch):
    monkeypatch.setattr(compiled_kernels, "find_spec", lambda _: None)
    assert choose_kernel("auto", 10**9) == "plain"
    with pytest.raises(MissingExtra, match=r"tiltyard\[fast\]"):
        choose_kernel("compiled", 10)


@pytest.mark.slow
def test_a_loop_is_compiled_once():
    def twice(x):
        return 2 * x

    assert compile_kernel(twice) is compile_kernel(twice)
    assert compile_kernel(twice)(21) == 42
