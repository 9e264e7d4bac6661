"""Signing in to the console with an issuer: the whole way in a browser, and each way in which it must fail."""

import http.client
import json
import shutil
import signal
import ssl
import time
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlsplit

import pytest

from harness import configs
from harness.authority import Authority
from harness.browser import Browser
from harness.cli import Cli
from harness.provider import CLIENT, Provider
from harness.templates import marked
from harness.tokens import Key
from harness.waiting import until


@pytest.fixture
def provider(tmp_path):
    (tmp_path / "issuer").mkdir()
    with Provider(Authority(tmp_path / "issuer")) as provider:
        yield provider


def serve(launch, *entries, **sections):
    return launch(configs.config(auth={"issuers": list(entries), "allowedAddresses": ["127.0.0.0/8"]}, **sections))


class Visitor:
    """A browser without a page: it keeps cookies, sends what browsers send, and follows nothing by itself."""

    def __init__(self, daemon, provider):
        self.daemon, self.cookies = daemon, {}
        self.host = f"127.0.0.1:{daemon.control}"
        self.context = ssl.create_default_context(cafile=provider.authority.directory / "ca.pem")

    def ask(self, method, path, body=None, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.control, timeout=20)
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Host": self.host, **({"Cookie": cookies} if cookies else {}),
                   **({} if method == "GET" else {"Origin": f"http://{self.host}", "Sec-Fetch-Site": "same-origin"}), **fields}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        for field in answer.headers.get_all("Set-Cookie") or []:
            name, value = field.split(";")[0].split("=", 1)
            self.cookies[name] = value
        connection.close()
        return answer

    def begin(self, issuer="accounts", **fields):
        answer = self.ask("POST", "/console/sign-in", {"issuer": issuer}, **fields)
        return json.loads(answer.text)["location"] if answer.status == 200 else answer

    def visit(self, location):
        """What the issuer sends back: a path of the daemon."""
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=self.context), Still)
        with pytest.raises(urllib.error.HTTPError) as moved:
            opener.open(location)
        place = urlsplit(moved.value.headers["Location"])
        assert place.netloc == self.host
        return f"{place.path}?{place.query}"

    def end(self, path):
        """The answer's place, which is the console in any case, and what the page then says of the session."""
        answer = self.ask("GET", path, **{"Sec-Fetch-Site": "cross-site"})
        assert answer.status == 303 and answer.headers["Location"] == "/console/", answer.text
        assert answer.headers["Cache-Control"] == "no-store" and answer.headers["Referrer-Policy"] == "no-referrer"
        return self.session()

    def session(self):
        return json.loads(self.ask("GET", "/console/session").text)

    def sign_in(self, issuer="accounts"):
        return self.end(self.visit(self.begin(issuer)))


