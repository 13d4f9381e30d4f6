"""How messages spell options."""

import pytest

from tiltyard.foundation.option_names import command_line_spelling, option_name


@pytest.mark.parametrize(
    ("option", "python", "command_line"),
    [
        (("max_share",), "max_share=", "--max-share"),
        (("by", "turn"), "by='turn'", "--by turn"),
        (("by", ["turn", "language"]), "by=['turn', 'language']", "--by turn --by language"),
        (("skip_invalid", True), "skip_invalid=True", "--skip-invalid"),
        (
            ("columns", {"model_a": "left", "winner": "…"}),
            "columns={'model_a': 'left', 'winner': '…'}",
            "--columns model_a=left,winner=…",
        ),
    ],
)
def test_an_option_is_spelled_as_its_caller_writes_it(option, python, command_line):
    assert option_name(*option) == python
    with command_line_spelling():
        assert option_name(*option) == command_line
    assert option_name(*option) == python


def test_the_spelling_ends_with_the_command():
    with pytest.raises(RuntimeError), command_line_spelling():
        raise RuntimeError
    assert option_name("by") == "by="
