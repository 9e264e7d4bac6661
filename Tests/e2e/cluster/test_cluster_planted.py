"""Campaigns can fail: a cluster with one node that lies in one way is loaded as always, and the judgement says it.

Between daemon and clients stands a proxy that does it; the lies of a daemon's insides (an entry applied out of order, a
gap skipped, two owners) are planted in simulations, Tests/StalecastClusterTests and Tests/StalecastRecordsTests."""

import asyncio
import contextlib

import pytest

from harness import liar
from harness.campaign import Campaign

LIES = [
    (liar.Denies, "control", "was denied by b and is"),
    (liar.Loses, "control", "was acknowledged by b as 1 and is not in the log"),
    (liar.Stale, "edge", "after message"),
    (liar.Disorders, "edge", "'demo/firebase') version"),
    (liar.Invents, "edge", "was announced, the store shows"),
    (liar.Doubles, "control", "is 2 times in the log"),
]


@pytest.mark.limit(180)
async def test_a_node_that_lies_is_found_out(cluster):
    for kind, listener, sentence in [(None, None, ""), *LIES]:
        lying = kind(cluster.nodes[1], listener) if kind else contextlib.nullcontext()
        async with lying, Campaign(cluster, name=kind.__name__ if kind else "") as campaign:
            await campaign.recovered()
            async with asyncio.timeout(20):
                while kind and lying.lies < kind.least:
                    await asyncio.sleep(0.1)
            log, shown = await campaign.finish()
            faults = campaign.faults(log, shown)
        if kind:
            assert [fault for fault in faults if sentence in fault], (kind.__name__, faults[:5])
        else:
            assert not faults, faults
