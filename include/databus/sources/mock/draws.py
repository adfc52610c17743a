"""Draws of mock rows: table and key of a row change at any number, without a look at those before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Draw:
    """Endless sequence of choices that repeats a pattern.

    Attributes:
        pattern: int32[length], the choice at each place.
        rank: int32[length], how often the choice came before in the pattern.
        order: int32[length], the places of each choice, one choice after the other.
        starts: int64[choices + 1], where the places of each choice begin in `order`.
    """

    pattern: npt.NDArray[np.int32]
    rank: npt.NDArray[np.int32]
    order: npt.NDArray[np.int32]
    starts: Numbers

    @classmethod
    def of(cls, pattern: npt.NDArray[np.int32], choices: int) -> Draw:
        """Return the draw that repeats a pattern, in which each of so many choices is."""
        order = np.argsort(pattern, kind="stable").astype(np.int32)
        starts = np.concatenate(([0], np.cumsum(np.bincount(pattern, minlength=choices)))).astype(np.int64)
        rank = np.empty(len(pattern), np.int32)
        rank[order] = np.arange(len(pattern)) - starts[pattern[order]]
        return cls(pattern, rank, order, starts)

    @classmethod
    def in_turn(cls, choices: int) -> Draw:
        """Return the draw that takes each choice in turn."""
        return cls.of(np.arange(choices, dtype=np.int32), choices)

    @classmethod
    def skewed(cls, choices: int, skew: float, length: int, salt: int) -> Draw:
        """Return a draw by Zipf's law: the n-th choice comes in proportion to 1 / n ** skew, and once at least.

        Args:
            choices: how many there are.
            skew: the exponent; 0 for all alike.
            length: about the length of the pattern.
            salt: decides the order.
        """
        weights = np.arange(1, choices + 1, dtype=np.float64) ** -skew
        counts = np.maximum(1, np.rint(weights * (length / weights.sum()))).astype(np.int64)
        pattern = np.repeat(np.arange(choices, dtype=np.int32), counts)
        scattered = mix(np.arange(len(pattern), dtype=np.uint64), salt)
        return cls.of(pattern[np.argsort(scattered, kind="stable")], choices)

    def at(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return, for places of the sequence, the choice and how often it came before."""
        if len(self.pattern) == 1:
            return np.zeros(len(numbers), np.int64), numbers
        rounds, place = np.divmod(numbers, len(self.pattern))
        choice = self.pattern[place].astype(np.int64)
        return choice, rounds * (self.starts[choice + 1] - self.starts[choice]) + self.rank[place]

    def place(self, choice: Numbers, nth: Numbers) -> Numbers:
        """Return where a choice stands in the sequence for the nth time, from 0."""
        first = self.starts[choice]
        rounds, rank = np.divmod(nth, self.starts[choice + 1] - first)
        return np.asarray(rounds * len(self.pattern) + self.order[first + rank], np.int64)

    def before(self, choice: int, number: int) -> int:
        """Return how often a choice stands before a place of the sequence."""
        rounds, place = divmod(number, len(self.pattern))
        mine = self.order[self.starts[choice] : self.starts[choice + 1]]
        return rounds * len(mine) + int(np.searchsorted(mine, place))


def mix(values: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.uint64]:
    """Scatter numbers over 64 bits (SplitMix64: Steele et al., "Fast Splittable Pseudorandom Generators", 2014)."""
    with np.errstate(over="ignore"):
        z = values + np.uint64((salt * 0x9E3779B97F4A7C15) & (2**64 - 1))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
