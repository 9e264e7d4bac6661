"""How the screens look, in both widths and both schemes, beside the pictures in `pictures.json`.

`STALECAST_PICTURES=write` writes them anew: look at the screens first, then at what the commit changes.
"""

import json
import os
import time
from pathlib import Path

import pytest

from harness import picture
from harness.cli import Cli
from harness.console import go
from harness.daemon import REPOSITORY

SCREENS = ("now", "template", "evaluate", "versions", "clients", "webhooks", "sources", "messages", "keys", "audit", "health")
SIZES = ((1440, 900), (390, 844))
WRITES = os.environ.get("STALECAST_PICTURES") == "write"
KEPT = Path(__file__).with_name("pictures.json")
# Letters of another font move a few words; a scheme, a card or a column that is lost is far more.
MOST = 0.06


def filled(launch):
    daemon = launch("webhooks:\n  allowedAddresses: [127.0.0.0/8]\n")
    cli = Cli(daemon)
    templates = REPOSITORY / "samples/templates"
    cli("publish", str(templates / "demo.json"), "--description", "first", "--user", "Ada")
    cli("publish", str(templates / "demo-winter.json"), "--description", "winter", "--user", "Grace", "--allow-removals")
    cli("webhooks", "add", "http://127.0.0.1:1/hook")
    return daemon


def read():
    return {name: picture.unpacked(text) for name, text in json.loads(KEPT.read_text()).items()}


def settled(browser, width, height, wanted):
    """The picture once it is as wanted, else once it has not changed for a second."""
    rows, same, deadline = picture.picture(browser, width, height), 0, time.monotonic() + 10
    while same < 5 and time.monotonic() < deadline:
        if wanted is not None and picture.difference(rows, wanted) <= MOST:
            break
        time.sleep(0.2)
        before, rows = rows, picture.picture(browser, width, height)
        same = same + 1 if picture.difference(before, rows) < 0.002 else 0
    return rows


@pytest.mark.limit(240)
def test_the_screens_look_as_they_did(launch, browser, console):
    console(filled(launch))
    kept, seen = {} if WRITES else read(), {}
    for width, height in SIZES:
        browser.resize(width, height)
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            for screen in SCREENS:
                go(browser, screen)
                browser.shows("[...document.querySelectorAll('#strip dd')].length === 5")
                if screen == "now":
                    browser.shows("document.querySelectorAll('.timeline svg, .changes').length === 2")
                name = f"{screen} {width} {scheme}"
                seen[name] = settled(browser, width, height, kept.get(name))
    if WRITES:
        KEPT.write_text(json.dumps({name: picture.packed(rows) for name, rows in seen.items()}, indent=0, sort_keys=True) + "\n")
        kept = read()
    assert kept.keys() == seen.keys()
    others = {name: share for name in seen if (share := picture.difference(seen[name], kept[name])) > MOST}
    assert not others, "these look otherwise than they did; STALECAST_PICTURES=write keeps the new look"
    # A comparison that takes anything would pass, too.
    assert picture.difference(seen["now 1440 light"], kept["now 1440 dark"]) > 0.5
    assert picture.difference(seen["template 390 light"], kept["health 390 light"]) > MOST
    browser.evaluate("document.querySelector('link[rel=stylesheet]').remove()")
    assert picture.difference(picture.picture(browser, *SIZES[-1]), kept["health 390 dark"]) > MOST
