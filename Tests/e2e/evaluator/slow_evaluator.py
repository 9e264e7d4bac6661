"""A second, slow evaluator of Remote Config templates, written from the rules and not from the Swift code.

It takes expressions apart with regular expressions, keeps nothing between calls, and leans on Python's own big
integers, decimals, zones and `re`, so that the two implementations are unlikely to share a mistake.
"""

import hashlib
import re
from datetime import datetime, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

STRING = r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\""""
ATTRIBUTES = {"app.version": "appVersion", "app.build": "appBuild"}
COMPARE = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b, ">=": lambda a, b: a >= b, ">": lambda a, b: a > b,
}


def bucket(instance, seed):
    text = f"{seed}.{instance}" if seed else instance
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 10**8


def strings(text):
    found = []
    for match in re.finditer(STRING, text):
        quote = text[match.start()]
        found.append(text[match.start() + 1:match.end() - 1].replace("\\" + quote, quote))
    return found


def split_tests(expression):
    """Cuts at && outside quotes."""
    tests, current, quote, index = [], "", None, 0
    while index < len(expression):
        char = expression[index]
        if quote:
            if char == "\\":
                current += expression[index:index + 2]
                index += 2
                continue
            if char == quote:
                quote = None
        elif char in "'\"":
            quote = char
        elif expression[index:index + 2] == "&&":
            tests.append(current.strip())
            current, index = "", index + 2
            continue
        current += char
        index += 1
    return tests + [current.strip()]


def moment(text):
    """Microseconds since 1970 of RFC 3339."""
    parsed = datetime.fromisoformat(text.replace("Z", "+00:00"))
    delta = parsed - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (delta.days * 86400 + delta.seconds) * 10**6 + delta.microseconds


def local_moment(text, zone):
    """Microseconds since 1970 of a date and time in a zone; None for an unknown zone. fold=0 is PEP 495's default."""
    try:
        parsed = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=ZoneInfo(zone))
    except Exception:
        return None
    return moment(parsed.astimezone(timezone.utc).isoformat())


def number(text):
    text = text.strip(" \t\n\r\v\f")
    if len(text) > 64 or not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        return None
    return float(text)


def version(text):
    if not re.fullmatch(r"\d([\d.]*\d)?", text, re.ASCII):
        return None
    return [int(part or "0") for part in text.split(".")]


def compare_versions(operator, a, b):
    length = max(len(a), len(b))
    return COMPARE[operator](a + [0] * (length - len(a)), b + [0] * (length - len(b)))


def as_python(pattern):
    """RE2's `$` and `\\z` mean the very end, Python's `$` may be before a line end."""
    result, index, in_class = "", 0, False
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            result += r"\Z" if pattern[index + 1] == "z" else pattern[index:index + 2]
            index += 2
            continue
        if char == "[":
            in_class = True
        elif char == "]":
            in_class = False
        result += r"\Z" if char == "$" and not in_class else char
        index += 1
    return result


def text_test(operator, values, actual):
    if operator == "contains":
        return any(value in actual for value in values)
    if operator == "notContains":
        return not any(value in actual for value in values)
    if operator == "exactlyMatches":
        return actual in values
    return any(re.search(as_python(value), actual, re.ASCII) for value in values)


def set_test(operator, names, actual):
    return {
        "inAtLeastOne": any(name in actual for name in names),
        "notInAtLeastOne": any(name not in actual for name in names),
        "inAll": all(name in actual for name in names),
        "notInAll": all(name not in actual for name in names),
    }[operator]


def language_matches(literal, actual):
    literal, actual = (tag.replace("_", "-").lower().split("-") for tag in (literal, actual))
    has_region = any(re.fullmatch(r"[a-z]{2}|\d{3}", part) for part in literal[1:])
    return literal == actual or (not has_region and actual[:len(literal)] == literal)


def platform(context):
    match = re.fullmatch(r"[^:]*:[^:]*:(ios|android|web):[^:]*", context.get("appId") or "")
    return match.group(1) if match else None


def member(context, name):
    return context.get(name) or None


