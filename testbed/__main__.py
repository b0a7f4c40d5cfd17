"""Run a plant on a network with the rates of its scenario, and compare predicted with real seconds of every round.

`python -m testbed` runs the scenario of its own, `python -m testbed SCENARIO` another one; see docs/testbed.md.
"""

__all__ = ["main"]

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from fedfloor.errors import FailedRunError, FedfloorError
from testbed.running import Request, run

_OWN = Path(__file__).parent / "floors.toml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        run(_request(arguments))
    except (FedfloorError, FailedRunError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, FedfloorError) else 1
    except KeyboardInterrupt:
        print("stopped; all programs have ended and the network is removed", file=sys.stderr)
        return 130
    return 0


def _request(arguments: Sequence[str] | None) -> Request:
    parser = argparse.ArgumentParser(
        prog="python -m testbed",
        description="Run a plant on a network with the rates of its scenario, and compare predicted with real seconds.",
    )
    add = parser.add_argument
    add(
        "scenario",
        nargs="?",
        default=str(_OWN),
        metavar="SCENARIO",
        help="file or preset; default: testbed/floors.toml",
    )
    add("--policy", action="append", default=[], metavar="NAME[:KEY=VALUE,...]", help="run this policy; repeatable")
    add("--rounds", type=int, metavar="N", help="rounds of every policy")
    add("--seed", type=int, metavar="N", help="seed of the scenario")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a value of the scenario; repeatable")
    add("--out", type=Path, default=Path("runs/testbed"), metavar="DIR", help="folder for runs and logs, not there yet")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--namespaces", action="store_true", help="shape network namespaces: the default for root")
    kind.add_argument("--proxy", action="store_true", help="shape with a proxy: the default for others")
    chosen = parser.parse_args(arguments)
    return Request(
        scenario=chosen.scenario,
        policies=tuple(chosen.policy),
        rounds=chosen.rounds,
        seed=chosen.seed,
        overrides=tuple(chosen.set),
        out=chosen.out,
        network="namespaces" if chosen.namespaces else "proxy" if chosen.proxy else None,
    )


def _interrupt(*_: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # another one must not interrupt the closing
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
