"""How the server listens: options, variables, defaults, and what is refused."""

import pytest

from tiltyard.errors import BadOption
from tiltyard.settings.serving_settings import ServingSettings, read_serving
from tiltyard.web.server.startup import listening_socket


def test_nothing_said_is_this_machine_alone():
    settings = read_serving({})
    assert (settings.host, settings.port, settings.role, settings.workers) == ("127.0.0.1", 8420, "all", 1)
    assert settings.trusted_proxies == ()
    assert not settings.secure
    assert settings.address() == "http://127.0.0.1:8420"


def test_options_go_before_variables_and_variables_before_defaults():
    variables = {"TILTYARD_PORT": "9001", "TILTYARD_WORKERS": " 3 ", "TILTYARD_LOG_REQUESTS": "yes"}
    settings = read_serving(variables, port=9002, workers=None)
    assert (settings.port, settings.workers, settings.log_requests) == (9002, 3, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "arena.example.org", ""])
def test_a_public_bind_needs_a_base_url(host):
    with pytest.raises(BadOption) as caught:
        ServingSettings(host=host)
    assert caught.value.option == "base_url"
    assert ServingSettings(host=host, base_url="https://arena.example.org").secure
    assert ServingSettings(host=host, role="rater").role == "rater"


def test_a_public_bind_needs_a_proxy_or_a_word_of_its_own():
    """Cookies and passwords must not cross a network unencrypted because nobody thought of it."""
    lan = {"host": "0.0.0.0", "base_url": "http://192.168.1.7:8420"}
    with pytest.raises(BadOption) as caught:
        ServingSettings(**lan)
    assert caught.value.option == "plain_http"
    for more in (
        {"plain_http": True},
        {"trusted_proxies": ("192.168.1.2",)},
        {"base_url": "https://arena.example.org"},
        {"host": "127.0.0.1"},
        {"role": "rater"},
    ):
        assert ServingSettings(**{**lan, **more}).base_url


@pytest.mark.parametrize(
    "stated",
    [
        {"base_url": "https://a.example"},
        {"base_url": "http://a.example", "host": "0.0.0.0", "plain_http": True},
        {"base_url": "https://arena.lan"},
    ],
)
def test_strangers_are_served_behind_a_proxy_or_after_a_word(stated):
    with pytest.raises(BadOption) as caught:
        ServingSettings(**stated).check_proxy()
    assert caught.value.option == "trusted_proxies"
    for proxies in ("10.0.0.1",), ("none",):
        ServingSettings(**stated, trusted_proxies=proxies).check_proxy()
    ServingSettings(**stated, role="rater").check_proxy()


def test_no_proxy_encrypts_nothing():
    for scheme in "http", "https":
        open_to_all = {"host": "0.0.0.0", "base_url": f"{scheme}://a.example", "trusted_proxies": ("none",)}
        with pytest.raises(BadOption) as caught:
            ServingSettings(**open_to_all)
        assert caught.value.option == "plain_http"
        assert ServingSettings(**open_to_all, plain_http=True).base_url
    assert not ServingSettings(trusted_proxies=("none",)).has_proxy
    for private in None, "http://192.168.1.7:8420", "http://localhost:8420":
        ServingSettings(base_url=private).check_proxy()


def test_quotas_of_arenas_have_defaults_and_can_be_turned_off():
    assert ServingSettings().hour_quotas() == {"reports": 1_000, "remarks": 20_000, "uploads": 200}
    assert ServingSettings(arena_quotas="remarks=5, uploads=0").hour_quotas() == {
        "reports": 1_000,
        "remarks": 5,
    }
    assert ServingSettings(arena_quotas="none").hour_quotas() == {}
    with pytest.raises(BadOption) as caught:
        ServingSettings(arena_quotas="votes=5")
    assert caught.value.option == "arena_quotas"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_a_bind_to_this_machine_needs_none(host):
    assert ServingSettings(host=host).base_url is None


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("TILTYARD_PORT", "http"),
        ("TILTYARD_PORT", "70000"),
        ("TILTYARD_METRICS_PORT", "-1"),
        ("TILTYARD_WORKERS", "0"),
        ("TILTYARD_NEW_SESSIONS_PER_MINUTE", "-1"),
        ("TILTYARD_NEW_SESSIONS_PER_MINUTE", "many"),
        ("TILTYARD_CONNECTIONS", "3"),
        ("TILTYARD_CONNECTIONS", "few"),
        ("TILTYARD_ROLE", "judge"),
        ("TILTYARD_SECOND_FACTOR", "owner, moderator"),
        ("TILTYARD_SESSION_LIMITS", "votes=many"),
        ("TILTYARD_SHARD", "-1"),
        ("TILTYARD_SHARD", "4096"),
        ("TILTYARD_SHARD", "two"),
        ("TILTYARD_LOG_REQUESTS", "perhaps"),
        ("TILTYARD_TRUSTED_PROXIES", "10.0.0.0/8, proxy"),
        ("TILTYARD_TRUSTED_PROXIES", "0.0.0.0/0"),
        ("TILTYARD_TRUSTED_PROXIES", "none, 10.0.0.7"),
        ("TILTYARD_BASE_URL", "arena.example.org"),
        ("TILTYARD_BASE_URL", "https://a.example/path"),
        ("TILTYARD_BASE_URL", "https://a.example:port"),
        ("TILTYARD_BASE_URL", "ftp://a.example"),
    ],
)
def test_nonsense_is_refused_by_name(variable, text):
    with pytest.raises(BadOption) as caught:
        read_serving({variable: text})
    assert caught.value.option in {variable, variable.removeprefix("TILTYARD_").lower()}


def test_an_unknown_option_and_a_password_in_the_address_are_refused():
    with pytest.raises(BadOption):
        read_serving({}, colour="red")
    with pytest.raises(BadOption) as caught:
        read_serving({"TILTYARD_BASE_URL": "https://ada:hunter2@a.example"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "public"),
    [
        (None, False),
        ("https://arena.example.org", True),
        ("https://8.8.8.8:8443", True),
        ("http://127.0.0.1:8420", False),
        ("http://[::1]:8420", False),
        ("http://192.168.1.7", False),
        ("http://localhost:8420", False),
        ("http://lab", False),
        ("https://arena.internal", False),
        ("https://printer.local.", False),
    ],
)
def test_a_public_address_is_not_that_of_a_machine_or_a_local_network(base_url, public):
    assert ServingSettings(base_url=base_url).has_public_address is public


def test_an_origin_is_what_browsers_send():
    assert ServingSettings(base_url="https://Arena.Example:8443").origin == "https://arena.example:8443"
    assert ServingSettings().origin is None
    assert ServingSettings(host="::1").address() == "http://[::1]:8420"


@pytest.mark.parametrize(
    "host", ["999.1.1.1", "1.2.3.4.5", "127.0.0.1:8000", "http://localhost", "::g", "a b"]
)
def test_what_is_no_address_is_refused_as_such_and_not_as_an_open_one(host):
    with pytest.raises(BadOption) as caught:
        ServingSettings(host=host)
    assert caught.value.option == "host"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.1", "arena.example.org", "::"]
)
def test_addresses_and_names_are_left_to_the_machine(host):
    assert ServingSettings(host=host, base_url="https://arena.example.org").host == host


def test_an_address_of_another_machine_is_not_blamed_on_the_port():
    settings = ServingSettings(host="192.0.2.1", port=0, base_url="https://arena.example.org")
    with pytest.raises(BadOption, match=r"192\.0\.2\.1"):
        listening_socket(settings)
