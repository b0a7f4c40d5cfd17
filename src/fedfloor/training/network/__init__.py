"""Networks: how they are built, described, cut, averaged and stored."""
