"""Time and energy on the air, Eq. (6)-(8), and the gain they rest on (Sec. III-C)."""

__all__ = ["path_gain", "transmit_time", "upload_energy"]

import numpy as np

from fedfloor.arrays import Floats


def path_gain(distance: Floats, *, reference_gain: float, reference_distance: float, exponent: float) -> Floats:
    """Mean channel gain h_0 (d_0/d_m)^nu; distance [m] -> [1], same shape."""
    return np.asarray(reference_gain * (reference_distance / distance) ** exponent, dtype=float)


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

    power (M, 1) [W], gain (M, J) [1], interference (M, J) [W] -> (M, J); zero power or gain gives inf.
    """
    snr = power * gain / (bandwidth * noise_density + interference)  # (M, J)
    rate = bandwidth * np.log1p(snr) / np.log(2.0)  # (M, J) [bit/s]
    with np.errstate(divide="ignore"):
        return np.asarray(size_bits / rate, dtype=float)


def upload_energy(power: Floats, upload_time: Floats) -> Floats:
    """Energy [J] of sending the floor's model, Eq. (8)."""
    return power * upload_time
