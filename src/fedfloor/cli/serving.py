"""What the commands that run a plant of real machines have in common, on one machine or on many."""

__all__ = ["run_plant"]

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from fedfloor.cli.options import Format
from fedfloor.errors import StoppedRunError

if TYPE_CHECKING:
    from fedfloor.deploy.serving import DeployedRun
    from fedfloor.rounds.events import Event, Tell
    from fedfloor.runs.planned import PlannedRun


class _View(Protocol):
    done: int  #: rounds

    def show(self, event: "Event") -> None:
        """Show one event of the run."""


def run_plant(
    scenario: str,
    policy: str | None,
    rounds: int | None,
    form: Format,
    *,
    view: "Callable[[PlannedRun], AbstractContextManager[_View]]",
    serve: "Callable[[PlannedRun, Tell], DeployedRun]",
    **planning: Any,
) -> None:
    """Plan one run, let `serve` run it while a `view` shows its events, and print the result.

    `planning` is the rest of what `api.plan_runs` takes.
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.machines import deployed_as_json, print_deployed

    with own_code_on_stderr():
        policies = [] if policy is None else [policy]
        (planned,) = api.plan_runs(scenario, policies, rounds, training=True, **planning)
        assert planned.folder is not None
        with view(planned) as shown:
            try:
                done = serve(planned, shown.show)
            except KeyboardInterrupt:
                raise StoppedRunError(api.what_is_left(planned.folder, shown.done)) from None
    print_result(done, form, print_deployed, deployed_as_json)
