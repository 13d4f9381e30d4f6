"""The kept files of every parser, which fuzzing found or starts from: none does harm."""

from fuzzer import CORPUS, fuzz, seeds_of
from limited_runs import parser_server
from parsers import PARSERS


def test_every_parser_has_a_corpus_and_every_corpus_a_parser():
    assert {path.name for path in CORPUS.iterdir()} == set(PARSERS)
    for parser in PARSERS:
        assert seeds_of(parser), f"{parser} has no seed"
        assert all(path.stat().st_size <= 1 << 16 for path in seeds_of(parser)), "keep small files only"


def test_the_corpus_does_no_harm_and_a_few_changed_files_do_none():
    with parser_server() as server:
        results = [one for parser in PARSERS for one in server.run(parser, seeds_of(parser), seconds=4.0)]
        assert not [one for one in results if not one.is_harmless]
        assert sum(one.ending == "read" for one in results) > len(PARSERS) // 2
        runs = [fuzz(server, parser, 0.0, 7) for parser in ("image", "audio", "run-manifest")]
    assert not [run for run in runs if run.found]
