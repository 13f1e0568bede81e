"""Start a QUADS server to try leases on:  python tests/support/quads_simulator

It runs until Ctrl-C and forgets everything then. Machines are ready after seconds instead of an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from quads_simulator import server
from quads_simulator.clock import Clock
from quads_simulator.core import Simulator
from quads_simulator.lab import Config
from quads_simulator.state import deadline


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python tests/support/quads_simulator", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; any that is free by default")
    parser.add_argument("--folder", type=Path, help="folder for the certificate and server.json")
    parser.add_argument("--user", default="jo@example.com", help="a user who exists")
    parser.add_argument("--password", default="try-me", help="the user's password")
    parser.add_argument("--version", choices=["2.2.6", "dev"], default="2.2.6", help="behaviour of which server")
    parser.add_argument("--utc-offset", type=int, default=120, help="minutes that its local time is ahead of UTC")
    parser.add_argument("--database-offset", type=int, default=-300, help="the same for its database")
    parser.add_argument("--move", type=float, default=5, help="seconds until machines are installed")
    parser.add_argument("--validate", type=float, default=10, help="seconds until they are checked, afterwards")
    parser.add_argument("--inventory", type=float, default=5, help="period in seconds of the inventory files")
    parser.add_argument("--no-tickets", action="store_true", help="make no tickets (and, in 2.2.6, no leases either)")
    parser.add_argument("--deadline-day", default="sunday", help="day on which leases end")
    parser.add_argument("--verbose", action="store_true", help="print each request")
    return parser.parse_args()


def main() -> None:
    """Serve until stopped."""
    given = options()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="quads-simulator-"))
    config = Config(
        version=given.version,
        utc_offset=given.utc_offset,
        database_offset=given.database_offset,
        tickets=not given.no_tickets,
        deadline_day=given.deadline_day,
        move_delay=given.move,
        validate_delay=given.validate,
        inventory_period=given.inventory,
    )
    # The lab gives out nothing between its weekly deadline and midnight: begin a day earlier then.
    now = time.time()
    past = deadline(now, given.deadline_day, 21, given.utc_offset) - now < 6 * 3600
    simulator = Simulator(config, Clock(now - 86400 * past, speed=1.0))
    simulator.access.add(given.user, given.password)
    running = server.start(simulator, folder, given.port, given.verbose)
    document = {"url": running.url, "ca": str(running.ca), "user": given.user, "pid": os.getpid()}
    part = folder / ".server.json"
    part.write_text(json.dumps(document), encoding="utf-8")
    part.rename(folder / "server.json")
    print(f"a QUADS {given.version} simulator at {running.url}, until Ctrl-C")
    print("try a lease on it, from another terminal:\n")
    print(f"  export SEATRIAL_QUADS_LEASE_PASSWORD={given.password}")
    print("  ansible-playbook playbooks/lease.yml -e preset=three_nodes \\")
    print(f"    -e quads_lease_api_url={running.url} -e quads_lease_ca_path={running.ca} \\")
    print(f"    -e quads_lease_username={given.user} -e quads_lease_wait_interval=2 -e quads_lease_min_lifetime=0\n")
    steer = f"curl --cacert {running.ca} {running.url}/simulator"
    print(f"look at it:      {steer}")
    print(f"break something: {steer} -d '{json.dumps({'faults': {'tickets_down': True}})}'")
    sys.stdout.flush()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        running.stop()


if __name__ == "__main__":
    main()
