"""Random templates and contexts. The same seed gives the same cases; values are few and close to each other, so that
tests hold about as often as not."""

ZONES = ["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Australia/Lord_Howe"]
MOMENTS = [
    "2026-03-29T02:30:00", "2026-03-29T01:59:59", "2026-10-25T02:30:00", "2026-03-08T02:30:00", "2026-11-01T01:30:00",
    "2026-03-01T09:00:00", "2026-03-01T08:00:00", "2024-02-29T23:59:59", "2026-04-05T01:45:00", "2026-10-04T02:15:00",
]
INSTANTS = [
    "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T01:00:00Z", "2026-10-25T00:30:00Z",
    "2026-10-25T01:30:00Z", "2026-03-08T07:30:00Z", "2026-03-08T06:30:00Z", "2026-11-01T05:30:00Z",
    "2026-11-01T06:30:00.000001Z", "2026-03-01T08:00:00Z", "2026-03-01T07:59:59.999999Z", "2026-03-01T03:30:00Z",
    "2024-03-01T00:00:00Z", "2026-04-04T15:15:00Z", "2026-04-04T14:45:00Z", "2026-10-03T15:45:00Z",
]
VERSIONS = ["1", "1.0", "1.2", "1.2.0", "1.10", "2.0.0.1", "1..2", "01.2", "3", "1.2.3.4.5"]
ODD_VERSIONS = ["1.2-beta", "v1", "", "1.2.", "1.2.3.4.5.6", " 1.2"]
TEXTS = ["pro", "Pro", "free", "a.b", "york", "new york", "été", "été", "", "a'b", "10", "x1y22", "foo_bar-9"]
NUMBERS = ["10", "-3", "0.5", "+2.50", ".5", "5.", "0", "100000"]
ODD_NUMBERS = ["1e1", " 10 ", "ten", "nan", "0x10", "inf", "10.0", "", "-3.0", "1_0", "9" * 70]
PATTERNS = [
    "^pro$", "pro", "(?i)PRO", "[a-z]+_[a-z]+", r"^\d+$", r"\d{2}", r"x\d?y\d{2,3}$", "^$", "a.b", r"a\.b", "(new|old) y",
    r"\byork", r"\Bork\b", "[^a-z]", "(a|ab)(c|bcd)*$", "^(f|y).*", r"\w+-\d\z", "[[]", "y{2}", "(?:o{2}|r)_", "é+",
    r"[\w.]+$", "(?P<n>p)ro", "o*?k", "(?s).", r"^[\d\s.]+$", "[]x]", "[a-]r", r"\x41|\x{66}",
]
PYTHON_SKIPS = {r"\x41|\x{66}"}
IDS = ["cAbCdEfGhIjKlMnOpQrStU", "dAbCdEfGhIjKlMnOpQrStU", "Abcdefghijk", "eZ0-_EfGhIjKlMnOpQrStU"]
APPS = ["1:123:ios:abc", "1:123:android:abc", "1:123:web:abc", "1:123:beos:abc", "nonsense"]
LANGUAGES = ["en", "en-US", "en_US", "EN-gb", "fr", "zh-Hans", "zh_Hans_CN", "zh-Hant-TW", "es-419"]
COUNTRIES = ["US", "us", "CA", "fr", "DE"]
NAMES = ["Buyers", "All 'new'", "vip"]
SEEDS = ["", "s1", "s.2", "-x_"]
TEXT_OPERATORS = ["contains", "notContains", "exactlyMatches", "matches"]
COMPARISONS = ["<", "<=", "==", "!=", ">=", ">"]


def quoted(text):
    return "'" + text.replace("'", "\\'") + "'"


def listed(random, values, most=3):
    return "[" + ", ".join(quoted(random.choice(values)) for _ in range(random.randint(1, most))) + "]"


def text_operation(random):
    operator = random.choice(TEXT_OPERATORS)
    patterns = [pattern for pattern in PATTERNS if pattern not in PYTHON_SKIPS]
    return f".{operator}({listed(random, patterns if operator == 'matches' else TEXTS + VERSIONS)})"


def percentage(random):
    return random.choice(["0", "100", "50", "33.333333", "0.000001", "12.5", ".5", str(random.randint(0, 100))])


def moment(random, zones):
    zone = random.choice(zones)
    return f"({quoted(random.choice(MOMENTS))}{', ' + quoted(zone) if zone else ''})"


