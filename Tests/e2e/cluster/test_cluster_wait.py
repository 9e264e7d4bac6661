"""`--wait` in a cluster, where a node knows whose its own streams are and only counts those of the others."""

import asyncio

from harness.cli import REFUSED, Cli
from harness.sse import Stream
from harness.templates import marked


async def test_a_stage_that_cannot_be_counted_is_refused_before_the_publish(start_cluster, start_etcd):
    cluster = start_cluster(start_etcd(count=1), count=2)
    a, b = cluster.nodes
    version = await a.publish(marked("one"))
    await cluster.settled()
    streams = [await Stream.open(node.edge, have=version) for node in (a, b) for _ in range(3)]
    streams.append(await Stream.open(a.edge, client="named", have=version))
    for stream in streams:
        await stream.synced()
    cli, token = Cli(a), ("--token-file", a.token_file)
    words = ("publish", cli.file(marked("two")), *token, "--yes", "--wait", "90%", "--timeout", "20s", "--stage")
    told = await asyncio.to_thread(cli, *words, "fetched", code=REFUSED)
    assert "3 of 4 streams at this daemon" in told.err and "nothing was published" in told.err, told.err
    assert cli.json("versions", *token)["versions"][0]["versionNumber"] == str(version)
    said = await asyncio.to_thread(cli, *words, "sent")
    assert f"published version {version + 1}" in said, said
    for stream in streams:
        stream.close()
