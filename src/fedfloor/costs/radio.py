"""Time and energy on the air, Eq. (6)-(8), and the gain they rest on (Sec. III-C)."""

__all__ = ["gain_of_rate", "path_gain", "transmit_time", "upload_energy", "usable_gain"]

import numpy as np

from fedfloor.arrays import Floats

_MOST_GAIN = 1e300  #: [1] far above any real one, so that what follows stays finite
_MOST_RATIO = 1e250  #: [1/W] of gain to noise, likewise


def path_gain(distance: Floats, *, reference_gain: float, reference_distance: float, exponent: float) -> Floats:
    """Mean channel gain h_0 (d_0/d_m)^nu, at most 1e300; distance [m] -> [1], same shape."""
    with np.errstate(over="ignore"):
        return np.minimum(reference_gain * (reference_distance / distance) ** exponent, _MOST_GAIN, dtype=float)


def usable_gain(gain: Floats, noise: Floats) -> Floats:
    """Gain [1] of a link, limited where the ratio to its noise [W] would exceed 1e250 and overflow later."""
    with np.errstate(over="ignore"):
        return np.minimum(gain, _MOST_RATIO * noise)


def transmit_time(
    size_bits: float,
    power: Floats | float,
    gain: Floats,
    interference: Floats,
    *,
    bandwidth: float,
    noise_density: float,
) -> Floats:
    """Model transfer time [s] on every link: Eq. (6) down, Eq. (7) up.

    power (M, 1) [W], gain (M, J) [1], interference (M, J) [W] -> (M, J); zero power or gain gives inf, and so does a
    time beyond the largest float.
    """
    noise = bandwidth * noise_density + interference  # (M, J) [W]
    snr = power * usable_gain(gain, noise) / noise  # (M, J)
    rate = bandwidth * np.log1p(snr) / np.log(2.0)  # (M, J) [bit/s]
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(size_bits / rate, dtype=float)


def gain_of_rate(
    rate: Floats, power: Floats | float, interference: Floats, *, bandwidth: float, noise_density: float
) -> Floats:
    """Gain [1] of links that carry a rate [bit/s], Eq. (6) and (7) solved for it; same shape.

    power [W] must be > 0. The gain is limited as in `usable_gain`, so that a rate beyond all radios has one too.
    """
    noise = bandwidth * noise_density + interference  # [W]
    with np.errstate(over="ignore"):
        return usable_gain(noise * np.expm1(rate / bandwidth * np.log(2.0)) / power, noise)


def upload_energy(power: Floats, upload_time: Floats) -> Floats:
    """Energy [J] of sending the floor's model, Eq. (8); inf beyond the largest float."""
    with np.errstate(over="ignore"):
        return power * upload_time
