"""Options of the programs of a real plant: one list for the command line and Python."""

__all__ = ["DeviceOptions", "GatewayOptions", "LocalOptions", "RoundsOptions", "ServerOptions"]

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fedfloor.runs.options import DATA_DIR, Option, check_options

_CERTS = "Folder of this machine's certificate, as `fedfloor certs` wrote it. Without it, only loopback addresses work."
_ENERGY = Option(
    "Joules of each round: a number, file:PATH or command:PROGRAM. Default: as the scenario says.", metavar="SOURCE"
)
_METER = Option("Counter of joules spent: none, auto, rapl or file:PATH.", metavar="COUNTER")
_ACTUATOR = Option("What carries out decisions: log, pace, cgroup, cpufreq or package.module:Class.", metavar="NAME")
_FREQUENCY = Option(
    "Clock of the processor, for measured costs, where the machine does not say it.", "GHZ", least=1e-6, most=1e3
)
_OWN = Option("Import the model if the plant names one as package.module:callable.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsOptions:
    """Options of every command that runs rounds of real machines."""

    resume: Annotated[bool, Option("Resume from the last checkpoint of the run folder.")] = False
    wait: Annotated[
        float, Option("Wait this long for all floors and devices before the first round.", metavar="SECONDS", least=0)
    ] = 300.0
    until_accuracy: Annotated[
        float | None, Option("End when an evaluation reaches this accuracy.", metavar="A", least=0, most=1)
    ] = None
    until_loss: Annotated[
        float | None, Option("End when the test loss of an evaluation is at most this.", metavar="LOSS", least=0)
    ] = None
    until_clock: Annotated[
        float | None, Option("End when rounds have taken this long in total.", metavar="SECONDS", least=0)
    ] = None
    workers: Annotated[int | None, Option("Processes that evaluate; one per core if left out.", least=1, most=256)] = (
        None
    )
    data_dir: Annotated[Path | None, DATA_DIR] = None

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(RoundsOptions):
    """Options of `fedfloor server`."""

    listen: Annotated[str, Option("Address on which gateways join; port 0 takes a free one.", metavar="HOST:PORT")] = (
        "127.0.0.1:7443"
    )
    certs: Annotated[Path | None, Option(_CERTS, metavar="DIR")] = None
    radio: Annotated[
        str | None,
        Option("What sets radio links to the decisions before orders are sent.", metavar="package.module:Class"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Options of `fedfloor gateway`."""

    server: Annotated[str, Option("Address of the base station.", metavar="HOST:PORT")] = "127.0.0.1:7443"
    listen: Annotated[str, Option("Address on which devices join; port 0 takes a free one.", metavar="HOST:PORT")] = (
        "127.0.0.1:7444"
    )
    certs: Annotated[Path | None, Option(_CERTS, metavar="DIR")] = None
    name: Annotated[
        str | None,
        Option("Floor of this gateway, as in the scenario. Default: the certificate's name.", metavar="FLOOR"),
    ] = None
    processes: Annotated[int | None, Option("Processes that train; one per core if left out.", least=1, most=256)] = (
        None
    )
    actuator: Annotated[str, _ACTUATOR] = "log"
    energy: Annotated[str | None, _ENERGY] = None
    energy_meter: Annotated[str, _METER] = "none"
    frequency_ghz: Annotated[float | None, _FREQUENCY] = None
    state: Annotated[Path | None, Option("Folder for rounding errors that must outlast a restart.", metavar="DIR")] = (
        None
    )
    own: Annotated[bool, _OWN] = False

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """Options of `fedfloor device`."""

    gateway: Annotated[str, Option("Address of the gateway.", metavar="HOST:PORT")] = "127.0.0.1:7444"
    data: Annotated[
        str | None,
        Option(
            "What the device holds: FILE.npz with samples and labels, package.module:callable that returns them, or "
            "scenario:NAME for its share of a scenario's data set.",
            metavar="DATA",
        ),
    ] = None
    certs: Annotated[tuple[str, ...], Option(f"{_CERTS} Repeatable: one device each.", metavar="DIR")] = ()
    names: Annotated[
        tuple[str, ...],
        Option("Name of the device in the scenario; repeatable. Default: the certificate's.", "NAME", "name"),
    ] = ()
    actuator: Annotated[str, _ACTUATOR] = "log"
    energy: Annotated[str | None, _ENERGY] = None
    energy_meter: Annotated[str, _METER] = "none"
    frequency_ghz: Annotated[float | None, _FREQUENCY] = None
    allow_samples: Annotated[bool, Option("Let samples leave the device, which cut 0 asks for.")] = False
    allow_gradients: Annotated[
        bool, Option("Let gradients leave the device, which estimated participation rates need.")
    ] = False
    allow_class_counts: Annotated[
        bool, Option("Tell how many samples of each class there are, if the scenario allows it.")
    ] = False
    own: Annotated[bool, _OWN] = False
    data_dir: Annotated[Path | None, DATA_DIR] = None

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions(RoundsOptions):
    """Options of `fedfloor local-plant`."""

    actuator: Annotated[str, _ACTUATOR] = "log"
    frequency_ghz: Annotated[float | None, _FREQUENCY] = None
    together: Annotated[bool, Option("Run all devices of a floor in one process, which needs less memory.")] = False
