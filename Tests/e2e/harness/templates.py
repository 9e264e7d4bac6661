"""Templates to publish."""

import json


def template(parameters=None, *, conditions=(), description=None, groups=None):
    """A template body (dict). `parameters` maps names to string values or to whole parameter objects."""
    body = {"conditions": list(conditions), "parameters": {}, "parameterGroups": groups or {}}
    for name, value in (parameters or {}).items():
        body["parameters"][name] = value if isinstance(value, dict) else {"defaultValue": {"value": str(value)}}
    if description is not None:
        body["version"] = {"description": description}
    return body


def marked(marker):
    """A template recognisable by its one value and its description."""
    return template({"welcome_text": marker}, description=marker)


def wide(marker, count=55):
    """Every publish changes `count` long names, so that a message is near its largest."""
    return template({f"parameter_with_quite_a_long_name_{index:08d}": marker for index in range(count)})


def encoded(body):
    return body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()


def parameters_of(answer):
    """The parameters of a template answer as {name: default value}."""
    return {name: entry["defaultValue"]["value"] for name, entry in answer.json().get("parameters", {}).items()}
