"""The nodes of a cluster on the console's page Health."""

from harness.cli import Cli
from harness.console import go
from harness.edges import add_edge


def test_the_console_lists_the_nodes_and_those_that_went(start_etcd, start_cluster, request, browser):
    cluster = start_cluster(start_etcd(1), 1)
    a, edge = cluster.nodes[0], add_edge(cluster, "far-away")
    request.node.daemons.append(edge)
    cluster.start()
    arguments = ["--control", f"http://127.0.0.1:{a.control}", "--token-file", str(cluster.token_file)]
    browser.open(Cli(a).json("console", *arguments)["url"])
    browser.has("Sign out")
    go(browser, "health")
    browser.has("The cards count what this node did: ")
    titles = "[...document.querySelectorAll('.columns .card h2')].map(title => title.textContent)"
    assert all(title.endswith(" of this node") for title in browser.shows(titles))
    row = "[...document.querySelectorAll('tr')].find(row => row.textContent.includes('far-away'))?.textContent"
    browser.shows(f"/edge.*current/.test({row})")
    edge.stop()
    browser.shows(f"/edge.*cut off or ended/.test({row})")
    assert not browser.complaints, browser.complaints
    page = Cli(a)("cluster", "status", *arguments)
    line = next(line for line in page.splitlines() if line.startswith("far-away"))
    assert "cut off or ended" in line
