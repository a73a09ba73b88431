"""Removed, changed and misspelt characters, numbers as words: only what is meant to change changes."""

from __future__ import annotations

import re
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy import registry
from roadworthy.cases.text.change_characters import SIMILAR
from roadworthy.cases.text.digits_to_words import SMALL, TENS, spoken
from roadworthy.cases.text.misspell import misspellings
from roadworthy.cases.text.words import clusters
from roadworthy.cases.transform import Transform, at_level
from roadworthy.data.values import TEXT

NAMES = ("change_characters", "digits_to_words", "misspell", "remove_characters", "swap_characters")
WANG = {
    "change_characters": (0.15, 0.45, 0.75),
    "digits_to_words": (0.2, 0.6, 1.0),
    "misspell": (0.2, 0.6, 1.0),
    "remove_characters": (0.15, 0.45, 0.75),
    "swap_characters": (0.15, 0.45, 0.75),
}
HARD = "e\u0301\u1100\u1161\u11a8\uac00\u200d\U0001f469\U0001f1e9\u0915\u094d\u0660 ,'-_a1Z9"
known_words = st.sampled_from(sorted(misspellings()))
texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=HARD, max_size=40),
    st.lists(known_words | st.integers(0, 10**8).map(str), max_size=12).map(" ".join),
)
chances = st.floats(0, 1)
seeds = st.integers(0, 2**32)


def made(name: str, text: str, seed: int = 0, **parameters: float) -> str:
    return Transform(name, parameters).value(text, np.random.default_rng(seed))


def parts(text: str) -> list[list[str]]:
    """Words and what lies between them, in turns, as lists of clusters."""
    return [list(run) for _, run in groupby(clusters(text), key=lambda c: c[0].isalnum())]


@given(
    text=texts,
    name=st.sampled_from([n for n in NAMES if n != "digits_to_words"]),
    probability=chances,
    seed=seeds,
)
@settings(max_examples=300, deadline=None)
def test_words_stay_words_and_what_lies_between_them_stays(text, name, probability, seed):
    changed = made(name, text, seed, probability=probability)
    assert changed == made(name, text, seed, probability=probability)
    assert TEXT.problem(changed) is None
    before, after = parts(text), parts(changed)
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if not old[0][0].isalnum():
            assert old == new
        elif old != new:
            check_word(name, old, new)


def check_word(name: str, old: list[str], new: list[str]) -> None:
    if name == "misspell":
        assert "".join(new).lower() in misspellings()["".join(old).lower()]
        return
    assert (new[0], new[-1]) == (old[0], old[-1])
    if name == "swap_characters":
        apart = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        assert sorted(old) == sorted(new) and len(apart) == 2 and apart[1] == apart[0] + 1
    elif name == "change_characters":
        for a, b in zip(old, new, strict=True):
            assert a == b or b in SIMILAR[a]
    else:
        rest = iter(old)
        assert all(c in rest for c in new) and len(new) < len(old)  # the same order, fewer


@given(text=texts, name=st.sampled_from(NAMES), seed=seeds)
@settings(max_examples=100, deadline=None)
def test_the_identity_row_and_level_0_change_nothing(text, name, seed):
    row = registry.get("transforms", name).traits["identity"]
    assert made(name, text, seed, **row) == text
    assert at_level(name, 0).value(text, np.random.default_rng(seed)) == text


@pytest.mark.parametrize("name", NAMES)
def test_the_levels_are_those_of_wang_et_al(name):
    table = registry.get("transforms", name).traits["tables"]["wang"]
    assert tuple(row["probability"] for row in table) == WANG[name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", (1, 2, 3))
def test_the_share_of_changed_words_is_the_levels_probability(name, level):
    word = "10" if name == "digits_to_words" else "separate"
    changed = at_level(name, level, table="wang").value(
        " ".join([word] * 4000), np.random.default_rng(level)
    )
    share = WANG[name][level - 1]
    found = np.mean([w != word for w in changed.split(" ")])
    assert found == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 4000) + 1e-9)


@pytest.mark.parametrize(("name", "length"), [("remove_characters", 2), ("change_characters", 2)])
def test_at_1_every_word_with_an_inner_character_changes(name, length):
    text = "a to the cheap hotels with 12345 rooms"
    for old, new in zip(text.split(), made(name, text, probability=1.0).split(), strict=True):
        assert (old != new) == (len(old) > length)


def test_each_inner_character_goes_with_a_tenth_but_at_least_one():
    word, share = "abcdefghijkl", 0.1
    changed = made("remove_characters", " ".join([word] * 5000), probability=1.0).split()
    gone = np.array([len(word) - len(w) for w in changed])
    inner = len(word) - 2
    expected = inner * share + (1 - share) ** inner  # one more where none was drawn
    assert gone.min() == 1
    assert gone.mean() == pytest.approx(expected, abs=4 * gone.std() / np.sqrt(5000))


