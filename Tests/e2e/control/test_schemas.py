"""JSON Schemas of parameters: Python's `jsonschema` as a second opinion, and every way to publish."""

import asyncio
import importlib
import json
import random

import pytest

from harness.cli import REFUSED, USAGE, Cli
from harness.http1 import fetch
from harness.sources import fed, file_feed, problem, version
from harness.templates import template

CONDITION = {"name": "JSON Schema", "expression": "false"}
SCHEMA = {"type": "object", "properties": {"rows": {"type": "integer", "maximum": 50}}, "additionalProperties": False}
PAIRS = 3000
NAMES = ["a", "b", "c", "é", "a/b", "~"]
TYPES = ["null", "boolean", "object", "array", "number", "integer", "string"]


def screens(value, schema=SCHEMA, **conditional):
    conditional = {name: {"value": json.dumps(value)} for name, value in conditional.items()}
    if schema is not None:
        conditional["JSON Schema"] = {"value": json.dumps(schema)}
    return template(
        {"screens": {"valueType": "JSON", "defaultValue": {"value": json.dumps(value)}, "conditionalValues": conditional}},
        conditions=[{"name": "ios", "expression": "device.os == 'ios'"}, CONDITION])


class Making:
    """Schemas of the documented keywords, and values that some of them allow."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, depth=0):
        kind = self.random.randrange(8 if depth < 3 else 6)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if kind == 7:
            return {self.random.choice(NAMES): self.value(depth + 1) for _ in range(self.random.randrange(4))}
        return self.random.choice([
            [None], [True, False], [0, 1, 2, 3, 10, -1, 1.5, 2.0, 0.5, 100, -2.25], [0, 1, -7, 12, 3.0],
            ["", "a", "ab", "é", "e\u0301", "😀b"], ["10", "aaaa", "abc"]][kind])

    def schema(self, definitions, depth=0):
        pick, some = self.random.choice, self.random.randrange
        if depth > 2 or self.random.random() < 0.1:
            if definitions and self.random.random() < 0.3:
                return {"$ref": f"#/$defs/{pick(definitions)}"}
            return pick([True, False, {}, {"type": "string"}, {"type": ["integer", "null"]}, {"const": self.value(2)}])
        part = lambda: self.schema(definitions, depth + 1)
        keywords = [
            lambda: {"type": self.random.sample(TYPES, some(1, 4))}, lambda: {"type": pick(TYPES)},
            lambda: {"enum": [self.value(1) for _ in range(some(1, 5))]}, lambda: {"const": self.value(1)},
            lambda: {pick(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]): pick([0, 1, 2, 1.5, -1, 10])},
            lambda: {"multipleOf": pick([1, 2, 0.5, 3, 0.25])}, lambda: {pick(["minLength", "maxLength"]): some(4)},
            lambda: {pick(["minItems", "maxItems", "minProperties", "maxProperties"]): some(4)},
            lambda: {"pattern": pick(["^a", "b$", "[0-9]+", "^(a|b)*$", "^.{2}$", "a{2,3}"])},
            lambda: {"items": part()}, lambda: {"prefixItems": [part() for _ in range(some(1, 3))]},
            lambda: {"uniqueItems": pick([True, False])},
            lambda: {"properties": {pick(NAMES): part() for _ in range(some(3))}},
            lambda: {"additionalProperties": part()}, lambda: {"patternProperties": {pick(["^a", "b", "."]): part()}},
            lambda: {"required": self.random.sample(NAMES, some(3))}, lambda: {"propertyNames": part()},
            lambda: {pick(["allOf", "anyOf", "oneOf"]): [part() for _ in range(some(1, 4))]}, lambda: {"not": part()},
            lambda: {"if": part(), **({"then": part()} if some(2) else {}), **({"else": part()} if some(2) else {})},
            lambda: {"format": "date", "x-note": 1},
        ]
        schema = {}
        for _ in range(some(1, 4)):
            schema.update(pick(keywords)())
        return schema

    def pair(self):
        definitions = ["x", "y"] if self.random.random() < 0.3 else []
        schema = {"allOf": [self.schema(definitions)]}
        if definitions:
            schema["$defs"] = {name: self.schema(definitions, 1) for name in definitions}
        return schema, self.value()


@pytest.fixture
def daemon(launch):
    return launch()


async def test_three_thousand_pairs_are_judged_as_another_validator_judges_them(daemon):
    """Within `validateOnly`, so that nothing is published; a value that is refused says so and nothing else."""
    # Every process that collects tests would take two seconds to load it.
    validator = importlib.import_module("jsonschema").Draft202012Validator
    making, counts = Making(29), {True: 0, False: 0}
    pairs = [making.pair() for _ in range(PAIRS)]

    async def check(part):
        client = daemon.client()
        for schema, value in part:
            answer = await client.put(screens(value, schema), query="?validateOnly=true")
            try:
                expected = validator(schema).is_valid(value)
            except RecursionError:
                said = answer.json()["error"]["message"]
                assert "128 levels deep" in said or "takes too long" in said, (schema, value)
                continue
            counts[expected] += 1
            assert (answer.status == 200) == expected, (schema, value, answer.body)
            assert expected or "breaks its JSON Schema" in answer.json()["error"]["message"], (schema, value)
        client.close()

    await asyncio.gather(*(check(pairs[start::4]) for start in range(4)))
    assert min(counts.values()) > PAIRS / 4


async def test_the_api_names_parameter_place_and_reason(daemon):
    before = (await daemon.client().get()).json().get("version")
    for query in ("", "?validateOnly=true", "?propose=true"):
        answer = await daemon.client().put(screens({"rows": 5}, ios={"rows": 51}), query=query)
        assert answer.status == 400
        violation = answer.json()["error"]["details"][0]["fieldViolations"][0]
        assert violation["field"] == "parameters.screens.conditionalValues.ios"
        assert "breaks its JSON Schema at /rows: 51 breaks maximum 50" in violation["description"]
    bad = await daemon.client().put(screens({}, {"items": {"typ": "string"}}))
    assert bad.status == 400 and 'at /items: \\"typ\\" is no keyword' in bad.body.decode()
    assert (await daemon.client().get()).json().get("version") == before


async def test_no_client_gets_a_schema_and_it_is_in_every_version(daemon):
    first = await daemon.publish(screens({"rows": 5}))
    body = json.dumps({"appId": "1:2:web:3", "appInstanceId": "cAbCdEfGhIjKlMnOpQrStU", "appInstanceIdToken": "t"}).encode()
    answer = await fetch(daemon.edge, "/v1/projects/demo/namespaces/firebase:fetch", "POST", [], body)
    assert answer.json()["entries"] == {"screens": '{"rows": 5}'}
    await daemon.publish(screens({"rows": 500}, None))
    await daemon.client().rollback(first)
    answer = await daemon.client().put(screens({"rows": 51}))
    assert answer.status == 400
    # What a tool reads, changes and writes back is judged by the schema that it knows nothing of.
    read = (await daemon.client().get()).json()
    read["parameters"]["screens"]["defaultValue"]["value"] = '{"rows":"many"}'
    assert "at /rows" in (await daemon.client().put(read)).body.decode()


def test_the_command_line_sets_checks_and_removes_schemas(launch, tmp_path):
    running = launch()
    cli = Cli(running)
    cli("publish", cli.file(template({"screens": {"valueType": "JSON", "defaultValue": {"value": '{"rows":5}'}},
                                      "title": "hello"})))
    schema = tmp_path / "screens.schema.json"
    schema.write_text(json.dumps(SCHEMA))
    cli("set", "--schema", f"screens=@{schema}", "--yes")
    assert json.loads(cli("get", "screens", "--schema")) == SCHEMA
    wanted = 'breaks its JSON Schema at /rows: "x" is not of type integer'
    assert wanted in cli("set", 'screens={"rows":"x"}', code=REFUSED).err
    file = cli.file(screens({"rows": "x"}))
    for words in (["publish", file], ["publish", file, "--dry-run"], ["apply", file], ["publish", file, "--propose"]):
        assert wanted in cli(*words, code=REFUSED).err
    assert "only a parameter of type JSON" in cli("set", "--schema", "title={}", code=REFUSED).err
    assert "the schema is refused at /type" in cli("set", "--schema", 'screens={"type":"x"}', code=REFUSED).err
    assert "no condition" in cli("set", "--schema", "--condition", "ios", "screens={}", code=USAGE).err
    cli("unset", "--schema", "screens")
    cli("set", 'screens={"rows":"x"}')
    assert cli("get", "screens").strip() == '{"rows":"x"}'


@pytest.mark.parametrize("serve", ("full", "notify"))
async def test_a_source_is_judged_where_clients_are_served_from_here(launch, tmp_path, serve):
    file = tmp_path / "template.json"
    file.write_text(json.dumps(screens({"rows": 5})))
    running = launch(fed(file_feed(file, serve=serve)))
    await version(running, 1)
    file.write_text(json.dumps(screens({"rows": 51})))
    if serve == "notify":
        return await version(running, 2)
    error = await problem(running, "invalid_content")
    assert "breaks its JSON Schema at /rows" in error["message"]