def test(random):
    compare, order = random.choice(COMPARISONS), random.choice(["<", "<=", ">=", ">"])
    attribute = f"app.{random.choice(['userProperty', 'customSignal'])}['{random.choice('abc')}']"
    low, high = sorted((percentage(random) for _ in range(2)), key=float)
    percent = random.choice(["percent", "PERCENT"]) + random.choice(["", f"({quoted(random.choice(SEEDS))})"])
    return random.choice([
        lambda: random.choice(["true", "TRUE", "true", "false"]),
        lambda: f"app.id {random.choice(['==', '!='])} {quoted(random.choice(APPS))}",
        lambda: f"app.id in {listed(random, APPS)}",
        lambda: f"device.os {random.choice(['==', '!='])} '{random.choice(['ios', 'android', 'web'])}'",
        lambda: f"device.os in {listed(random, ['ios', 'android', 'web'])}",
        lambda: f"app.version.{compare}(['{random.choice(VERSIONS)}'])",
        lambda: f"app.build.{compare}(['{random.choice(VERSIONS)}'])",
        lambda: f"app.{random.choice(['version', 'build'])}{text_operation(random)}",
        lambda: f"{attribute}{text_operation(random)}",
        lambda: f"{attribute} {compare} {random.choice(NUMBERS)}",
        lambda: f"version(app.customSignal['{random.choice('abc')}']) {compare} '{random.choice(VERSIONS)}'",
        lambda: f"app.{random.choice(['audiences', 'importedSegments'])}."
                f"{random.choice(['inAtLeastOne', 'notInAtLeastOne', 'inAll', 'notInAll'])}({listed(random, NAMES)})",
        lambda: f"device.country in {listed(random, COUNTRIES)}",
        lambda: f"device.language in {listed(random, LANGUAGES)}",
        lambda: f"{random.choice(['app.', ''])}firebaseInstallationId in {listed(random, IDS)}",
        lambda: f"app.firstOpenTimestamp {order} {moment(random, ZONES + [None, 'Nowhere/Land'])}",
        lambda: f"dateTime {order} dateTime{moment(random, ZONES + [None, None, None])}",
        lambda: f"{percent} {random.choice(['<=', '>'])} {percentage(random)}",
        lambda: f"{percent} between {low} and {high}",
        lambda: f"app.{random.choice(['operatingSystemAndVersion', 'browserAndVersion'])}."
                f"{random.choice(['inOne', 'notInOne'])}({listed(random, ['Chrome-120', 'macOS-15'])})",
    ])()


def value(random, key, is_default):
    kinds = ["value"] * 6 + ["inApp", "rollout", "experiment", "personalization"]
    kind = random.choice(kinds)
    text = f"{key}-{random.randint(0, 9)}" if random.random() < 0.9 else ""
    if kind == "inApp":
        return {"useInAppDefault": True}
    if kind == "rollout":
        percent = random.choice([0, 25, 50.5, 99.999999, 100])
        return {"rolloutValue": {"rolloutId": f"rollout_{random.randint(1, 3)}", "value": text, "percent": percent}}
    if kind == "experiment":
        variants = [
            {"variantId": str(number)} | random.choice([{"noChange": True}, {"value": f"{text}v{number}"}])
            for number in range(random.randint(1, 4))
        ]
        content = {"experimentId": f"exp_{random.randint(1, 3)}", "variantValue": variants}
        return {"experimentValue": content | random.choice([{}, {"exposurePercent": 50}, {"exposurePercent": 5}])}
    if kind == "personalization":
        return {"personalizationValue": {"personalizationId": "p1"}}
    return {"value": text}


def parameter(random, key, names):
    conditional = {name: value(random, key, False) for name in names if random.random() < 0.4}
    result = {"conditionalValues": conditional} if conditional else {}
    if not conditional or random.random() < 0.8:
        result["defaultValue"] = value(random, key, True)
    return result


def template(random):
    names = [f"c{number}" for number in range(random.randint(1, 12))]
    conditions = [
        {"name": name, "expression": " && ".join(test(random) for _ in range(random.choice([1, 1, 1, 2, 3])))}
        for name in names
    ]
    parameters = {f"p{number}": parameter(random, f"p{number}", names) for number in range(6)}
    grouped = {f"g{number}": parameter(random, f"g{number}", names) for number in range(3)}
    return {"conditions": conditions, "parameters": parameters, "parameterGroups": {"group": {"parameters": grouped}}}


def context(random):
    def texts():
        return {name: random.choice(TEXTS + NUMBERS + ODD_NUMBERS + VERSIONS + ODD_VERSIONS)
                for name in "abc" if random.random() < 0.8}

    members = {
        "appId": random.choice(APPS), "appInstanceId": random.choice(IDS + [f"c{random.getrandbits(64)}"]),
        "countryCode": random.choice(COUNTRIES), "languageCode": random.choice(LANGUAGES),
        "timeZone": random.choice(ZONES + ["Nowhere/Land"]), "appVersion": random.choice(VERSIONS + ODD_VERSIONS),
        "appBuild": random.choice(VERSIONS + ODD_VERSIONS + ["10", "pro"]), "firstOpenTime": random.choice(INSTANTS),
        "analyticsUserProperties": texts(), "customSignals": texts(),
        "audiences": random.sample(NAMES, random.randint(0, 3)),
        "importedSegments": random.sample(NAMES, random.randint(0, 3)),
        "operatingSystemAndVersion": "macOS-15", "browserAndVersion": random.choice(["Chrome-120", "Firefox-1"]),
    }
    return {name: value for name, value in members.items() if random.random() < 0.85} | {
        "now": random.choice(INSTANTS)}
