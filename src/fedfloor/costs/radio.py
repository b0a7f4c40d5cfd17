"""Time and energy on the air, Eq. (6)-(8), and the gain they rest on (Sec. III-C)."""

__all__ = [
    "gain_of_rate",
    "least_upload_energy",
    "noise_over_gain",
    "path_gain",
    "transmit_time",
    "upload_energy",
    "upload_scale",
]

import math

import numpy as np

from fedfloor.arrays import Floats

_MOST_GAIN = 1e300  #: [1] far above any real one, so that what follows stays finite
_MOST_RATIO = 1e250  #: [1/W] of gain to noise, likewise


def path_gain(distance: Floats, *, reference_gain: float, reference_distance: float, exponent: float) -> Floats:
    """Mean channel gain h_0 (d_0/d_m)^nu, at most 1e300; distance [m] -> [1], same shape."""
    with np.errstate(over="ignore"):
        return np.minimum(reference_gain * (reference_distance / distance) ** exponent, _MOST_GAIN, dtype=float)


def _noise_power(interference: Floats, *, bandwidth: float, noise_density: float) -> Floats:
    """Noise and interference on a link, B N_0 + i [W]; same shape."""
    return np.asarray(bandwidth * noise_density + interference)


def _usable_gain(gain: Floats, noise: Floats) -> Floats:
    """Gain [1] of a link, limited where the ratio to its noise [W] would exceed 1e250 and overflow later."""
    with np.errstate(over="ignore"):
        return np.minimum(gain, _MOST_RATIO * noise)


def noise_over_gain(gain: Floats, interference: Floats, *, bandwidth: float, noise_density: float) -> Floats:
    """Power at the sender that arrives as strong as noise and interference, (B N_0 + i)/h [W]; inf on a dead link."""
    noise = _noise_power(interference, bandwidth=bandwidth, noise_density=noise_density)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(noise / _usable_gain(gain, noise))


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
    noise = _noise_power(interference, bandwidth=bandwidth, noise_density=noise_density)  # (M, J) [W]
    snr = power * _usable_gain(gain, noise) / noise  # (M, J)
    rate = bandwidth * np.log1p(snr) / np.log(2.0)  # (M, J) [bit/s]
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(size_bits / rate, dtype=float)


def gain_of_rate(
    rate: Floats, power: Floats | float, interference: Floats, *, bandwidth: float, noise_density: float
) -> Floats:
    """Gain [1] of links that carry a rate [bit/s], Eq. (6) and (7) solved for it; same shape.

    power [W] must be > 0. The gain is limited where its ratio to the noise would exceed 1e250, so that a rate beyond
    all radios has one too.
    """
    noise = _noise_power(interference, bandwidth=bandwidth, noise_density=noise_density)  # [W]
    with np.errstate(over="ignore"):
        return _usable_gain(noise * np.expm1(rate / bandwidth * np.log(2.0)) / power, noise)


def upload_energy(power: Floats, upload_time: Floats) -> Floats:
    """Energy [J] of sending the floor's model, Eq. (8); inf beyond the largest float."""
    with np.errstate(over="ignore"):
        return power * upload_time


def upload_scale(size_bits: float, *, bandwidth: float) -> float:
    """Upload time [s] times ln(1 + SNR): gamma ln 2 / B."""
    return size_bits * math.log(2.0) / bandwidth


def least_upload_energy(size_bits: float, noise: Floats, *, bandwidth: float) -> Floats:
    """Energy [J] of an endless upload, the limit of Eq. (8) for vanishing power; `noise` as from `noise_over_gain`."""
    with np.errstate(over="ignore"):
        return upload_scale(size_bits, bandwidth=bandwidth) * noise