def test_syllables_of_jamo_are_never_torn():
    word = "\u1112\u1161\u11ab\u1100\u1173\u11af\u1106\u1161\u11af\u110b\u1175"
    whole = clusters(word)
    for seed in range(20):
        for name in ("swap_characters", "remove_characters"):
            assert set(clusters(made(name, word, seed, probability=1.0))) <= set(whole)


def test_similar_characters_are_keys_beside_or_look_alike_and_keep_their_case():
    rows = ("qwertyuiop", "asdfghjkl", "zxcvbnm")  # each shifted to the right by half a key
    keys = {
        key: (at + row / 2, row) for row, line in enumerate(rows) for at, key in enumerate(line)
    }
    keys |= {key: (at, -9) for at, key in enumerate("1234567890")}
    beside = {
        key: {k for k, (a, b) in keys.items() if k != key and abs(a - x) <= 1 and abs(b - y) <= 1}
        for key, (x, y) in keys.items()
    }
    beside = {key: {k for k in near if keys[k] != keys[key]} for key, near in beside.items()}
    alike = ("0o", "1l", "1i", "il", "2z", "5s", "6b", "8b", "9g", "gq", "uv", "vy", "ce", "nh")
    for one, other in alike:
        beside[one].add(other)
        beside[other].add(one)
    assert {key: set(SIMILAR[key]) for key in keys} == beside
    for key, others in SIMILAR.items():
        assert key not in others and others.isalnum() and others.isascii()
        assert all(o.isupper() or o.isdigit() for o in others) or not key.isupper()


def test_the_list_of_misspellings_is_sound():
    known = misspellings()
    wrong = [w for several in known.values() for w in several]
    assert 300 <= len(wrong) <= 600 and all(known.values())
    assert all(re.fullmatch("[a-z]+", w) for w in [*known, *wrong])
    assert not set(wrong) & set(known) and len(set(wrong)) == len(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Separate SEPARATE separate", "Seperate SEPERATE seperate"),
        ("sePArate separately", "sePArate separately"),
        ("", ""),
    ],
)
def test_misspelt_words_keep_their_case_and_other_words_stay(text, expected):
    assert made("misspell", text, probability=1.0) == expected


def number_of(words: str) -> int:
    """The number that English words name: the other way round, word by word."""
    total = part = 0
    for word in words.replace("-", " ").split():
        if word in SMALL:
            part += SMALL.index(word)
        elif word in TENS:
            part += 10 * (TENS.index(word) + 2)
        elif word == "hundred":
            part *= 100
        elif word == "thousand":
            total, part = total + part * 1000, 0
        else:
            assert word == "and"
    return total + part


@given(number=st.integers(0, 999_999))
@settings(max_examples=500, deadline=None)
def test_a_number_in_words_is_that_number(number):
    assert number_of(spoken(str(number))) == number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10:30", "ten:thirty"),
        ("3.5 stars", "three.five stars"),
        ("2024", "two thousand and twenty-four"),
        ("999999", "nine hundred and ninety-nine thousand nine hundred and ninety-nine"),
        ("1000000", "one zero zero zero zero zero zero"),
        ("007 0", "zero zero seven zero"),
        ("the 1st of B12, 4x4", "the 1st of B12, 4x4"),
        ("\u0663 \uff15 1\ufe0f\u20e3", "\u0663 \uff15 1\ufe0f\u20e3"),
        ("no digits here", "no digits here"),
        ("", ""),
    ],
)
def test_numbers_as_words(text, expected):
    assert made("digits_to_words", text, probability=1.0) == expected


@given(text=texts, probability=chances, seed=seeds)
@settings(max_examples=150, deadline=None)
def test_what_is_no_number_stays_when_digits_become_words(text, probability, seed):
    changed = made("digits_to_words", text, seed, probability=probability)
    lone = r"(?<![^\W_])[0-9]+(?![^\W_])"
    pattern = "".join(
        "[0-9a-z -]+" if re.fullmatch(lone, piece) else re.escape(piece)
        for piece in re.split(f"({lone})", text)
    )
    assert re.fullmatch(pattern, changed)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_text_or_no_probability_is_refused_by_a_sentence(name):
    with pytest.raises(ValueError, match="the text is int, not text"):
        made(name, 3, probability=0.5)  # type: ignore[arg-type]
    for probability in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=f"{name}: probability is .* 0 to 1 was expected"):
            made(name, "hotel", probability=probability)


@pytest.mark.parametrize("name", ("remove_characters", "change_characters"))
def test_what_is_no_share_is_refused_by_a_sentence(name):
    with pytest.raises(ValueError, match=r"share is 2\.0; 0 to 1 was expected"):
        made(name, "hotel", probability=1.0, share=2.0)
