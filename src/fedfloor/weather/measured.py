"""Gains that follow from the rates of real transfers."""

__all__ = ["MeasuredGains"]

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.costs.radio import gain_of_rate
from fedfloor.scenario.resolved import Radio
from fedfloor.weather.draws import Weather


@dataclass(slots=True, eq=False)
class MeasuredGains:
    """Gains of the last transfer between every gateway and the base station, on every channel.

    A transfer is slowed by interference, too. A measured gain therefore includes it: it is the gain of a link without
    interference that has the same rate.
    """

    radio: Radio
    floors: int  #: M
    uplink: Floats = field(init=False)  #: (M, J) [1] nan before the first transfer
    downlink: Floats = field(init=False)  #: (M, J) [1]

    def __post_init__(self) -> None:
        self.uplink = np.full((self.floors, self.radio.channels), np.nan)
        self.downlink = np.full((self.floors, self.radio.channels), np.nan)

    def learn_upload(self, floor: int, channel: int, size_bits: float, seconds: float, *, power: float) -> None:
        """Keep the gain of an upload with so much power [W]; one that took no time says nothing."""
        if seconds > 0.0 and power > 0.0:
            self.uplink[floor, channel] = self._gain(size_bits / seconds, power, self.radio.uplink_bandwidth)

    def learn_download(self, floor: int, channel: int, size_bits: float, seconds: float) -> None:
        """Keep the gain of a download; one that took no time says nothing."""
        if seconds > 0.0:
            power = self.radio.base_station_power
            self.downlink[floor, channel] = self._gain(size_bits / seconds, power, self.radio.downlink_bandwidth)

    def applied(self, weather: Weather) -> Weather:
        """The weather with these gains in place of the ones of the links that they were measured on."""
        up, down = ~np.isnan(self.uplink), ~np.isnan(self.downlink)
        return dataclasses.replace(
            weather,
            uplink_gain=np.where(up, self.uplink, weather.uplink_gain),
            downlink_gain=np.where(down, self.downlink, weather.downlink_gain),
            uplink_interference=np.where(up, 0.0, weather.uplink_interference),
            downlink_interference=np.where(down, 0.0, weather.downlink_interference),
        )

    def _gain(self, rate: float, power: float, bandwidth: float) -> float:
        noise = self.radio.noise_density
        return float(gain_of_rate(np.array(rate), power, np.zeros(()), bandwidth=bandwidth, noise_density=noise))
