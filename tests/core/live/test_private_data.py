"""Private data in texts: what is found, what is not taken for it, and at what cost."""

from typing import get_args

import pytest

from support.pumping import cost_is_linear
from tiltyard.core.live.private_data import PrivateDataKind, find_private_data

PRIVATE = (
    ("e-mail", "Write to jane.doe+news@mail.corp-site.co.uk."),
    ("e-mail", "me:a_b%c@firma.de"),
    ("e-mail", "@nobody then bob@site.io"),
    ("e-mail", "<mailto:Anna@Web.De>"),
    ("e-mail", "my address is john@gmail.com, thanks"),
    ("phone", "Call +49 30 901820 now"),
    ("phone", "+1 (415) 555-2671"),
    ("phone", "tel:+442079460958"),
    ("phone", "(415) 555-2671"),
    ("phone", "415-555-2671"),
    ("phone", "Ruf 030 9018-2000 an"),
    ("phone", "Tel. 06 12 34 56 78"),
    ("phone", "020 7946 0958"),
    ("phone", "0171/1234567"),
    ("card", "4111 1111 1111 1111"),
    ("card", "4111-1111-1111-1111 exp 12/27"),
    ("card", "card 5500005555555559"),
    ("card", "2221000000000009"),
    ("card", "378282246310005"),
    ("card", "3782 822463 10005"),
    ("card", "3056 930902 5904"),
    ("card", "6011111111111117"),
    ("card", "6445644564456445"),
    ("card", "3566002020360505"),
    ("card", "6200000000000005"),
    ("key", "OPENAI_API_KEY=sk-proj-a8Fj29dKd02kfPq93kd02kfmZ1"),
    ("key", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
    ("key", "AKIAIOSFODNN7EXAMPL3"),
    ("key", "AIzaSyD4x1k9Zq7Lm3Nv5Bc8Xw2Er6Ty0Ui4Op1"),
    ("key", "xoxb-123456789012-abcdefGHIJ"),
    ("key", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"),
    ("key", "-----BEGIN RSA PRIVATE KEY-----"),
    ("key", "-----BEGIN PRIVATE KEY-----"),
    ("key", "hf_aB3dE5gH7jK9mN1pQ2sT4vW6yZ8bC0dF"),
    ("iban", "DE89 3704 0044 0532 0130 00"),
    ("iban", "IBAN: GB29NWBK60161331926819, BIC NWBKGB2L"),
    ("iban", "FR14 2004 1010 0505 0001 3M02 606"),
    ("iban", "NO93 8601 1117 947 BANK"),
    ("iban", "AT61 1904 3002 3457 3201 BANK AUSTRIA"),
    ("ip-address", "from 93.184.216.34 at noon"),
    ("ip-address", "host 2a00:1450:4001:0831:0000:0000:0000:200e"),
    ("ip-address", "[2606:4700:4700::1001]"),
)  # fmt: skip
HARMLESS = (
    "",
    "@ home @decorator @",
    "user@example.com or you@mail.example.org, root@localhost, x@host.local",
    "npm install react@18.2.0 and left-pad@latest",
    "git clone git@github.com:some/where.git",
    "a@b.c @@ a@.de ..@x.de a@b..de a@-.",
    "x" * 80 + "@" + "long.site.de",
    "2024-01-02 10:30:45, 05/12/2024 10, 05-12-2024 1000, 01.02.2024",
    "The order 1234567890123456 has 42 items; ISBN 978-3-16-148410-0",
    "pi is 3.14159265358979323846, e is 2.718281828459045",
    "4111 1111 1111 1112",
    "4444444444444444 3782822463100051234",
    "1111111111111111 6411111111111111 6111111111111111 9111111111111111",
    "0000 0000 0000 0000 and 4000000000007",
    "sk-learn, sk-your-key-goes-here-please, sk-xxxxxxxxxxxxxxxxxxxxxxxx1, ghp_short",
    "-----BEGIN PUBLIC KEY-----",
    "DE00 3704 0044 0532 0130 00",
    "ZZ89 3704 0044 0532 0130 00",
    "DE89 3704 0044",
    "AB12 CDEF GHIJ is a code",
    "127.0.0.1, 192.168.0.1, 10.0.0.7, 203.0.113.5, 8.8.8.8, 1.2.3.4",
    "version 10.0.19041.1237, v1.22.3.4, 999.1.1.1, 1.2.3.4.5",
    "12:34:56:78:9a:bc, 2001:db8::1, std::vector, 2222:zz",
    "2024:01:02:03:04:05:06:07:08",
    "x = y+12345678; +1 for that; +100 points; 50 + 50; +999999999999999999999",
    "1 2 3 4 5 6 7 8 9 10 11 12 13",
    "phone 110 or 911, room 030 12",
    "0123456789",
    "f(x) = 0.75 12 34",
    "What is the capital of France? It has 2,102,650 inhabitants (2023).",
    "SELECT * FROM users WHERE id = 1234567 AND created > '2023-10-11 12:13:14';",
    "for i in range(1000000): total += i ** 2",
    "The train at 07 15 leaves; price 1 299 000 SEK",
    "UUID 123e4567-e89b-12d3-a456-426614174000",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
)  # fmt: skip


def test_private_data_is_found_and_other_texts_are_not_taken_for_it():
    assert [text for kind, text in PRIVATE if kind not in find_private_data(text)] == []
    assert [text for text in HARMLESS if find_private_data(text)] == []


def test_all_kinds_come_in_a_fixed_order():
    text = " ".join(sample for _, sample in reversed(PRIVATE))
    assert find_private_data(text) == get_args(PrivateDataKind)


LONG = (
    "@",
    "a@",
    "a.",
    "4111 ",
    "0",
    "01 ",
    "+1",
    "+1 ",
    "DE89 ",
    "A1",
    "1.",
    "2a00:",
    "sk-",
    "eyJ",
    "eyJa.",
)


@pytest.mark.parametrize("text", [*LONG, "-", " "])
def test_searching_costs_linear_time(text):
    assert cost_is_linear(find_private_data, lambda size: text * (size // len(text) // 4))
