"""Next-character prediction on Shakespeare's plays, one client per speaking role: a federation as it grew."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.files import Published, read
from hcsfed.data.partition import offsets_of
from hcsfed.data.source import Source
from hcsfed.errors import bad

TINYSHAKESPEARE = Published(
    folders=("tinyshakespeare", "shakespeare"),
    name="input.txt",
    urls=(
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        "https://cdn.jsdelivr.net/gh/karpathy/char-rnn@master/data/tinyshakespeare/input.txt",
    ),
    digest="sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    contents={"input.txt": "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
    size=1_115_394,
)


def shakespeare(*, length: int = 80, min_characters: int = 0, test: float = 0.2) -> Source:
    """Windows of ``length`` characters that do not overlap; the label of a window is the same window one character on.

    The text is A. Karpathy's selection (*The unreasonable effectiveness of recurrent neural networks*, 2015; the
    plays are in the public domain); one client per role follows McMahan et al., AISTATS 2017.

    Parameters
    ----------
    length
        T, characters of a window.
    min_characters
        Leave out roles that say less. Roles that cannot fill one window are always left out.
    test
        Share of each role's windows, its last ones, that goes to the common test set (rounded down).
    """
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise bad("length", "data 'shakespeare'", "an int >= 1", length)
    if isinstance(min_characters, bool) or not isinstance(min_characters, int) or min_characters < 0:
        raise bad("min_characters", "data 'shakespeare'", "an int >= 0", min_characters)
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 <= test < 1:
        raise bad("test", "data 'shakespeare'", "a number in [0, 1)", test)
    text = read(TINYSHAKESPEARE, "input.txt").decode("ascii")
    alphabet = "".join(sorted(set(text)))
    code_of = np.zeros(128, np.uint8)
    code_of[[ord(c) for c in alphabet]] = np.arange(len(alphabet))
    spoken = roles(text)
    lines = {role: said for role, said in spoken.items() if len(said) > max(length, min_characters - 1)}
    if not lines:
        longest = max(len(said) for said in spoken.values())
        at_fault, value = ("min_characters", min_characters) if min_characters > length else ("length", length)
        raise bad(at_fault, "data 'shakespeare'", f"less than {longest}, what the longest role says", value)
    windows = [_windows(code_of[np.frombuffer(said.encode("ascii"), np.uint8)], length) for said in lines.values()]
    held = [int(test * len(x)) for x, _ in windows]
    kept = [len(x) - h for (x, _), h in zip(windows, held, strict=True)]
    return Source(
        "shakespeare",
        x=np.concatenate([x[:k] for (x, _), k in zip(windows, kept, strict=True)]),
        y=np.concatenate([y[:k] for (_, y), k in zip(windows, kept, strict=True)]),
        test_x=np.concatenate([x[k:] for (x, _), k in zip(windows, kept, strict=True)]),
        test_y=np.concatenate([y[k:] for (_, y), k in zip(windows, kept, strict=True)]),
        classes=len(alphabet),
        offsets=offsets_of(kept),
        owned=True,
        about={"alphabet": alphabet, "roles": list(lines), "roles_left_out": len(spoken) - len(lines)},
    )


def roles(text: str) -> dict[str, str]:
    """Who says what: speeches stand in paragraphs whose first line is the role's name and a colon."""
    spoken: dict[str, list[str]] = {}
    for paragraph in text.split("\n\n"):
        name, _, speech = paragraph.strip("\n").partition(":\n")
        if speech:
            spoken.setdefault(name, []).append(speech)
    return {name: "\n".join(speeches) + "\n" for name, speeches in spoken.items()}


def _windows(codes: NDArray[np.uint8], length: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    many = (len(codes) - 1) // length
    return codes[: many * length].reshape(many, length), codes[1 : many * length + 1].reshape(many, length)
