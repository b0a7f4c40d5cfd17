"""How costs are shared among the layers of a network, by every cost model: `fedfloor profile --compare`."""

__all__ = ["LayerShares", "layer_shares"]

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from fedfloor.arrays import Floats
from fedfloor.costs.hardware import read_profile
from fedfloor.costs.layers import layer_costs
from fedfloor.costs.measured import is_measured, layer_seconds, refuse_misfit, step_seconds
from fedfloor.errors import ProfileError
from fedfloor.runs.profile import inferred_layers, named_model
from fedfloor.scenario.model import Costs


@dataclass(frozen=True, slots=True, eq=False)
class LayerShares:
    """Shares of the layers in the forward and backward passes, one row per cost model or profile."""

    model: str
    batch: int  #: samples in a batch, for measured costs
    layers: tuple[str, ...]
    labels: tuple[str, ...]  #: `paper`, `exact`, then the profiles' files, by as much of their paths as differs
    shares: Floats  #: (S, L) [1] of FLOPs or of measured seconds; every row adds up to 1
    totals: Floats  #: (S,) [s] of one step with the batch, what it spends beside layers included; nan for counted FLOPs
    measured: tuple[int, ...]  #: (S,) layers that were measured; the others follow from the speed of their kind

    def table(self) -> dict[str, JsonValue]:
        """Everything that is printed, as plain data with units in the keys."""
        rows: list[JsonValue] = [
            {
                "costs": label,
                "seconds": None if np.isnan(total) else float(total),
                "layers_measured": count,
                "shares": shares.tolist(),
            }
            for label, total, count, shares in zip(self.labels, self.totals, self.measured, self.shares, strict=True)
        ]
        return {"model": self.model, "batch": self.batch, "layers": list(self.layers), "costs": rows}


def layer_shares(
    name: str, shape: str | None, profiles: Sequence[Path], *, batch: int, overrides: Sequence[str] = ()
) -> LayerShares:
    """Shares by the paper's Table II, by exact FLOPs and by each hardware profile."""
    model = named_model(name, shape, overrides)
    layers = inferred_layers(model, Costs(), f"profile {name}")
    rows = [layer_costs(layers, cost_model).flop for cost_model in ("paper", "exact")]
    labels = ["paper", "exact", *_distinct(profiles)]
    totals, measured = [np.nan, np.nan], [0, 0]
    samples = np.array([float(batch)])
    for path in profiles:
        profile = read_profile(path)
        refuse_misfit(profile, layers, str(path))
        seconds = layer_seconds(profile, layers, samples)[0]
        if not seconds.sum() > 0.0:
            problem = f"the times of all layers add up to 0 s with a batch of {batch}"
            raise ProfileError(f"{path}: layers: {problem}. Measure again, with this batch too")
        rows.append(seconds)
        totals.append(float(seconds.sum() + step_seconds(profile, samples)[0]))
        measured.append(int(is_measured(profile, layers).sum()))
    costs = np.array(rows)
    return LayerShares(
        model=model.name,
        batch=batch,
        layers=tuple(layer.name for layer in layers),
        labels=tuple(labels),
        shares=costs / costs.sum(axis=1, keepdims=True),
        totals=np.array(totals),
        measured=tuple(measured),
    )


def _distinct(paths: Sequence[Path]) -> list[str]:
    """The last parts of every path, as few as tell it from the others; a path that is given twice stays whole."""
    whole = [path.absolute().parts for path in paths]
    labels = []
    for index, parts in enumerate(whole):
        others = [other for at, other in enumerate(whole) if at != index]
        count = next((n for n in range(1, len(parts)) if all(other[-n:] != parts[-n:] for other in others)), None)
        labels.append(str(paths[index]) if count is None else str(Path(*parts[-count:])))
    return labels
