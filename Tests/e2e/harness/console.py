"""Moving about in the console."""


def go(browser, screen, scope="demo/firebase", **parameters):
    """Another screen, by its address."""
    query = "".join(f"&{name}={value}" for name, value in parameters.items())
    browser.evaluate(f"void (location.hash = '#/{screen}?scope={scope}{query}')")
    browser.shows(f"document.querySelector('h1')?.textContent === '{screen.capitalize()}' && !document.querySelector('.loading')")
