"""Characters that programs obey instead of showing them; names in received files may contain them."""

__all__ = ["in_spreadsheet", "printable", "safe_line"]

#: control characters, those that change the direction of the text after them, and halves of a character
_OBEYED = [
    *range(0x20),
    *range(0x7F, 0xA0),
    0x61C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),  # bytes of a file name that are not UTF-8; no file in UTF-8 can hold them
    0xFEFF,
]
_SHOWN = {code: "\ufffd" for code in _OBEYED if chr(code) not in "\n\t"}


_FORMULA = ("=", "+", "-", "@", "\t", "\n")  #: what a spreadsheet takes for the beginning of a formula


def printable(text: str) -> str:
    """The text with U+FFFD for every such character but newlines and tabs."""
    return text.translate(_SHOWN)


def safe_line(text: object, most: int = 4096) -> str:
    """What others say, such as an error of a library or of another machine: one line that is safe to show."""
    return " ".join(printable(str(text)).split())[:most]


def in_spreadsheet(text: str) -> str:
    """A text that no spreadsheet calculates: one that looks like a formula begins with an apostrophe."""
    shown = printable(text)  # also a lone carriage return, which would begin a new row
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
