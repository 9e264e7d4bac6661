"""Firebase's Admin SDK for Python, from PyPI and unchanged, loads our server template and evaluates it as we do."""

import json
import random
import uuid

import firebase_admin
import pytest
from firebase_admin import credentials, remote_config
from google.auth.exceptions import RefreshError
from google.oauth2.credentials import Credentials

from harness.cli import stalecast
from harness.templates import marked

CONTEXTS, TEMPLATES = 1000, 10
SEEDS = ["", "s1", "s.2", "-x_"]
SIGNALS = {
    "plan": ["pro", "Pro", " pro ", "free", "été", "a'b", "new york", "yorkshire"],
    "level": ["10", "-3", "0.5", "+2.50", "5.", "100000", "ten", "1e1", 10, -3, 0.5, 7],
    "build": ["1", "1.2", "1.2.0", "1.10", "2.0.0.1", "01.2", "1.2-beta", "v1", "1.2.", 3],
}
# What is left out, since the SDKs for Python, Node and Go differ from each other there: values 0 and "" (Python: no
# value), versions of more than five segments (Python: any number), blanks around and `_` in numbers (Python reads
# them), infinite numbers, a negative segment after a larger one.


class Token(credentials.Base):
    """Firebase's credential that is nothing but a bearer token."""

    def __init__(self, token):
        self.token = token

    def get_credential(self):
        return Credentials(token=self.token)


@pytest.fixture
def admin():
    """Makes server templates of the SDK, directed to a daemon's Control; its apps are gone after the test."""
    apps = []

    def make(daemon, token=None, **options):
        app = firebase_admin.initialize_app(Token(token or daemon.token), {"projectId": "demo"}, str(uuid.uuid4()))
        apps.append(app)
        server = remote_config.init_server_template(app=app, **options)
        server._rc_service._client._base_url = f"http://127.0.0.1:{daemon.control}"
        return server

    yield make
    for app in apps:
        firebase_admin.delete_app(app)


def quoted(text):
    return "'" + str(text).replace("'", "\\'") + "'"


def listed(source, values):
    return "[" + ", ".join(quoted(source.choice(values)) for _ in range(source.randint(1, 3))) + "]"


def comparison(source):
    return source.choice(["<", "<=", "==", "!=", ">=", ">"])


def percentage(source):
    low, high = sorted(source.choice([0, 0.000001, 12.5, 25, 33.333333, 50, 99.999999, 100]) for _ in range(2))
    seed = source.choice(SEEDS)
    head = f"percent({quoted(seed)})" if seed else "percent"
    return source.choice([f"{head} <= {low:f}", f"{head} > {high:f}", f"{head} between {low:f} and {high:f}"])


def atom(source):
    plan = "app.customSignal['plan']"
    operator = source.choice(["contains", "notContains", "exactlyMatches"])
    return source.choice([
        lambda: source.choice(["true", "false"]),
        lambda: percentage(source),
        lambda: percentage(source),
        lambda: f"{plan}.{operator}({listed(source, SIGNALS['plan'] + ['york', 'p'])})",
        lambda: f"{plan}.matches({listed(source, ['^pro$', '(?i)PRO', 'o{1,2}', '[a-z]+ y', 'é.é', 'r|x'])})",
        lambda: f"app.customSignal['level'] {comparison(source)} {source.choice(['10', '-3', '0.5', '2.5', '0'])}",
        lambda: f"version(app.customSignal['build']) {comparison(source)} "
                f"{quoted(source.choice(['1', '1.2', '1.2.0', '1.10', '2.0.0.1', '3']))}",
    ])()


def random_template(source):
    names = [f"c{number}" for number in range(source.randint(3, 12))]
    conditions = [{"name": name, "expression": " && ".join(atom(source) for _ in range(source.choice([1, 1, 2, 3])))}
                  for name in names]

    def value(text):
        return source.choice([{"value": text}] * 5 + [{"useInAppDefault": True}, {"value": ""}])

    def parameter(key):
        chosen = {name: value(f"{key}-{name}") for name in names if source.random() < 0.5}
        return {"defaultValue": value(key), **({"conditionalValues": chosen} if chosen else {})}

    return {"conditions": conditions, "parameters": {f"p{n}": parameter(f"p{n}") for n in range(6)},
            "parameterGroups": {"group": {"parameters": {f"g{n}": parameter(f"g{n}") for n in range(2)}}}}


