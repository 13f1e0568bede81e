"""A QUADS server in memory, for tests and for trying a lease by hand.

``core.Simulator`` answers requests (method, path, headers, body) with what a QUADS 2.2.6 server, or a newer one, was
seen to answer; tests/unit/plugins/module_utils/_lab/test_transcripts.py holds it to recorded exchanges. ``server``
puts it behind a real HTTPS port. ``virtual`` connects a client to it in-process, on a clock that jumps.
"""
