"""What agents read first: llms.txt and the skill. The skill's examples run with those of the other pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "docs" / "skills" / "tiltyard" / "SKILL.md"
RAW = "https://raw.githubusercontent.com/tiltyard/tiltyard/main/"


def test_every_page_that_agents_are_sent_to_exists():
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    targets = re.findall(r"^- \[.*?\]\((.*?)\): \w", text, re.MULTILINE)
    assert len(targets) > 20
    assert [one for one in targets if not (ROOT / one.removeprefix(RAW)).is_file()] == []
    assert text.startswith("# Tiltyard\n\n> ")


def test_the_skill_says_what_it_is_for():
    head = yaml.safe_load(SKILL.read_text(encoding="utf-8").split("---\n")[1])
    assert head["name"] == SKILL.parent.name
    assert 100 < len(head["description"]) < 1024


@pytest.mark.slow
def test_the_method_note_has_two_pages(tmp_path):
    note = tmp_path / "note.pdf"
    subprocess.run([sys.executable, ROOT / "tools" / "method_note.py", note], check=True)
    assert len(re.findall(rb"/Type\s*/Page\b", note.read_bytes())) == 2
