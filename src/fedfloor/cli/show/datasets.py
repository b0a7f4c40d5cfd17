"""Data sets, their downloads, and who holds what."""

__all__ = ["downloading", "print_holding", "print_shortage", "print_verified", "refuse_wrong"]

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from fedfloor.cli.show.terminal import ERR, OUT, print_table, table_of
from fedfloor.errors import DataError, named
from fedfloor.training.data.fetching import Verified
from fedfloor.training.data.holding import HoldingTable, ShortageTable, ShortOf
from fedfloor.training.data.verifying import VerifiedData

_SHADES, _NOTHING = "░▒▓█", "."


@contextmanager
def downloading(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """What to call with a file's name, its bytes so far and in all: a live bar per file on standard error."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=ERR,
        transient=True,
        disable=quiet or not ERR.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def show(file: str, done: int, total: int) -> None:
        if file not in tasks:
            tasks[file] = bar.add_task(file, total=total)
        bar.update(tasks[file], completed=done)

    with bar:
        yield show


def print_verified(report: Verified | VerifiedData) -> None:
    """What a data set holds, then its files; of a scenario's own data, what it holds or what is wrong with it."""
    if isinstance(report, VerifiedData):
        _print_own(report)
        return
    OUT.print(f"{report.name} can be read: {report.origin}", style="bold", soft_wrap=True)
    _print_contents(report, tuple(map(str, range(report.classes))))
    for file in report.files:
        OUT.print(f"checksum {file.checksum}: {file.path}", soft_wrap=True)


def _print_own(report: VerifiedData) -> None:
    if not report.wrong:
        OUT.print(f"{report.origin} can be read", style="bold", soft_wrap=True)
        _print_contents(report, report.classes)
    for file in report.wrong:
        OUT.print(f"wrong: {file.problem}", soft_wrap=True)


def refuse_wrong(report: Verified | VerifiedData) -> None:
    """End with an error if a file is wrong."""
    if isinstance(report, VerifiedData) and report.wrong:
        count = f"{len(report.wrong):,} of {len(report.files):,} files cannot be used"
        raise DataError(f"data {named(report.name)}: {count}. Correct those that are listed, then verify them again")


def _print_contents(report: Verified | VerifiedData, names: Sequence[str]) -> None:
    shape = "x".join(map(str, report.shape))
    OUT.print(f"{report.training:,} training and {report.test:,} test samples of {shape}")
    if not names:
        return
    classes = table_of("samples per class", "class", "training", "test")
    for name, *counts in zip(names, report.training_per_class, report.test_per_class, strict=True):
        classes.add_row(name, *(f"{count:,}" for count in counts))
    print_table(classes)


def print_holding(holding: HoldingTable, most: int = 60) -> None:
    """Who holds what: the more samples, the darker the shade."""
    devices = holding["devices"]
    total = sum(device["held"] for device in devices)
    split = "" if holding["partition"] is None else f", partition '{holding['partition']}'"
    origin = holding["origin"].removesuffix(f" {named(holding['data'])}")  # files are named once
    OUT.print(f"{holding['data']} ({origin}){split}", style="bold", soft_wrap=True)
    OUT.print(f"{total:,} samples on {len(devices)} devices, {holding['test_samples']:,} test samples")
    largest = max(max(device["classes"]) for device in devices)
    is_named = all(device["floor"] in device["name"] for device in devices)
    who = ("device",) if is_named else ("floor", "device")
    names = [(device["name"],) if is_named else (device["floor"], device["name"]) for device in devices[:most]]
    totals = [
        f"{device['held']:,} of {device['asked']:,}" if device["held"] < device["asked"] else f"{device['held']:,}"
        for device in devices[:most]
    ]
    taken = sum(max(map(len, texts)) for texts in (*zip(*names, strict=True), totals)) + 2 + 3 * len(names[0]) + 3
    classes, room = len(devices[0]["classes"]), OUT.width - taken
    fits = classes <= room
    gap = " " if 2 * classes - 1 <= room else ""
    is_number = classes == 1  # then numbers are predicted
    title = "samples" if is_number else "samples per class" if fits else "number of classes held"
    head = gap.join(str(label % 10) for label in range(classes)) if fits else "classes"
    table = table_of(title, *who, *([] if is_number else [head]), "all", left=len(who))
    for column in table.columns:
        column.no_wrap = True
    for name, device, held in zip(names, devices, totals, strict=False):
        cells = gap.join(_shade(count, largest) for count in device["classes"])
        several = str(sum(count > 0 for count in device["classes"]))
        table.add_row(*name, *([] if is_number else [cells if fits else several]), held)
    print_table(table)
    if len(devices) > most:
        OUT.print(f"and {len(devices) - most} more devices")
    if "labels" in holding:
        OUT.print("classes: " + ", ".join(f"{number} {name}" for number, name in enumerate(holding["labels"])))
    if fits and not is_number:
        OUT.print(f"{_legend(largest)} samples of a class", soft_wrap=True)
    _print_short(holding["devices"])


def print_shortage(table: ShortageTable) -> None:
    """Devices that get fewer samples than they ask for, if there are any, or why the data was not read."""
    if table["devices"] is None:
        OUT.print(f"Whether samples run out was not checked: {table['reason']}.", soft_wrap=True)
    else:
        _print_short(table["devices"])


def _print_short(devices: Sequence[ShortOf]) -> None:
    short = [device for device in devices if device["held"] < device["asked"]]
    if short:
        first = f"{short[0]['name']} gets {short[0]['held']} of {short[0]['asked']}"
        text = f"{len(short)} devices hold fewer samples than they ask for, because samples run out: {first}"
        OUT.print(f"{text}{', ...' if len(short) > 1 else '.'}", style="yellow")


def _shade(count: int, largest: int) -> str:
    """A sign that is darker the more there is, one for every quarter of the largest count."""
    return _SHADES[-(-4 * count // largest) - 1] if count else _NOTHING


def _legend(largest: int) -> str:
    """What every shade stands for."""
    ends = [quarter * largest // 4 for quarter in range(5)]
    spans = [(low + 1, high) for low, high in itertools.pairwise(ends)]
    texts = [f"{low:,} to {high:,}" if low < high else f"{high:,}" for low, high in spans]
    shades = [f"{shade} {text}" for shade, text, (low, high) in zip(_SHADES, texts, spans, strict=True) if low <= high]
    return ", ".join([f"{_NOTHING} no", *shades])
