"""What a person sees who may read one project only, what is left when a session has ended, and where the focus goes."""

import asyncio

from harness.cli import Cli
from harness.keys import change_key, make_key
from harness.sse import Stream
from harness.templates import marked

STRIP = "[...document.querySelectorAll('#strip .cell')].map(cell => cell.innerText.replaceAll('\\n', ' '))"
GAPS = """(() => { const line = document.querySelector('#strip dl').getBoundingClientRect()
    return [...document.querySelectorAll('#strip .cell')].map(cell => cell.getBoundingClientRect())
      .reduce((rest, cell) => rest - cell.width, line.width) })()"""


async def test_the_strip_of_a_person_who_may_not_read_all_has_no_empty_cells(launch, browser):
    daemon = launch()
    await daemon.publish(marked("for this project only"))
    key, text = await make_key(daemon, {"role": "viewer", "projects": ["demo"]})
    browser.excused = ("status of 401",)
    browser.open(f"http://127.0.0.1:{daemon.control}/console/")
    browser.resize(1280, 800)
    browser.shows("!!document.querySelector('input[type=password]')")
    browser.evaluate("document.querySelector('input[type=password]').focus()")
    browser.type(text)
    browser.press("Enter")
    browser.has("Sign out")
    seen = browser.shows(STRIP, lambda cells: cells and all(cells))
    assert [cell.split()[0] for cell in seen] == ["Reached", "Version", "Behind"], seen
    assert abs(browser.evaluate(GAPS)) < 2, "three cells take the whole line"
    # A message of the session must not stay for those who look at the page next.
    stream = await Stream.open(daemon.edge)
    await asyncio.to_thread(Cli(daemon), "set", "welcome_text=two", "--create", "string", "--yes")
    browser.shows(STRIP, lambda cells: cells and cells[1].startswith("Version 2"))
    assert (await change_key(daemon, key, "revoke")).status == 200
    browser.has("The session is over")
    left = browser.text()
    assert "Version" not in left and "for this project only" not in left and "demo" not in left, left
    assert not browser.evaluate("!!document.getElementById('strip')")
    stream.close()


async def test_the_focus_comes_back_to_a_button_that_a_table_has_made_anew(launch, browser, console):
    daemon = launch()
    await make_key(daemon, {"role": "viewer"}, name="ci")
    console(daemon, "keys")
    browser.tab_to("e.ariaLabel === 'Revoke ci'")
    browser.evaluate("void (window.opener_ = document.activeElement)")
    browser.press("Enter")
    browser.shows("!!document.querySelector('dialog[open]')")
    browser.advance(6)
    browser.shows("!window.opener_.isConnected")
    browser.press("Escape")
    browser.shows("document.activeElement.ariaLabel", lambda label: label == "Revoke ci")
    # A page that is shown anew after a change takes the focus itself.
    browser.press("Enter")
    browser.tab_to("e.closest('dialog') && e.textContent === 'Revoke'")
    browser.press("Enter")
    browser.shows("!document.querySelector('dialog[open]') && document.activeElement.textContent", lambda text: text == "Keys")
