"""Tokens at Control: CI's identities publish what their rules grant, and are named by what they did."""

import json
import time

from harness import configs
from harness.http1 import fetch
from harness.keys import bearer, make_key
from harness.templates import encoded, marked
from harness.tokens import AUD, Key, auth, issuer, key_set

GITHUB = "https://token.actions.githubusercontent.com"
CLUSTER = "https://kubernetes.default.svc.cluster.local"
PROJECTS = [{"id": "demo", "number": 1}, {"id": "shop", "number": 2}]


def github(**changes):
    """As GitHub's documents show it."""
    now = int(time.time())
    return {"jti": "example-id", "sub": "repo:octo-org/octo-repo:environment:prod", "environment": "prod", "aud": AUD,
            "ref": "refs/heads/main", "sha": "example-sha", "repository": "octo-org/octo-repo",
            "repository_owner": "octo-org", "actor_id": "12", "repository_visibility": "private",
            "repository_id": "74", "repository_owner_id": "65", "run_id": "example-run-id", "run_number": "10",
            "run_attempt": "2", "runner_environment": "github-hosted", "actor": "octocat", "workflow": "example",
            "head_ref": "", "base_ref": "", "event_name": "workflow_dispatch", "ref_type": "branch",
            "job_workflow_ref": "octo-org/a/.github/workflows/oidc.yml@refs/heads/main", "iss": GITHUB,
            "nbf": now - 600, "iat": now, "exp": now + 300, **changes}


def cluster(account="system:serviceaccount:shop:deployer", **changes):
    """A projected service account token."""
    now = int(time.time())
    return {"aud": [AUD], "exp": now + 3600, "iat": now, "iss": CLUSTER, "jti": "5f", "nbf": now, "sub": account,
            "kubernetes.io": {"namespace": "shop", "pod": {"name": "p", "uid": "u"},
                              "serviceaccount": {"name": "deployer", "uid": "u"}}, **changes}


def launch_ci(launch, tmp_path):
    hub, kube = Key("RS256", "hub"), Key("RS256", "kube")
    (tmp_path / "hub").write_bytes(key_set({**hub.jwk, "use": "sig", "alg": "RS256", "x5t": "AAAA", "x5c": ["AAAA"]}))
    (tmp_path / "kube").write_bytes(key_set({**kube.jwk, "use": "sig", "alg": "RS256"}))
    rules = [{"when": {"repository_id": "74", "environment": "prod"}, "role": "publisher", "projects": ["shop"]},
             {"when": {"repository_owner_id": "65"}, "role": "viewer", "projects": ["shop"]}]
    daemon = launch(configs.config(projects=PROJECTS, auth=auth(
        issuer(tmp_path / "hub", "RS256", name="github", iss=GITHUB, rules=rules),
        issuer(tmp_path / "kube", "RS256", name="cluster", iss=CLUSTER, maxLifetime="2h", rules=[
            {"when": {"sub": "system:serviceaccount:shop:deployer"}, "role": "publisher", "projects": ["shop"]}]),
        mode="off")))
    return daemon, hub, kube


async def put(daemon, token, project="shop"):
    return await fetch(daemon.control, f"/v1/projects/{project}/remoteConfig", "PUT",
                       [*bearer(token), ("If-Match", "*"), ("Content-Type", "application/json")],
                       encoded(marked("x")))


async def test_ci_publishes_without_a_secret_and_is_named(launch, tmp_path):
    daemon, hub, kube = launch_ci(launch, tmp_path)
    kube_header = {"alg": "RS256", "kid": "kube"}  # Kubernetes sends no typ
    first = await put(daemon, hub.token(github()))
    second = await put(daemon, kube.token(cluster(), kube_header))
    assert (first.status, second.status) == (200, 200), (first, second)
    client = daemon.client(project="shop")
    listed = (await client.call("GET", "/v1/projects/shop/remoteConfig:listVersions")).json()["versions"]
    users = [version["updateUser"] for version in listed]
    assert users[1] == {"name": "repo:octo-org/octo-repo:environment:prod",
                        "email": "repo:octo-org/octo-repo:environment:prod@github.token.stalecast"}
    assert users[0]["email"] == "system:serviceaccount:shop:deployer@cluster.token.stalecast"
    lines = [json.loads(line) for line in (daemon.data / "audit.jsonl").read_text().splitlines()]
    actors = [line["actor"] for line in lines if line["action"] == "updateRemoteConfig" or "version" in line
              and "actor" in line]
    assert "token:github:repo:octo-org/octo-repo:environment:prod" in actors
    assert "token:cluster:system:serviceaccount:shop:deployer" in actors
    client.close()


async def test_other_repositories_branches_and_accounts_do_not(launch, tmp_path):
    daemon, hub, kube = launch_ci(launch, tmp_path)
    assert (await put(daemon, hub.token(github()), "demo")).status == 403
    for change in ({"environment": "dev"}, {"repository_id": "75"}, {"repository_id": "740"},
                   {"repository_id": "75", "sub": "repo:octo-org/octo-repo:environment:prod"}):
        assert (await put(daemon, hub.token(github(**change)))).status == 403, change
    viewer = hub.token(github(environment="dev"))
    assert (await fetch(daemon.control, "/v1/projects/shop/remoteConfig", headers=bearer(viewer))).status != 403
    stranger = hub.token(github(repository_owner_id="1", repository_id="1"))
    assert (await fetch(daemon.control, "/v1/projects/shop/remoteConfig", headers=bearer(stranger))).status == 403
    for account in ("system:serviceaccount:shop:default", "system:serviceaccount:shopx:deployer"):
        assert (await put(daemon, kube.token(cluster(account)))).status == 403
    assert (await put(daemon, kube.token(cluster(aud=["https://kubernetes.default.svc"])))).status == 401
    assert (await put(daemon, hub.token(github(iss=CLUSTER)))).status == 401, "the key of one, the name of the other"
    assert (await put(daemon, kube.token(cluster(exp=int(time.time()) + 3600 * 24 * 365)))).status == 401, "legacy"


async def test_a_watch_ends_with_its_token(launch, tmp_path):
    daemon, hub, _ = launch_ci(launch, tmp_path)
    assert (await put(daemon, hub.token(github()))).status == 200
    ends = int(time.time()) + 4
    watch = "/v1/projects/shop/remoteConfig/propagation:watch?follow=true"
    answer = await fetch(daemon.control, watch, headers=bearer(hub.token(github(exp=ends))), timeout=12)
    assert answer.status == 200 and b"event: progress" in answer.body
    assert (await fetch(daemon.control, watch, headers=bearer(hub.token(github(exp=ends))))).status == 401


async def test_the_control_token_can_be_disabled_and_enabled(launch):
    daemon = launch(configs.config())
    _, operator = await make_key(daemon, {"role": "operator"})
    daemon.configure(configs.config(control={"tokenEnabled": False}))
    daemon.signal(1)
    for _ in range(100):
        answer = await fetch(daemon.control, "/status", headers=bearer(daemon.token))
        if answer.status == 401:
            break
        time.sleep(0.05)
    assert answer.status == 401
    assert (await fetch(daemon.control, "/status", headers=bearer(operator))).status == 200
