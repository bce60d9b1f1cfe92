"""Windows over texts that are longer than a network reads, in numbers of tokens."""


def left_to_right_windows(count: int, room: int, stride: int) -> list[tuple[int, int, int]]:
    """Windows over a text of ``count`` tokens for a model that reads from left to right: where each begins, the first
    token that is scored in it, and its end (past the last token).

    Windows hold ``room`` tokens and are ``stride`` apart, or ``room`` apart if that is less. Each token is scored once,
    in the first window that holds it, with at least ``room - stride`` tokens before it wherever the text has them.
    """
    stride, found, scored = min(stride, room), [], 0  # so that no token lies between two windows
    while scored < count:
        begin = 0 if scored == 0 else scored - (room - stride)
        end = min(begin + room, count)
        found.append((begin, scored, end))
        scored = end
    return found


def bidirectional_windows(count: int, room: int, stride: int) -> list[tuple[int, range]]:
    """Windows over a text of ``count`` tokens for a model that reads both ways: where each begins, and the tokens that
    are scored in it.

    Windows hold ``room`` tokens, or the whole text, and are ``stride`` apart; the last step may be shorter. Each token
    is scored once, in the window whose middle is nearest. It has (room - stride) / 2 tokens on either side, rounded
    down, wherever the text has them.
    """
    stride = min(stride, room)
    begins = [*range(0, max(0, count - room), stride), max(0, count - room)]
    ends = [(one + other + room) // 2 for one, other in zip(begins, begins[1:], strict=False)]
    parts = zip(begins, [0, *ends], [*ends, count], strict=True)
    return [(begin, range(first, end)) for begin, first, end in parts]
