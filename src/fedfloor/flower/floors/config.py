"""The configuration of the app whose nodes are floors."""

__all__ = ["FloorsConfig", "Table"]

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, ValidationError

from fedfloor.errors import DeploymentError
from fedfloor.scenario.findings import one_line

Table = Mapping[str, bool | float | int | str]  #: a table of an app's configuration
Seconds = Annotated[float, Field(ge=0.0, lt=1e9, allow_inf_nan=False)]


class FloorsConfig(
    BaseModel, frozen=True, extra="ignore", strict=True, alias_generator=lambda key: key.replace("_", "-")
):
    """Keys of the app's configuration, `[tool.flwr.app.config]`; those with `_` are written with `-` there."""

    scenario: str = "quick"  #: a preset, or the path of a file that server and SuperNodes have
    policy: str = ""  #: empty: that of the scenario
    rounds: int = Field(default=0, ge=0)  #: 0: as the scenario says
    seed: int = -1  #: -1: as the scenario says
    set: str = ""  #: `section.key=value`, several with `;` between them
    out: str = ""  #: run folder; empty: below runs/
    resume: bool = False  #: go on from the last checkpoint of the run folder
    data_dir: str = ""  #: folder with data sets; empty: where `fedfloor` looks
    own: bool = False  #: trust the code that the scenario names
    clock: Literal["model", "measured"] = "model"  #: what rounds take: as in a simulation, or as long as they took
    inputs: Literal["agreed", "scenario"] = "agreed"  #: scale of the inputs: by sums of the floors, or of all its data
    patience: Seconds = 60.0  #: for Flower itself, added to every deadline
    wait: Seconds = 300.0  #: for all floors to join before the first round, and for anybody at all before others

    @classmethod
    def of(cls, *sources: Table) -> Self:
        """The configuration that several tables make, of which later ones count; keys that are not ours do not."""
        try:
            return cls.model_validate({key: value for source in sources for key, value in source.items()})
        except ValidationError as error:
            raise DeploymentError(
                one_line(error, "app config", reference="docs/flower_floors.md describes every key")
            ) from None

    @property
    def overrides(self) -> list[str]:
        """What `set` names."""
        return [part.strip() for part in self.set.split(";") if part.strip()]

    @property
    def folder(self) -> Path | None:
        """Folder with data sets."""
        return Path(self.data_dir) if self.data_dir else None
