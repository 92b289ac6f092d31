"""The comparison of backpressures: the same topology and the same slow bolt, under four ways to hold spouts back.

    source ×4 (2,000 × 10 tuples/s in all, at least once) ─shuffle─► pass ×2 ─shuffle─► slow ×10 (5 ms a tuple each)

    none    hop by hop only: a full mailbox holds its senders, and they theirs (`backpressure_enable=False`)
    heron   a queue past its high mark stops all spouts, and when all are below their low mark they go on (ways.py)
    pending only so many messages of a spout task may be open (`topology.max.spout.pending`)
    ours    coordinated: the topology's master slows its spouts down (`backpressure_enable=True`, the rest by default)

1. Each run has a process of its own: what one leaves in memory is not seen in the next.
2. The slow bolt waits, as for a database, and does not compute. In one event loop a bolt that computes keeps its own
   spout from running: it would hold it back by itself, whatever the way.
3. How fast it is, is a schedule that is known beforehand (slowness.py): so is what it can bear, at each moment.
4. Nothing counts before it was checked: every number was done at least once, and acked.
5. The source gives what it has at ten times the rate that the bolt can bear, and no more: it is not the machine that
   says how far above it goes.

Files: `slowness.py` the schedules; `tally.py` what is counted; `topology.py` what runs; `ways.py` how spouts are held;
`run.py` one run; `figures.py` what it comes to, `table.py`, `plots.py` and `__main__.py` how it is shown.
"""
