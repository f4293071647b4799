"""The synthetic app, twice."""

from apps.synthetic.app import Synthetic


class First(Synthetic):
    name = "first"


class Second(Synthetic):
    name = "second"