class Still(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def test_a_person_signs_in_acts_and_signs_out(launch, provider, tmp_path):
    if not shutil.which("chromium"):
        pytest.skip("no chromium")
    daemon = serve(launch, provider.entry())
    url = f"http://127.0.0.1:{daemon.control}/console/"
    with Browser(shutil.which("chromium"), tmp_path / "profile", "--ignore-certificate-errors") as browser:
        browser.open(url + "#/versions?scope=demo/firebase")
        browser.has("Sign in with accounts")
        click(browser, "Sign in with accounts")
        browser.has("Continue as Ann")
        browser.evaluate("document.getElementById('go').click()")
        browser.has("Sign out")
        browser.shows("document.querySelector('h1').textContent === 'Versions'")
        assert "code=" not in browser.evaluate("location.href") and browser.evaluate("document.cookie") == ""
        publish = f"""fetch('/v1/projects/demo/remoteConfig', {{method: 'PUT', headers: {{'If-Match': '*'}},
            body: {json.dumps(json.dumps(marked('hello')))}}}).then(a => a.status)"""
        assert browser.evaluate(publish) == 200
        assert "Ann Example" in Cli(daemon)("versions")
        browser.reload()
        browser.has("Ann Example")
        lines = [json.loads(line) for line in Cli(daemon)("audit", "show", "--json").splitlines()]
        by = {line["action"]: line for line in lines if line.get("actor") == "token:accounts:u-1"}
        assert by["console.signIn"]["user"] == "Ann Example" and by["console.signIn"]["outcome"] == "ok"
        assert by["publishTemplate"]["user"] == "Ann Example"
        click(browser, "Sign out")
        browser.has("You are signed out of accounts.")
        assert provider.farewells[0]["client_id"] == CLIENT and provider.farewells[0]["id_token_hint"].count(".") == 2
        browser.open(url)
        browser.has("Sign in with accounts")
        provider.fault = "denied"
        click(browser, "Sign in with accounts")
        browser.has("Continue as Ann")
        browser.evaluate("document.getElementById('go').click()")
        browser.has("accounts refused: access_denied: not <b>today</b>.")
        browser.reload()
        browser.has("Sign in with accounts")
        assert "refused" not in browser.text(), "it is said once"
        browser.hear(0.1)
        assert not browser.complaints, browser.complaints


def click(browser, label):
    browser.evaluate(f"[...document.querySelectorAll('button')].find(b => b.textContent === {json.dumps(label)}).click()")


METHODS = "token_endpoint_auth_methods_supported"


@pytest.mark.parametrize("says", [{}, {METHODS: ["client_secret_post"]}, {METHODS: ["client_secret_basic", "client_secret_post"]},
                                  {"authorization_response_iss_parameter_supported": True}], ids=["basic", "post", "both", "iss"])
def test_providers_differ(launch, provider, says):
    """Some do not decode a basic credential, so a secret with signs in it goes into the body where that is taken."""
    provider.says = says
    visitor = Visitor(serve(launch, provider.entry()), provider)
    session = visitor.sign_in()
    assert session["signedIn"] and session["user"] == "Ann Example" and session["principal"]["actor"] == "token:accounts:u-1"
    assert ("client_secret" in provider.exchanges[0]) == (METHODS in says)
    assert visitor.ask("GET", "/v1/projects/demo/remoteConfig:listVersions").status == 200
    assert visitor.ask("GET", "/v1/keys").status == 403, "no more than the rule grants"


def test_a_public_client_has_no_secret(launch, provider):
    provider.secret = None
    assert Visitor(serve(launch, provider.entry(scopes=["groups"])), provider).sign_in()["signedIn"]
    asked = provider.exchanges[0]
    assert asked["client_id"] == CLIENT and "client_secret" not in asked


def test_several_issuers_have_several_doors(launch, provider, tmp_path):
    (tmp_path / "second").mkdir()
    with Provider(Authority(tmp_path / "second")) as second:
        second.person = {"sub": "u-2", "email": "bob@shop.example", "email_verified": True, "groups": ["ops"]}
        machine = {key: value for key, value in second.entry("machines").items() if not key.startswith("client")}
        machine["issuer"] = "https://machines.example"
        daemon = serve(launch, provider.entry(), second.entry("staff", role="viewer"), machine)
        assert Visitor(daemon, provider).session() == {"signedIn": False, "issuers": ["accounts", "staff"]}
        visitor = Visitor(daemon, second)
        session = visitor.sign_in("staff")
        assert session["user"] == "bob@shop.example" and session["scopes"][0]["actions"] == []
        assert visitor.begin("machines").status == 400 and visitor.begin("nobody").status == 400


# What must fail

BAD_TOKENS = {
    "wrong audience": ({"aud": "stalecast"}, "not for this sign-in"),
    "several audiences without azp": ({"aud": [CLIENT, "other"]}, "not for this sign-in"),
    "another azp": ({"azp": "other"}, "not for this sign-in"),
    "no nonce": ({"nonce": None}, "not for this sign-in"),
    "another nonce": ({"nonce": "0" * 64}, "not for this sign-in"),
    "another issuer": ({"iss": "https://other.example"}, "not for this sign-in"),
    "expired": ({"iat": 1_700_000_000, "exp": 1_700_000_300}, "compare the clocks"),
    "of tomorrow": ({"iat": 4_000_000_000, "exp": 4_000_000_300}, "compare the clocks"),
    "no subject": ({"sub": None}, "not for this sign-in"),
    "8,192 bytes": ({"groups": ["ops"] + ["x" * 40] * 200}, "and up to 8192 are read"),
    "no group": ({"groups": ["sales"]}, "nothing here is granted to you"),
}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_token_that_is_not_good_opens_nothing(launch, provider, name):
    provider.claims, sentence = BAD_TOKENS[name]
    daemon = serve(launch, provider.entry())
    session = Visitor(daemon, provider).sign_in()
    assert not session["signedIn"] and sentence in session["problem"], session
    lines = [json.loads(line) for line in Cli(daemon)("audit", "show", "--json").splitlines()]
    known = [(line["outcome"], line["issuer"], line["actor"]) for line in lines if line["action"] == "console.signIn"]
    assert known == ([("refused", "accounts", "token:accounts:u-1")] if name == "no group" else []), "the issuer vouched for no person"


def test_a_forged_signature_opens_nothing(launch, provider):
    daemon = serve(launch, provider.entry())
    visitor = Visitor(daemon, provider)
    assert visitor.sign_in()["signedIn"]
    provider.key = Key("RS256")  # the same kid, and not the key that was fetched
    visitor.cookies.clear()
    session = visitor.sign_in()
    assert not session["signedIn"] and "signed its answer with a key" in session["problem"]


FAULTS = {"denied": "accounts refused: access_denied", "broken": "cannot sign people in now", "no_token": "cannot sign people in now"}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_issuer_that_refuses_or_fails(launch, provider, fault):
    provider.fault = fault
    session = Visitor(serve(launch, provider.entry()), provider).sign_in()
    assert not session["signedIn"] and FAULTS[fault] in session["problem"]


def test_an_issuer_that_is_down_is_said_before_anybody_leaves(launch, provider):
    provider.fault = "down"
    daemon = serve(launch, provider.entry())
    answer = Visitor(daemon, provider).begin()
    assert answer.status == 503 and "accounts cannot sign people in now" in answer.text
    metrics = Visitor(daemon, provider).ask("GET", "/metrics", Authorization=f"Bearer {daemon.token}").text
    assert 'stalecast_console_sign_ins_total{issuer="accounts",outcome="unavailable"} 1' in metrics


@pytest.mark.parametrize("says", [{"issuer": "https://other.example"}, {"token_endpoint": "http://127.0.0.1/token"},
                                  {"authorization_endpoint": "javascript:alert(1)"}, {"authorization_endpoint": None}],
                         ids=["another issuer", "plain http", "script", "nothing"])
def test_a_document_that_is_not_the_issuers_sends_nobody_anywhere(launch, provider, says):
    provider.says = says
    assert Visitor(serve(launch, provider.entry()), provider).begin().status == 503


def test_a_wrong_secret_is_the_operators_to_mend(launch, provider):
    daemon = serve(launch, provider.entry())
    provider.secret = "another"
    session = Visitor(daemon, provider).sign_in()
    assert "invalid_client" in session["problem"] and "clientSecretFile" in session["problem"]


def test_another_browser_cannot_finish_what_one_began(launch, provider):
    """Login CSRF: the attacker's answer in the victim's browser, which began a sign-in of its own or none."""
    daemon = serve(launch, provider.entry())
    attacker, victim, idle = (Visitor(daemon, provider) for _ in range(3))
    path = attacker.visit(attacker.begin())
    victim.begin()
    for other in (victim, idle):
        session = other.end(path)
        assert not session["signedIn"] and "not begun in this browser" in session["problem"]
    assert not provider.exchanges, "the code did not even go out"
    assert "console.signIn" not in Cli(daemon)("audit", "show", "--json"), "a stranger could write the log full"


def test_strangers_write_no_log_full(launch, provider):
    """A stranger begins as each visitor does, and brings an answer of their own making: their words must not pile up."""
    daemon = serve(launch, provider.entry())
    for number in range(5):
        for made_up in (f"error=spam{number}&error_description=more", f"code=garbage{number}"):
            visitor = Visitor(daemon, provider)
            state = parse_qs(urlsplit(visitor.begin()).query)["state"][0]
            assert "refused" in visitor.end(f"/console/signed-in/accounts?state={state}&{made_up}")["problem"]
    assert "console.signIn" not in Cli(daemon)("audit", "show", "--json")
    assert daemon.log_text().count("sign-in with an issuer failed") == 1
    metrics = Visitor(daemon, provider).ask("GET", "/metrics", Authorization=f"Bearer {daemon.token}").text
    assert 'stalecast_console_sign_ins_total{issuer="accounts",outcome="refused"} 10' in metrics


def test_what_others_begin_ends_nobodys_sign_in(launch, provider):
    """Sign-ins under way are their browsers' own, and so are the sentences about those that failed."""
    daemon = serve(launch, provider.entry(), control={"trustedProxies": ["127.0.0.1"]})
    visitor, failed = Visitor(daemon, provider), Visitor(daemon, provider)
    path = visitor.visit(visitor.begin())
    failed.ask("GET", "/console/signed-in/accounts?error=x")
    for number in range(1100):  # more addresses than are counted
        other = Visitor(daemon, provider)
        assert isinstance(other.begin(**{"X-Forwarded-For": f"10.0.{number // 250}.{number % 250 + 1}"}), str)
        other.ask("GET", "/console/signed-in/accounts?error=x")
    assert "not begun in this browser" in failed.session()["problem"] and "problem" not in failed.session()
    assert visitor.end(path)["signedIn"]


def test_cookies_are_of_this_process_and_of_one_kind(launch, provider):
    daemon = serve(launch, provider.entry())
    visitor = Visitor(daemon, provider)
    path = visitor.visit(visitor.begin())
    (name, good), = visitor.cookies.items()
    for bad in ("", "!", "AAAA", good[:-4], good[:40] + ("A" if good[40] != "A" else "B") + good[41:]):
        visitor.cookies = {name: bad}
        assert "not begun in this browser" in visitor.end(path)["problem"], bad
    visitor.cookies = {name.replace("-sign-in", "-problem"): good}
    assert "problem" not in visitor.session()
    visitor.cookies = {name: good}
    assert visitor.end(path)["signedIn"]


def test_a_reload_sends_the_code_to_no_other_issuer(launch, provider, tmp_path):
    (tmp_path / "second").mkdir()
    with Provider(Authority(tmp_path / "second")) as second:
        daemon = serve(launch, provider.entry())
        visitor = Visitor(daemon, provider)
        path = visitor.visit(visitor.begin())
        entry = second.entry()
        daemon.configure(configs.config(auth={"issuers": [entry], "allowedAddresses": ["127.0.0.0/8"]}))
        daemon.signal(signal.SIGHUP)
        other = Visitor(daemon, second)
        for _ in range(100):
            if other.begin().startswith(second.issuer):
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the reload did not come")
        assert "not begun in this browser" in visitor.end(path)["problem"]
        assert not second.exchanges and not provider.exchanges


def test_behind_a_proxy_that_ends_tls_cookies_are_secure(launch, provider):
    visitor = Visitor(serve(launch, provider.entry()), provider)
    origin = f"https://{visitor.host}"
    answer = visitor.ask("POST", "/console/sign-in", {"issuer": "accounts"}, Origin=origin)
    assert is_hosts(answer.headers["Set-Cookie"])
    place = visitor.visit(json.loads(answer.text)["location"])
    answer = visitor.ask("GET", place, **{"Sec-Fetch-Site": "cross-site"})
    assert all(is_hosts(field) for field in answer.headers.get_all("Set-Cookie")) and visitor.session()["signedIn"]
    out = visitor.ask("DELETE", "/console/session", Origin=origin)
    assert is_hosts(out.headers["Set-Cookie"]) and "Max-Age=0" in out.headers["Set-Cookie"]
    answer = visitor.ask("POST", "/console/session", {"token": visitor.daemon.token}, Origin=origin)
    assert is_hosts(answer.headers["Set-Cookie"]) and visitor.session()["signedIn"]
    answer = visitor.ask("POST", "/console/session", {"token": visitor.daemon.token})
    assert answer.headers["Set-Cookie"].startswith("stalecast-") and "Secure" not in answer.headers["Set-Cookie"]


def is_hosts(field):
    return field.startswith("__Host-stalecast-") and "; Secure" in field and "; Path=/;" in field


def test_an_answer_is_good_once(launch, provider):
    visitor = Visitor(serve(launch, provider.entry()), provider)
    location = visitor.begin()
    flow = dict(visitor.cookies)
    path = visitor.visit(location)
    assert visitor.end(path)["signedIn"]
    visitor.cookies = flow
    assert not visitor.end(path)["signedIn"] and len(provider.exchanges) == 1


def test_a_code_of_another_sign_in_is_refused(launch, provider):
    """Code injection: the verifier and the nonce are those of the browser's own sign-in."""
    daemon = serve(launch, provider.entry())
    attacker, victim = Visitor(daemon, provider), Visitor(daemon, provider)
    stolen = parse_qs(urlsplit(victim.visit(victim.begin())).query)["code"][0]
    own = parse_qs(urlsplit(attacker.visit(attacker.begin())).query)
    session = attacker.end(f"/console/signed-in/accounts?code={stolen}&state={own['state'][0]}")
    assert not session["signedIn"] and "invalid_grant" in session["problem"]


def test_issuers_cannot_be_mixed_up(launch, provider, tmp_path):
    (tmp_path / "second").mkdir()
    with Provider(Authority(tmp_path / "second")) as second:
        second.says = {"authorization_response_iss_parameter_supported": True}
        daemon = serve(launch, provider.entry(), second.entry("staff"))
        visitor = Visitor(daemon, second)
        path = visitor.visit(visitor.begin("staff"))
        assert not visitor.end(path.replace("/staff?", "/accounts?"))["signedIn"], "each issuer has an address of its own"
        path = visitor.visit(visitor.begin("staff"))
        other = path.replace("iss=", "iss=https%3A%2F%2Fother.example&was=")
        assert not visitor.end(other)["signedIn"], "and names itself"
        path = visitor.visit(visitor.begin("staff"))
        assert not visitor.end(path.replace("iss=", "was="))["signedIn"], "always, when it says so"
        assert not provider.exchanges and not second.exchanges


def test_only_the_consoles_own_page_begins(launch, provider):
    daemon = serve(launch, provider.entry())
    visitor = Visitor(daemon, provider)
    for fields in ({"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"},
                   {"Origin": "null"}, {"Origin": f"https://{visitor.host}.evil.example"}):
        assert visitor.begin(**fields).status == 403, fields
    assert visitor.begin(Host="evil.example", Origin="http://evil.example").status == 421
    location = visitor.begin()
    assert parse_qs(urlsplit(location).query)["redirect_uri"] == [f"http://{visitor.host}/console/signed-in/accounts"]
    assert visitor.begin(Origin=f"https://{visitor.host}").startswith("https://"), "behind a proxy that ends TLS"


def test_an_id_token_is_no_bearer_token(launch, provider):
    daemon = serve(launch, provider.entry())
    visitor = Visitor(daemon, provider)
    kept = []
    make = provider.id_token
    provider.id_token = lambda nonce: kept.append(make(nonce)) or kept[-1]
    assert visitor.sign_in()["signedIn"]
    visitor.cookies.clear()
    assert visitor.ask("GET", "/status", Authorization=f"Bearer {kept[0]}").status == 401
    assert visitor.ask("POST", "/console/session", {"token": kept[0]}).status == 401


def test_signing_out_ends_it_here_too(launch, provider):
    visitor = Visitor(serve(launch, provider.entry()), provider)
    assert visitor.sign_in()["signedIn"]
    kept = dict(visitor.cookies)
    said = json.loads(visitor.ask("DELETE", "/console/session").text)
    assert said["location"].startswith(f"{provider.issuer}/end?id_token_hint=")
    visitor.cookies = kept
    assert not visitor.session()["signedIn"]


async def test_it_ends_with_the_rule_that_let_it_in(launch, provider):
    entry = provider.entry()
    daemon = serve(launch, entry)
    visitor = Visitor(daemon, provider)
    assert visitor.sign_in()["signedIn"]
    entry["rules"] = [{"when": {"groups": "admins"}, "role": "publisher"}]
    daemon.configure(configs.config(auth={"issuers": [entry], "allowedAddresses": ["127.0.0.0/8"]}))
    daemon.signal(signal.SIGHUP)

    async def is_out():
        return visitor.ask("GET", "/v1/projects/demo/remoteConfig:listVersions").status == 403

    assert await until(is_out)


def test_an_id_token_that_is_a_bearer_token_too_stays_here(launch, provider):
    visitor = Visitor(serve(launch, provider.entry(audiences=["stalecast", CLIENT])), provider)
    assert visitor.sign_in()["signedIn"]
    said = json.loads(visitor.ask("DELETE", "/console/session").text)
    assert said["location"] == f"{provider.issuer}/end?client_id={CLIENT}"


def test_a_bad_place_to_sign_out_at_keeps_nobody_out(launch, provider):
    provider.says = {"end_session_endpoint": "javascript:alert(1)"}
    daemon = serve(launch, provider.entry())
    visitor = Visitor(daemon, provider)
    assert visitor.sign_in()["signedIn"] and "sign-outs end only here" in daemon.log_text()
    assert "location" not in json.loads(visitor.ask("DELETE", "/console/session").text)
    assert not visitor.session()["signedIn"]


def test_twenty_sign_ins_a_minute_are_enough(launch, provider):
    visitor = Visitor(serve(launch, provider.entry(), control={"trustedProxies": ["127.0.0.1"]}), provider)
    one, other = {"X-Forwarded-For": "10.0.0.1"}, {"X-Forwarded-For": "10.0.0.2"}
    assert all(isinstance(visitor.begin(**one), str) for _ in range(20))
    answer = visitor.begin(**one)
    assert answer.status == 429 and answer.headers["Retry-After"] == "60"
    assert isinstance(visitor.begin(**other), str)
    assert all(isinstance(visitor.begin(), str) for _ in range(25)), "on loopback there may be a proxy that says nothing"
