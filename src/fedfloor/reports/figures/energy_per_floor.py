"""Where the energy of a floor's round goes."""

__all__ = ["FIGURE", "SPENDERS", "measure"]

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.costs.compute import floor_sum
from fedfloor.costs.radio import upload_energy
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.drawing.stacks import stacks_figure
from fedfloor.reports.measures.splits import Split, split_of
from fedfloor.reports.palette import PART_COLOURS

#: of a floor's energy
SPENDERS = ("devices", "links", "gateway computing", "gateway transmitting")
_COLOURS = dict(zip(SPENDERS, map(PART_COLOURS.__getitem__, ("device", "link", "gateway", "upload")), strict=True))


def measure(series: SeriesArrays) -> Split:
    """Energy [J] of every floor by spender; a gateway that ran out counts as having transmitted first."""
    return split_of(series, SPENDERS, _energies)


def _energies(run: RunArrays) -> Floats:
    """Energy [J] of every floor by SPENDERS, (4, T, M); 0 where not selected."""
    devices, gateway = _on_floors(run, np.nan_to_num(run.device_energy)), np.nan_to_num(run.energy)
    is_sent = np.isfinite(run.power) & np.isfinite(run.upload)
    transmitting = upload_energy(np.where(is_sent, run.power, 0.0), np.where(is_sent, run.upload, 0.0))
    transmitting = np.minimum(transmitting, gateway)
    computing = np.asarray(gateway - transmitting)
    of_devices, of_gateway = _link_energies(run)
    of_devices, of_gateway = np.minimum(of_devices, devices), np.minimum(of_gateway, computing)
    return np.stack([devices - of_devices, of_devices + of_gateway, computing - of_gateway, np.asarray(transmitting)])


def _link_energies(run: RunArrays) -> tuple[Floats, Floats]:
    """Energy [J] of every floor's devices and of its gateway on the links between them, (T, M) each."""
    if run.plant.link_costs is None:
        return np.zeros(run.selected.shape), np.zeros(run.selected.shape)
    links = run.plant.link_costs.at(np.nan_to_num(run.cut).astype(np.int64))
    busy = ~np.isnan(run.cut)
    return (
        _on_floors(run, np.where(busy, links.device_energy, 0.0)),
        _on_floors(run, np.where(busy, links.gateway_energy, 0.0)),
    )


def _on_floors(run: RunArrays, per_device: Floats) -> Floats:
    """Sum over the devices of every floor, (T, N) -> (T, M)."""
    return np.stack([floor_sum(row, run.plant.devices.floor, run.plant.gateways.count) for row in per_device])


FIGURE = stacks_figure(measure, quantity="energy", unit="J", colours=_COLOURS, links="links", position=70)
