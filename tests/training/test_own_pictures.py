"""Pictures that are damaged, of other formats than their names say, or deeper than 8 bits."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from fedfloor import api
from fedfloor.errors import DataError
from fedfloor.training.data.recorded import read_recorded
from fedfloor.training.data.verifying import VerifiedData
from tests.training.plants import draw, loaded

PICTURES = pytest.importorskip("PIL.Image", reason="pictures need Pillow, of the extra 'files'")
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 4\n%%EndComments\n%%EOF\n"
DDS = b"DDS " + struct.pack("<7I", 124, 0x1007, 4, 6, 0, 0, 0) + bytes(44) + struct.pack("<2I4s", 32, 4, b"DX99")
BLP = b"BLP2" + struct.pack("<i4B2I", 1, 9, 9, 9, 9, 6, 4) + bytes(1152)


def images(folder: Path) -> Path:
    for kind in "ab":
        for number in range(3):
            draw(folder / "images" / kind / f"{number}.png", number)
    return folder / "images" / "a"


@pytest.mark.parametrize("content", [EPS, DDS, BLP], ids=["EPS", "DDS", "BLP"])
def test_other_formats_are_refused_whatever_the_name_says(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", encoding="utf-8")
    (programs / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (images(tmp_path) / "other.png").write_bytes(content)
    scenario = loaded(tmp_path, {"name": "images/"}, shape=(1, 4, 6), classes=2)
    with pytest.raises(DataError, match=r"other\.png: cannot be read as a picture: .*\. Replace or remove it"):
        read_recorded(scenario)
    verified = api.verify_data(scenario)
    assert isinstance(verified, VerifiedData)
    assert [(file.path.name, file.samples) for file in verified.files if file.problem] == [("other.png", 0)]
    assert len(verified.files) == 7
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("error", [RuntimeError("of a codec"), NotImplementedError(), MemoryError()])
def test_any_error_of_a_decoder_names_its_file(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images(tmp_path)
    scenario = loaded(tmp_path, {"name": "images/"}, shape=(1, 4, 6), classes=2)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", fail)
    reason = str(error) or type(error).__name__
    with pytest.raises(DataError, match=rf"a/0\.png: cannot be read as a picture: {reason}\. Replace or remove it"):
        read_recorded(scenario)


def test_a_damaged_tiff_writes_nothing_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = images(tmp_path) / "damaged.tif"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
    PICTURES.fromarray(noise).save(place, compression="tiff_lzw")
    content = bytearray(place.read_bytes())
    content[8:2000] = bytes(255 - byte for byte in content[8:2000])
    place.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged\.tif: cannot be read as a picture: .*decoder error"):
        read_recorded(loaded(tmp_path, {"name": "images/"}, shape=(1, 4, 6), classes=2))
    assert capfd.readouterr().err == ""
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


def png(bits: int, colours: int, channels: int) -> bytes:
    """A PNG file of 6 x 4 pixels; `colours` is the number of the kind: grey 0, RGB 2, grey and alpha 4, RGBA 6."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = b"".join(b"\0" + bytes(range(6 * channels * bits // 8)) for _ in range(4))
    header = struct.pack(">IIBBBBB", 6, 4, bits, colours, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def tiff(bits: int) -> bytes:
    """A TIFF file of 6 x 4 pixels in three colours."""
    size = 6 * 4 * 3 * bits // 8
    tags = [(256, 6), (257, 4), (259, 1), (262, 2), (273, 300), (277, 3), (278, 4), (279, size)]
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags]
    entries.insert(2, struct.pack("<HHII", 258, 3, 3, 200))
    head = b"II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(entries) + bytes(4)
    return (head.ljust(200, b"\0") + struct.pack("<3H", bits, bits, bits)).ljust(300, b"\0") + bytes(range(size))


@pytest.mark.parametrize(
    ("shallow", "deep"),
    [
        ((".png", png(8, 0, 1)), (".png", png(16, 0, 1))),
        ((".png", png(8, 2, 3)), (".png", png(16, 2, 3))),
        ((".png", png(8, 4, 2)), (".png", png(16, 4, 2))),
        ((".png", png(8, 6, 4)), (".png", png(16, 6, 4))),
        ((".tif", tiff(8)), (".tif", tiff(16))),
        ((".ppm", b"P6 6 4 255\n" + bytes(72)), (".ppm", b"P6 6 4 65535\n" + bytes(144))),
        ((".ppm", b"P6 6 4 100\n" + bytes(72)), (".ppm", b"P3 6 4 1023\n" + b"0 " * 72)),
        ((".pgm", b"P5 6 4 255\n" + bytes(24)), (".pgm", b"P5 6 4 1023\n" + bytes(48))),
    ],
    ids=["grey", "RGB", "grey and alpha", "RGBA", "TIFF", "PPM", "plain PPM", "PGM"],
)
def test_pictures_of_16_bits_are_refused_in_every_format(
    shallow: tuple[str, bytes], deep: tuple[str, bytes], tmp_path: Path
) -> None:
    folder = images(tmp_path)
    (folder / f"shallow{shallow[0]}").write_bytes(shallow[1])
    scenario = loaded(tmp_path, {"name": "images/"}, shape=(3, 4, 6), classes=2)
    read_recorded(scenario)
    (folder / f"deep{deep[0]}").write_bytes(deep[1])
    with pytest.raises(DataError, match=r"deep\.\w+: .* more than 8 bits per colour; convert it to 8 bits"):
        read_recorded(scenario)