def random_context(source):
    """The same context for the SDK and for us; SDKs turn numbers into text."""
    signals = {name: source.choice(values) for name, values in SIGNALS.items() if source.random() < 0.85}
    theirs, ours = dict(signals), {"customSignals": {name: str(value) for name, value in signals.items()}}
    if source.random() < 0.95:
        theirs["randomization_id"] = ours["appInstanceId"] = source.choice(["é", "😀", "u-"]) + str(source.random())
    return theirs, ours


def remote_values(config, template):
    """What the SDK gives from the server, as {key: text}."""
    keys = [*template["parameters"], *template["parameterGroups"]["group"]["parameters"]]
    return {key: config.get_string(key) for key in keys if config.get_value_source(key) == "remote"}


async def test_the_admin_sdk_evaluates_as_we_do(launch, admin, tmp_path):
    daemon, source, outcomes = launch(), random.Random(1), set()
    client, server = daemon.client(namespace="firebase-server"), admin(daemon)
    template_path, contexts_path = tmp_path / "template.json", tmp_path / "contexts.jsonl"
    for number in range(TEMPLATES):
        template = random_template(source)
        version = await client.publish(template)
        await server.load()
        assert json.loads(server.to_json())["version"]["versionNumber"] == str(version)
        pairs = [random_context(source) for _ in range(CONTEXTS // TEMPLATES)]
        template_path.write_text(json.dumps(template))
        contexts_path.write_text("".join(json.dumps(ours) + "\n" for _, ours in pairs))
        results = stalecast("evaluate", "--namespace", "firebase-server", "--template", template_path,
                            "--contexts", contexts_path).splitlines()
        assert len(results) == len(pairs)
        for (context, _), line in zip(pairs, results):
            ours, theirs = json.loads(line)["entries"], remote_values(server.evaluate(context), template)
            assert theirs == ours, f"template {number}, {context}:\n{template['conditions']}\n{line}"
            outcomes.add((number, *sorted(ours.items())))
    assert len(outcomes) > 10 * TEMPLATES, "the contexts make a difference"


async def test_the_admin_sdk_reads_types_sources_and_its_own_defaults(launch, admin):
    daemon = launch()
    values = {"text": "Zoë", "yes": "On", "number": "12", "share": "0.25"}
    parameters = {key: {"defaultValue": {"value": value}} for key, value in values.items()}
    parameters["mine"] = {"defaultValue": {"useInAppDefault": True}}
    await daemon.client(namespace="firebase-server").publish({"parameters": parameters})
    server = admin(daemon, default_config={"mine": "in-app", "text": "hidden"})
    await server.load()
    config = server.evaluate({})
    assert config.get_string("text") == "Zoë" and config.get_boolean("yes") is True
    assert config.get_int("number") == 12 and config.get_float("share") == 0.25
    assert config.get_string("mine") == "in-app" and config.get_string("none") == ""
    sources = [config.get_value_source(key) for key in ("text", "mine", "none")]
    assert sources == ["remote", "default", "static"]


async def test_a_load_after_a_publish_is_never_older(launch, admin):
    daemon = launch()
    client, server = daemon.client(namespace="firebase-server"), admin(daemon)
    for number in range(20):
        await client.publish({"parameters": {"n": {"defaultValue": {"value": str(number)}}}})
        await server.load()
        assert server.evaluate({}).get_int("n") == number


async def test_the_admin_sdk_sees_the_newest_version_of_a_staged_release(launch, admin):
    """It asks Control, as operators do: stages are for the clients of Edge."""
    daemon = launch()
    client, server = daemon.client(namespace="firebase-server"), admin(daemon)

    async def seen():
        await server.load()
        return json.loads(server.to_json())["version"]["versionNumber"], server.evaluate({}).get_string("welcome_text")
    await client.publish(marked("one"))
    answer = await client.put(marked("two"), query="?release=staged&stages=1%25,100%25&every=0s")
    assert answer.header("x-stalecast-release") == "RAMPING; percent=1"
    assert await seen() == ("2", "two")
    path = "/v1/projects/demo/namespaces/firebase-server/remoteConfig/release:rollback"
    assert (await client.call("POST", path, b"{}")).status == 200
    assert await seen() == ("3", "one")


async def test_a_wrong_token_is_refused(launch, admin):
    with pytest.raises(RefreshError):  # what google-auth makes of 401 for a token that cannot be renewed
        await admin(launch(), token="wrong").load()