def holds(test, context):
    def match(pattern):
        nonlocal found
        found = re.fullmatch(pattern, test, re.DOTALL)
        return found

    found = None
    if match(r"(?i:(true|false))"):
        return test.lower() == "true"
    if match(r"(app\.id|device\.os|app\.firebaseInstallationId|firebaseInstallationId)\s*(==|!=|in\b)(.*)"):
        name = found.group(1)
        actual = platform(context) if name == "device.os" else member(
            context, "appId" if name == "app.id" else "appInstanceId")
        return actual is not None and (actual in strings(found.group(3))) != (found.group(2) == "!=")
    if match(r"app\.(operatingSystemAndVersion|browserAndVersion)\.(inOne|notInOne)\((.*)\)"):
        actual = member(context, found.group(1))
        return actual is not None and (actual in strings(found.group(3))) == (found.group(2) == "inOne")
    if match(r"device\.country\s*in(.*)"):
        actual = member(context, "countryCode")
        return actual is not None and actual.upper() in [code.upper() for code in strings(found.group(1))]
    if match(r"device\.language\s*in(.*)"):
        actual = member(context, "languageCode")
        return actual is not None and any(language_matches(tag, actual) for tag in strings(found.group(1)))
    if match(r"app\.(audiences|importedSegments)\.(\w+)\((.*)\)"):
        actual = context.get(found.group(1))
        return actual is not None and set_test(found.group(2), strings(found.group(3)), actual)
    if match(r"app\.(version|build)\.([<>=!]+)\((.*)\)"):
        actual = member(context, ATTRIBUTES["app." + found.group(1)])
        parsed = version(actual) if actual else None
        return parsed is not None and compare_versions(found.group(2), parsed, version(strings(found.group(3))[0]))
    if match(r"app\.(version|build)\.(\w+)\((.*)\)"):
        actual = member(context, ATTRIBUTES["app." + found.group(1)])
        return actual is not None and text_test(found.group(2), strings(found.group(3)), actual)
    if match(r"version\(app\.customSignal\[(.*)\]\)\s*([<>=!]+)(.*)"):
        actual = context.get("customSignals", {}).get(strings(found.group(1))[0])
        parsed = version(actual) if actual else None
        if parsed is None or len(parsed) > 5:
            return False
        return compare_versions(found.group(2), parsed, version(strings(found.group(3))[0]))
    if match(r"app\.(userProperty|customSignal)\[('[^']*')\]\.(\w+)\((.*)\)"):
        actual = attributes(context, found.group(1)).get(strings(found.group(2))[0])
        return actual is not None and text_test(found.group(3), strings(found.group(4)), actual)
    if match(r"app\.(userProperty|customSignal)\[('[^']*')\]\s*([<>=!]+)\s*(\S+)"):
        actual = attributes(context, found.group(1)).get(strings(found.group(2))[0])
        parsed = number(actual) if actual is not None else None
        return parsed is not None and COMPARE[found.group(3)](parsed, float(found.group(4)))
    if match(r"app\.firstOpenTimestamp\s*([<>=]+)\s*\((.*)\)"):
        literal = strings(found.group(2))
        limit = local_moment(literal[0], literal[1] if len(literal) > 1 else "GMT")
        actual = member(context, "firstOpenTime")
        return actual is not None and limit is not None and COMPARE[found.group(1)](moment(actual), limit)
    if match(r"(?i:dateTime)\s*([<>=]+)\s*(?i:dateTime)\((.*)\)"):
        literal = strings(found.group(2))
        zone = literal[1] if len(literal) > 1 else member(context, "timeZone")
        limit = local_moment(literal[0], zone) if zone else None
        return limit is not None and COMPARE[found.group(1)](moment(context["now"]), limit)
    if match(r"(?i:percent)(?:\s*\((.*)\))?\s*(<=|>|(?i:between))\s*([\d.]+)(?:\s+(?i:and)\s+([\d.]+))?"):
        return percent_holds(found, context)
    raise ValueError(f"not understood: {test}")


def attributes(context, kind):
    return context.get("analyticsUserProperties" if kind == "userProperty" else "customSignals") or {}


def percent_holds(found, context):
    instance = member(context, "appInstanceId")
    if instance is None:
        return False
    position = bucket(instance, strings(found.group(1))[0] if found.group(1) else "")
    bounds = [Decimal(text) * 10**6 for text in found.group(3, 4) if text]
    if found.group(2) == "<=":
        return position <= bounds[0]
    if found.group(2) == ">":
        return position > bounds[0]
    return bounds[0] < position <= bounds[1]


def managed(value, context):
    """What a rollout or experiment delivers: a text, or None to go on; and what is told about it."""
    instance = member(context, "appInstanceId")
    if "rolloutValue" in value:
        rollout = value["rolloutValue"]
        if instance is None:
            return None, None
        is_in = bucket(instance, rollout["rolloutId"]) < Decimal(str(rollout.get("percent", 0))) * 10**6
        note = ("rollout", rollout["rolloutId"], "enabled" if is_in else "control")
        return (rollout["value"] if is_in else None), note
    experiment = value["experimentValue"]
    identifier, variants = experiment["experimentId"], experiment["variantValue"]
    exposure = Decimal(str(experiment.get("exposurePercent", 100))) * 10**6
    if instance is None or bucket(instance, identifier) >= exposure:
        return None, None
    chosen = variants[bucket(instance, identifier + ".variant") * len(variants) // 10**8]
    return chosen.get("value"), ("experiment", "_exp_" + identifier, chosen["variantId"])


def evaluate(template, context):
    """Everything of a result that must not depend on the implementation."""
    verdicts = {
        condition["name"]: all(holds(test, context) for test in split_tests(condition["expression"]))
        for condition in template["conditions"]
    }
    parameters = dict(template["parameters"])
    for group in template.get("parameterGroups", {}).values():
        parameters.update(group["parameters"])
    entries, notes = {}, {}
    for key, parameter in sorted(parameters.items()):
        conditional = parameter.get("conditionalValues", {})
        candidates = [conditional[name] for name, is_true in verdicts.items() if is_true and name in conditional]
        if "defaultValue" in parameter:
            candidates.append(parameter["defaultValue"])
        for value in candidates:
            if "useInAppDefault" in value:
                break
            if "personalizationValue" in value:
                continue
            if "value" in value:
                entries[key] = value["value"]
                break
            text, note = managed(value, context)
            if note and key not in notes.setdefault(note, []):
                notes[note].append(key)
            if text is not None:
                entries[key] = text
                break
    return {"matched": verdicts, "entries": entries, "notes": notes}
