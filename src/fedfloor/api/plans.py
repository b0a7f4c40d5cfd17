"""One round: decide it, from a snapshot or from the log of a run."""

__all__ = ["decide_round", "plan", "plan_round"]

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from fedfloor.arguments import checked, given_path, refuse_other
from fedfloor.errors import RunLogError, SnapshotError, shown

if TYPE_CHECKING:
    from fedfloor.runs.plan import PlanAnswer, PlannedRound
    from fedfloor.runs.planned import ScenarioSource
    from fedfloor.runs.simulate import Run
    from fedfloor.runs.train import TrainedRun
    from fedfloor.scheduling.objects import PolicySource

#: a snapshot, as a file or as its data; a run, or its folder; or a scenario
RoundSource: TypeAlias = "ScenarioSource | Run | TrainedRun"

_STDIN = "standard input"  #: the name of a snapshot that is read from there


@checked
def plan(
    snapshot: "RoundSource",
    policy: "PolicySource | None" = None,
    *,
    solver: str | None = None,
    round: int | None = None,  # noqa: A002
    own: bool = False,
) -> "PlanAnswer":
    """Decide one round: of a snapshot (a file or its data), of a run or its folder, or the first one of a scenario.

    `round` says which round of a run, counted from 0. `policy` is `NAME[:key=value,...]` or an object; left out, it is
    the run's or the scenario's own, or ddsra with the V of the snapshot. As on the command line, the snapshot `"-"` is
    read from standard input.

    Returns the answer that `fedfloor plan --format json` prints. If a run's policy is your own, its folder names the
    code, `package.module:Class`; say with `own=True` that you trust that code, or name a policy.

    Examples
    --------
    >>> import fedfloor, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = fedfloor.simulate("quick", policy="ddsra:v=10", rounds=3, out=folder + "/run")
    >>> fedfloor.plan(folder + "/run", round=2)["optimality_gap"]
    0.0
    """
    return decide_round(plan_round(snapshot, policy, solver=solver, index=round, own=own))


@checked
def plan_round(
    source: "RoundSource",
    policy: "PolicySource | None" = None,
    *,
    solver: str | None = None,
    index: int | None = None,
    own: bool = False,
) -> "PlannedRound":
    """The round that `plan` decides, with the policy that is to decide it; `index` is its `round`."""
    from fedfloor.runs.plan import snapshot_round
    from fedfloor.scheduling.snapshot import parse_snapshot, read_snapshot, received_snapshot

    if _is_run(source):
        return _round_of(source, policy, solver, index)
    if _is_scenario(source):
        from fedfloor.runs.given import first_round

        if index not in (None, 0):
            problem = f"snapshot: is a scenario, of which only round 0 can be decided, got round {index}"
            raise SnapshotError(f"{problem}. Simulate it, then decide a round of the run")
        return first_round(source, policy, solver, own=own)
    if isinstance(source, Mapping):
        return snapshot_round(parse_snapshot(source, "snapshot"), policy, solver)
    if not isinstance(source, str | Path):
        raise SnapshotError(f"snapshot: must be a path, its data, a run or a scenario, got {shown(source)}")
    if source == "-":
        if index is not None:
            raise SnapshotError(
                f"{_STDIN}: a round is chosen of a run folder only, got {index}. Leave it out, or name a run folder"
            )
        return snapshot_round(received_snapshot(_standard_input(), _STDIN), policy, solver, label=_STDIN)
    path = given_path("snapshot", source)
    if not path.exists():
        kind = SnapshotError if index is None else RunLogError
        raise kind(f"{path}: does not exist. Name a snapshot file or a run folder")
    if path.is_dir():
        if index is None:
            raise RunLogError(
                f"{path}: is a run folder, so the round is needed. For example --round 0, or round=0 in Python"
            )
        from fedfloor.runs.logged import logged_round

        return logged_round(path, index, policy, solver, own=own)
    if index is not None:
        raise SnapshotError(f"{path}: is a file, and a round is chosen of a run folder only, got {index}. Leave it out")
    return snapshot_round(read_snapshot(path), policy, solver, label=str(path))


def _round_of(
    run: "Run | TrainedRun", policy: "PolicySource | None", solver: str | None, index: int | None
) -> "PlannedRound":
    """A round of a run that this process has made."""
    from fedfloor.runs.given import round_of_run

    if index is None:
        raise RunLogError("snapshot: is a run, so the round is needed. For example round=0")
    return round_of_run(run.scenario, run.records, index, policy, solver, folder=run.folder)


def _is_run(source: object) -> "TypeGuard[Run | TrainedRun]":
    return hasattr(source, "records")


def _is_scenario(source: object) -> "TypeGuard[ScenarioSource]":
    """Whether something is a scenario rather than a snapshot or a run folder."""
    from fedfloor.scenario import Scenario, is_preset

    if isinstance(source, Mapping):
        return "floors" in source and "gateways" not in source
    if isinstance(source, str | Path):
        path = Path(source)
        return path.suffix == ".toml" or (is_preset(str(source)) and not path.exists())
    return isinstance(source, Scenario)


def _standard_input() -> bytes:
    """Everything that standard input has, until it ends."""
    if sys.stdin is None:
        raise SnapshotError(f"{_STDIN}: is closed. Send a snapshot to it, or name a file")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise SnapshotError(f"{_STDIN}: cannot be read: {error.strerror}. Name a file in place of -") from None


@checked
def decide_round(planned: "PlannedRound", *, export: str | Path | None = None) -> "PlanAnswer":
    """Decide a round, and write it as a snapshot if asked."""
    from fedfloor.runs.plan import PlannedRound, answer, export_snapshot

    refuse_other("planned", planned, PlannedRound, "`plan_round` returns one")
    if export is not None:
        export_snapshot(planned, Path(export))  # first, because a decision can take long and the file may be refused
    return answer(planned)
