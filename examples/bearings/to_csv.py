"""Write the CWRU bearing data as CSV files: `python to_csv.py FOLDER` makes FOLDER/<device>/<label>.csv."""

import sys
from pathlib import Path

import loader
import numpy as np


def main(folder: Path) -> None:
    """Write one file per recording, with one column, from the .mat files that `loader` reads."""
    for device, label, values in loader.recordings():
        place = folder / device
        place.mkdir(parents=True, exist_ok=True)
        np.savetxt(place / f"{label}.csv", values, fmt="%.9g", header="acceleration", comments="")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
