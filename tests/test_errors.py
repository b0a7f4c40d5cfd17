"""What messages quote from files of others: shortened, and without characters that a terminal obeys."""

from fedfloor.errors import advice_for


def test_advice_escapes_and_shortens_names_of_others() -> None:
    assert advice_for("chanels", ["channels", "seed"]) == "Did you mean 'channels'?"
    assert advice_for("x", ["b", "a"]) == "Known: a, b."
    assert advice_for("red\x1b[31", ["red\x1b[31m"]) == r"Did you mean 'red\x1b[31m'?"
    advice = advice_for("x", [f"\x1b{number:03}{'y' * 1000}" for number in range(1000)])
    assert "\x1b" not in advice
    assert advice.endswith(" and 960 more.")
    assert len(advice) < 40 * 85
