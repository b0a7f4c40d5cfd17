"""A radio of the user's own, which the base station sets to the decisions of a round before it sends the orders."""

__all__ = ["Radio", "RadioSetting", "make_radio", "tuned"]

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from fedfloor.errors import DeploymentError, FailedRunError, shown
from fedfloor.references import make_own, where_raised


@dataclass(frozen=True, slots=True)
class RadioSetting:
    """What is decided for the radio link of one floor in one round."""

    floor: str  #: its name
    channel: int  #: j
    power: float  #: [W] P_m, at which its gateway sends
    download_rate: float  #: [bit/s] that the prediction rests on
    upload_rate: float  #: [bit/s]


class Radio(Protocol):
    """Sets the radio links between the base station and the gateways."""

    def problem(self) -> str | None:
        """Say in a sentence why it cannot work on this machine, and what to do; None if it can. Called at the start."""

    def begin(self, settings: Sequence[RadioSetting]) -> None:
        """Set the links of the floors that take part in a round; their orders are sent afterwards."""

    def end(self) -> None:
        """End the round; all floors have answered or are lost."""


def make_radio(name: str) -> Radio:
    """Make the radio `package.module:Class`; a DeploymentError says why it cannot work on this machine."""
    label = f"--radio {shown(name)}"
    radio: Radio = make_own(name, label, DeploymentError, ("problem", "begin", "end"), page="docs/machines.md")
    try:
        problem = radio.problem()
    except (Exception, SystemExit) as error:  # the user's class may raise anything
        raise DeploymentError(f"{label}: its problem() failed: {where_raised(error)}") from error
    if problem is not None:
        raise DeploymentError(f"{label}: {problem}")
    return radio


@contextmanager
def tuned(radio: Radio | None, settings: Sequence[RadioSetting]) -> Iterator[None]:
    """Set a radio, if there is one, until the block ends, also by an error."""
    if radio is None:
        yield
        return
    try:
        radio.begin(settings)
    except (Exception, SystemExit) as error:  # likewise
        raise _failed("begin", error) from error
    try:
        yield
    finally:
        try:
            radio.end()
        except (Exception, SystemExit) as error:  # likewise
            raise _failed("end", error) from error


def _failed(method: str, error: BaseException) -> FailedRunError:
    problem = f"--radio: its {method}() failed: {where_raised(error)}"
    return FailedRunError(f"{problem}. Fix the cause, then resume the run")
