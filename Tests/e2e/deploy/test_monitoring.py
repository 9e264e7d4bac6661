"""Rules, alerts and the dashboard: they fire when they should, and name what the daemon has."""

import json
import re
import subprocess

import pytest
import yaml

from harness import configs
from harness.daemon import REPOSITORY
from harness.etcd import Etcd
from harness.templates import marked

MONITORING = REPOSITORY / "deploy/monitoring"
RULES = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"][0]["rules"]
ALERTS = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())


def shown():
    """The dashboard's expressions, its variables filled in."""
    targets = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    targets += [annotation["expr"] for annotation in DASHBOARD["annotations"]["list"]]
    return [re.sub(r"\$(job|instance)\b", "x", text) for text in targets]


def promtool(tool, *arguments, **options):
    done = subprocess.run([tool("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# promtool needs 8 s of a processor for it.
@pytest.mark.limit(300)
def test_alerts_fire_and_are_quiet_as_their_tests_say(tool):
    promtool(tool, "check", "rules", "--lint-fatal", MONITORING / "rules.yaml", MONITORING / "alerts.yaml")
    promtool(tool, "test", "rules", MONITORING / "alerts.test.yaml")
    tests = {each["name"] for each in yaml.safe_load((MONITORING / "alerts.test.yaml").read_text())["tests"]}
    assert tests == {f"{alert['alert']} {kind}" for alert in ALERTS for kind in ("fires", "is quiet")}


def test_the_dashboards_expressions_are_promql(tool, tmp_path):
    rules = [{"record": f"shown:{number}", "expr": text} for number, text in enumerate(shown())]
    (tmp_path / "shown.yaml").write_text(json.dumps({"groups": [{"name": "shown", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool(tool, "check", "rules", tmp_path / "shown.yaml") and len(rules) > 20


@pytest.fixture
def etcd(tmp_path):
    members = Etcd(tmp_path / "etcd", 1)
    try:
        yield members.start()
    finally:
        members.dispose()


async def test_every_metric_named_is_one_the_daemon_has(launch, etcd, tmp_path):
    origin = tmp_path / "origin.json"
    origin.write_text(json.dumps(marked("x")))
    sources = {"scopes": [{"scope": "demo/firebase", "kind": "file", "path": str(origin)}]}
    daemon = launch(configs.config(sources=sources, store={"etcd": {"endpoints": etcd.endpoints}}))
    text = (await daemon.ask_control("/metrics")).body.decode()
    known = {"up", "ALERTS"} | {rule["record"] for rule in RULES}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        known |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    for expression in [rule["expr"] for rule in RULES + ALERTS] + shown():
        bare = re.sub(r'"[^"]*"|\[[^]]*\]|\bby \([^)]*\)|\{[^}]*\}', " ", expression)
        names = [word for word in re.findall(r"[a-zA-Z_:][\w:]*(?!\s*\(|\w)", bare) if word not in ("by", "and", "or", "on")]
        assert names and not set(names) - known, f"{set(names) - known} in {expression}"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_has_a_runbook(alert):
    page, anchor = alert["annotations"]["runbook_url"].removeprefix("file:///usr/share/doc/stalecast/").split("#")
    sections = re.findall(r"^## (\w+)\n(.+)", (REPOSITORY / "deploy/docs" / page).read_text(), re.MULTILINE)
    assert anchor in [title.lower() for title, _ in sections]
    assert alert["annotations"]["summary"] and alert["annotations"]["description"]
    assert alert["labels"]["severity"] in ("critical", "warning")
