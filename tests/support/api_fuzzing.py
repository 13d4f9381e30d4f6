"""Generated requests to every operation of the API, by every kind of visitor.

A module of its own because schemathesis takes seconds to load: only the tests that use it import it.
"""

from collections import Counter

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests.adapters import HTTPAdapter
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from urllib3.util import Retry

from support.plausible import BODIES, QUERIES
from support.role_operators import sign_in_with_role
from support.visitors import ROLES
from support.voted_arenas import rate
from tiltyard.arena.accounts import OPERATOR_ROLES

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
#: Who comes more often than the others, because it is for them.
REGULARS = {
    "voters": ["voter", "judge"],
    "operators": ["admin", "operator"],
}
#: Signed-in operators of each role, for the installation and in one arena.
OPERATORS = {
    f"{role} of {arena or 'all'}": (role, arena) for role in OPERATOR_ROLES for arena in (None, "arena")
}
MATCHUPS = "/api/v1/arenas/arena/matchups"


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    return str(value).encode("utf-8", "replace")


class Fuzzing:
    """Generated requests to one server, and their results."""

    def __init__(self, found):
        self.found = found
        self.sessions = {role: _session(found.clients[role]) for role in ROLES}
        self.sessions |= {name: self.signed_in(name) for name in OPERATORS}
        #: By operation and status.
        self.seen = Counter()
        #: By role.
        self.asked = Counter()
        self.failures = []
        #: Matchups that each role has voted on.
        self.voted = {role: [] for role in self.sessions}

    def run(self, operation, examples):
        """So many requests to one operation."""
        modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
        (tag, *_) = operation.definition.raw["tags"]
        roles = [*ROLES, *OPERATORS, *REGULARS.get(tag, ()) * 6]
        drawn = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=drawn, data=st.data(), role=st.sampled_from(roles))
        def ask(case, data, role):
            self.put_sense_into(case, operation.label, role, data)
            self.send(case, operation.label, role)

        ask()

    def put_sense_into(self, case, label, role, data):
        """Most of what is generated leads nowhere: let some of it lead somewhere."""
        if role != "nobody":
            case.cookies = {}
            case.headers.pop("authorization", None)
        for name in case.path_parameters:
            known = self.matchups(role, label) if name == "matchup" else self.found.known[name]
            pick = data.draw(st.integers(0, 74))
            if pick % 5:
                case.path_parameters[name] = known[pick // 5 % len(known)]
        for name, values in QUERIES.get(label, {}).items():
            if data.draw(st.integers(0, 3)):
                case.query = {**(case.query or {}), name: data.draw(values)}
        if label in BODIES and data.draw(st.integers(0, 2)):
            case.body = data.draw(BODIES[label])

    def matchups(self, role, label):
        """One that a visitor has before it, those that it voted on last, and one that never was."""
        session, url = self.sessions[role], self.found.site.url
        answer = session.post(url + MATCHUPS)
        opened = [answer.json()["matchup"]] * 2 if answer.ok else []
        if opened and label.endswith(("/remark", "/undo")):
            session.post(f"{url}/api/v1/matchups/{opened[0]}/vote", json={"winner": "tie"})
        return [*opened, *self.voted[role][-2:], "0-" + "A" * 32]

    def send(self, case, label, role):
        session = self.sessions[role]
        try:
            response = case.call(base_url=self.found.site.url, session=session, timeout=60)
        except requests.exceptions.InvalidHeader:
            return
        self.seen[label, response.status_code] += 1
        self.asked[role] += 1
        if label.endswith("/vote") and response.status_code == 200:
            self.voted[role].append(case.path_parameters["matchup"])
        try:
            case.validate_response(response, checks=CHECKS)
        except Exception as error:
            self.failures.append(f"{role}: {label}: {error}")
        if role == "nobody":
            session.cookies.clear()

    def signed_in(self, name):
        role, arena = OPERATORS[name]
        return _session(sign_in_with_role(self.found.site, name, role, arena))


def _session(client):
    made = requests.Session()
    made.trust_env = False
    # The server closes connections that idle, and may do so while a request is on its way: that one is sent again, once.
    again = Retry(
        total=1,
        connect=0,
        read=1,
        redirect=0,
        status=0,
        other=0,
        allowed_methods=None,
        respect_retry_after_header=False,
    )
    made.mount("http://", HTTPAdapter(max_retries=again))
    if "authorization" in client.headers:
        made.headers["authorization"] = client.headers["authorization"]
    for cookie in client.cookies.jar:
        made.cookies.set(cookie.name, cookie.value)
    return made


def fuzzed(found, examples, only="", every=1):
    """All operations in turn, or one of so many, or those whose name has these letters."""
    document = found.clients["nobody"].get("/api/v1/openapi.json").json()
    fuzzing = Fuzzing(found)
    for result in list(schemathesis.openapi.from_dict(document).get_all_operations())[::every]:
        if only in result.ok().label:
            fuzzing.run(result.ok(), examples)
    rate(found.site.database)
    return fuzzing


def check(fuzzing, least):
    assert not fuzzing.failures, "\n\n".join(fuzzing.failures[:5])
    assert not [status for _, status in fuzzing.seen if status >= 500]
    assert fuzzing.seen.total() >= least
    assert set(fuzzing.asked) == {*ROLES, *OPERATORS}, "every role must ask"
    reached = {label for label, status in fuzzing.seen if status < 400}
    return {label for label, _ in fuzzing.seen} - reached
