"""What commands print: tables for people, JSON for programs."""

__all__ = [
    "amount",
    "as_json",
    "downloading",
    "print_check",
    "print_evaluation",
    "print_holding",
    "print_json",
    "print_listing",
    "print_plan",
    "print_profile",
    "print_short",
    "print_simulation",
    "print_tradeoff",
    "print_training",
    "print_verified",
    "progress",
    "reading",
    "training",
    "working",
]

from fedfloor.cli.show.datasets import downloading, print_holding, print_short, print_verified
from fedfloor.cli.show.results import (
    as_json,
    print_evaluation,
    print_plan,
    print_simulation,
    print_tradeoff,
    print_training,
)
from fedfloor.cli.show.scenarios import print_check, print_listing, print_profile
from fedfloor.cli.show.terminal import amount, print_json, progress, working
from fedfloor.cli.show.watching import reading, training
