"""Words that tables, figures and the scripts of both pages share."""

__all__ = ["CAUSES", "NO_LINKS", "cause_words", "words_script"]

import json
from types import MappingProxyType

#: causes of failures as logs name them -> as people read them; logs may name others
CAUSES = MappingProxyType({"energy": "short of energy", "memory": "short of memory", "lost": "link lost"})
NO_LINKS = "The scenario has no device links, so sending between devices and their gateway takes no time and no energy."


def cause_words(cause: str) -> str:
    """A cause of failures as people read it."""
    return CAUSES.get(cause, cause)


def words_script() -> str:
    """The words for the scripts of a page, before which it has to stand."""
    words = json.dumps({"causes": dict(CAUSES), "noLinks": NO_LINKS})
    known = "fedfloorWords.isKnown = (cause) => Object.hasOwn(fedfloorWords.causes, cause);\n"
    cause = "fedfloorWords.cause = (cause) => (fedfloorWords.isKnown(cause) ? fedfloorWords.causes[cause] : cause);\n"
    return f"globalThis.fedfloorWords = {words};\n{known}{cause}"
