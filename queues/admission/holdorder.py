"""Whose hold comes first: guaranteed demand, then siblings by their share, then the longest wait (SEMANTICS 7)."""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge
from itertools import chain

from queues.admission.board import Board
from queues.admission.holders import Holder, Holders
from queues.admission.order import Key
from queues.admission.quota import ROOT
from queues.admission.shares import Share, borrowed


class HoldOrder:
    """The order of holds by what teams borrowed as the cycle began, no candidate counted."""

    def __init__(self, board: Board) -> None:
        """Take the shares as they are now."""
        tree = self._tree = board.tree
        self._shares = {
            place: Share(borrowed(board.hard, place), tree.weight[place]) for place in range(1, len(tree.parent))
        }

    def of(self, holders: Holders, guaranteed: Callable[[Holder], bool]) -> Iterator[Holder]:
        """Yield what will be guaranteed demand first, each part in order."""
        standings: dict[object, bool] = {}
        lines: dict[int, tuple[list[Holder], list[Holder]]] = {}
        there = {node for place in holders.urgency for node in self._tree.path[place]}

        def line(place: int, number: int) -> list[Holder]:
            if place not in lines:
                lines[place] = ([], [])
                for holder in holders.of(place):
                    case = holder.asker.case
                    if case not in standings:
                        standings[case] = guaranteed(holder)
                    lines[place][0 if standings[case] else 1].append(holder)
            return sorted(lines[place][number], key=_by_turn)

        return chain.from_iterable(self._merged(ROOT, there, partial(line, number=number)) for number in (0, 1))

    def _merged(self, node: int, there: set[int], line: Callable[[int], list[Holder]]) -> Iterator[Holder]:
        """Yield those below a node in hold order; nobody is read and sorted in before their line's turn comes."""
        tree, shares = self._tree, self._shares
        if not tree.children[node]:
            yield from line(node)
            return
        by_share: dict[tuple[int, int], list[int]] = {}
        for child in tree.children[node]:
            if child in there:
                by_share.setdefault(shares[child].rank(tree.scale), []).append(child)
        for share in sorted(by_share):
            lines = (self._merged(child, there, line) for child in by_share[share])
            yield from merge(*lines, key=_by_time)


def _by_turn(holder: Holder) -> Key:
    return holder.key


def _by_time(holder: Holder) -> tuple[int, ...]:
    return holder.key[1:]
