"""Which files of a dataset an address means."""

import pytest

from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.hub_files import DatasetAddress, choose_files

PLACE = "hf://datasets/o/n"
TRAIN = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]
TEST = ["data/test-00000-of-00001.parquet"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf://datasets/o/n", DatasetAddress("o/n", None, "")),
        ("hf://datasets/o/n/", DatasetAddress("o/n", None, "")),
        ("hf://datasets/o/n@v1.0", DatasetAddress("o/n", "v1.0", "")),
        ("hf://datasets/o/n@v1/data/a.csv", DatasetAddress("o/n", "v1", "data/a.csv")),
        ("hf://datasets/o/n/data/a@b.csv", DatasetAddress("o/n", None, "data/a@b.csv")),
        ("hf://datasets/o/n@a%2Fb/x.csv", DatasetAddress("o/n", "a/b", "x.csv")),
        ("hf://datasets/o/n@refs/pr/3/x.csv", DatasetAddress("o/n", "refs/pr/3", "x.csv")),
        (
            "hf://datasets/o/n@refs/convert/parquet/default/train/*.parquet",
            DatasetAddress("o/n", "refs/convert/parquet", "default/train/*.parquet"),
        ),
    ],
)
def test_an_address_has_parts(text, expected):
    assert DatasetAddress.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "hf://",
        "hf://o/n",
        "hf://models/o/n",
        "hf://spaces/o/n",
        "hf://datasets",
        "hf://datasets/o",
        "hf://datasets/o/@main",
        "hf://datasets/o/n@",
        "hf://datasets/o/n//x.csv",
        "hf://datasets/o/n/../x.csv",
    ],
)
def test_other_addresses_are_refused(text):
    with pytest.raises(BadOption, match="hf://datasets/OWNER/NAME"):
        DatasetAddress.parse(text)


@pytest.mark.parametrize(
    ("names", "path", "chosen"),
    [
        (["README.md", *TRAIN], "", TRAIN),
        ([*TRAIN, "extra/other.parquet"], "", TRAIN),
        (["train.parquet", "x.csv"], "", ["train.parquet"]),
        (["0000.parquet", "0001.parquet"], "", ["0000.parquet", "0001.parquet"]),
        (["a/train-00000-of-00001-0123456789abcdef.parquet"], "", ["a/train-00000-of-00001-0123456789abcdef.parquet"]),
        (["a.csv", "b.jsonl"], "", []),
        ([*TRAIN, *TEST], TRAIN[0], [TRAIN[0]]),
        ([*TRAIN, *TEST], "data/train-*.parquet", TRAIN),
        ([*TRAIN, *TEST], "data/*", [*TEST, *TRAIN]),
        ([*TRAIN, *TEST], "**/*.parquet", [*TEST, *TRAIN]),
        ([*TRAIN, "other/x.parquet"], "other", ["other/x.parquet"]),
        (["a[1].csv", "a1.csv"], "a[1].csv", ["a[1].csv"]),
        (["a/b/x.csv", "a/x.csv"], "a/*.csv", ["a/x.csv"]),
    ],
)  # fmt: skip
def test_a_path_means_files(names, path, chosen):
    assert choose_files(PLACE, names, path) == chosen


@pytest.mark.parametrize(
    ("names", "path", "said"),
    [
        ([*TRAIN, *TEST], "", f"2 splits or subsets, which may not belong together; name one: '{PLACE}/data/test-*.parquet' or '{PLACE}/data/train-*.parquet'"),
        ([*TRAIN, *TEST], "data", "2 splits"),
        (["en/train/0000.parquet", "de/train/0000.parquet"], "", f"'{PLACE}/de/train/*.parquet' or '{PLACE}/en/train/*.parquet'"),
        ([f"{k}/train.parquet" for k in range(12)], "", "(or 2 more)"),
        (["default/partial-train/0000.parquet"], "", "only the beginning"),
        (["a.csv", ".gitattributes", "b.png"], "c.csv", f"{PLACE}/c.csv: no such file or folder; the dataset has a.csv"),
        (["a.csv"], "*.parquet", "no file matches; the dataset has a.csv"),
        (["b/a.csv"], "b", "no Parquet files in this folder; the dataset has b/a.csv"),
        (["b.png"], "b.csv", "no files of data that can be read"),
        ([f"{k:02}.csv" for k in range(12)], "x", "09.csv and 2 more"),
    ],
)  # fmt: skip
def test_what_is_unclear_is_refused_with_what_to_name(names, path, said):
    with pytest.raises(UnreadableFile) as caught:
        choose_files(PLACE, names, path)
    assert said in str(caught.value)
