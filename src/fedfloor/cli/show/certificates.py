"""Certificates: what the CA of a plant has issued."""

__all__ = ["print_handed_out", "print_register", "register_as_json"]

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fedfloor.cli.show.terminal import OUT, print_table, table_of
from fedfloor.deploy.authority import Issued, Register
from fedfloor.deploy.certificates import Role

_SHORT = 16  #: digits of serial numbers and fingerprints in tables; JSON has all of them


def register_as_json(register: Register) -> dict[str, object]:
    """What `fedfloor certs show --format json` prints; times are UTC."""
    entries = [
        {**asdict(entry), "expires": entry.expires.isoformat(), "revoked": entry.revoked and entry.revoked.isoformat()}
        for entry in register.certificates
    ]
    ca = {"fingerprint": register.fingerprint, "expires": register.expires.isoformat(), "list": register.number}
    return {"ca": ca, "certificates": entries}


def print_register(folder: Path, register: Register) -> None:
    """The CA, then one line per certificate, in the order of their roles and names."""
    OUT.print(f"CA of {folder}: expires {register.expires:%Y-%m-%d}", style="bold", soft_wrap=True)
    OUT.print(f"fingerprint {register.fingerprint}, revocation list {register.number}", soft_wrap=True)
    roles = list(Role)
    table = table_of("", "name", "role", "serial", "fingerprint", "expires", "revoked", left=6)
    for entry in sorted(register.certificates, key=lambda entry: (roles.index(entry.role), entry.name)):
        revoked = "" if entry.revoked is None else f"{entry.revoked:%Y-%m-%d}"
        short = (entry.serial[:_SHORT], entry.fingerprint[:_SHORT])
        table.add_row(entry.name, entry.role, *short, f"{entry.expires:%Y-%m-%d}", revoked)
    print_table(table)


def print_handed_out(folder: Path, entries: Sequence[Issued]) -> None:
    """What was issued: the only one with its hosts, or how many of every role."""
    if len(entries) == 1:
        (entry,) = entries
        hosts = f", for {', '.join(entry.hosts)}" if entry.hosts else ""
        OUT.print(f"issued {entry.role} {entry.name}, until {entry.expires:%Y-%m-%d}{hosts}", soft_wrap=True)
        OUT.print(f"copy {entry.folder} to its machine", soft_wrap=True)
    elif entries:
        counts = Counter(str(entry.role) for entry in entries)
        roles = ", ".join(f"{count} {role}{'s' if count > 1 else ''}" for role, count in counts.items())
        OUT.print(f"issued {roles}, until {entries[0].expires:%Y-%m-%d}", soft_wrap=True)
        places = ", ".join(str(folder / role) for role in counts)
        OUT.print(f"copy each folder in {places} to its machine", soft_wrap=True)
