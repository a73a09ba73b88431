"""vr and vro on the five subjects, where they draw from their rng: against plain loops over the Python functions themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import booking
import box_finder
import box_tracker
import nearest_mean
import numpy as np
import pytest
import subject_data
import tone_words

from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.section import plan_assessment
from roadworthy.assessment.supervised import Supervised
from roadworthy.data.seeds import generator
from roadworthy.data.values import EPISODE, TRACKS
from roadworthy.distances.bleu import bleu
from roadworthy.distances.episode_bleu import episode_bleu
from roadworthy.distances.iou import iou
from roadworthy.distances.jaccard import jaccard
from roadworthy.distances.mota import mota
from roadworthy.spec import Assessment
from roadworthy.store import RunFolder

SEED = 0


class Wavering(NamedTuple):
    """A subject's passes, and where they tell trouble."""

    scores: dict[str, tuple[str, int]]
    """The label of each score that was asked for: which values it compares, and whether it is VR (0) or VRO (1)."""
    n: int
    strong: str
    """A condition under which all scores are higher than on clean cases."""
    same: str = ""
    """A condition under which every answer is the same: there are none, and no ratio knows it."""


EXPECTED = {
    "nearest_mean": Wavering(
        {
            "vr(kind=own)": ("class", 0),
            "vro": ("class", 1),
            "vr(kind=own, distance=standard_deviation)": ("scores", 0),
            "vr(kind=own, module=system)": ("class", 0),
        },
        10,
        "low_light@3",
    ),
    "box_finder": Wavering({"vr": ("boxes", 0), "vro": ("boxes", 1)}, 6, "haze@1", "haze@3"),
    "box_tracker": Wavering(
        {
            f"{ratio}(kind=own, n=5, module={module})": (module, place)
            for module in ("detector", "system")
            for place, ratio in enumerate(("vr", "vro"))
        },
        5,
        "haze@1",
        "haze@3",
    ),
    "tone_words": Wavering({"vr": ("text", 0), "vro": ("text", 1)}, 10, "street@3"),
    "booking": Wavering(
        {
            f"{ratio}(kind=own, n=5, module={module})": (module, place)
            for module in ("nlu", "system")
            for place, ratio in enumerate(("vr", "vro"))
        },
        5,
        "typing@3",
    ),
}


@pytest.fixture(scope="module", params=EXPECTED)
def assessed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Run]:
    name = request.param
    file = subject_data.place(name, tmp_path_factory.mktemp(name), assessment=f"{name}_passes")
    return name, file, assess(file)


def scores_of(run: Run) -> dict[str, dict[str, np.ndarray]]:
    """Scores by condition, then by label."""
    cases = RunFolder.open(run.folder).cases()
    levels = np.nan_to_num(np.asarray(cases["level"], dtype=float))
    names = np.array(
        [f"{c}@{v:g}" if c else "" for c, v in zip(cases["circumstance"], levels, strict=True)]
    )
    named = list(cases)[list(cases).index("seconds") + 1 :]
    columns = {c: np.asarray(cases[c]) for c in named if not c.startswith("slice.")}
    return {
        name: {label: column[names == name] for label, column in columns.items()}
        for name in dict.fromkeys(names)
    }


def test_every_score_that_was_asked_for_is_there_for_every_case(assessed):
    name, _, run = assessed
    assert run.record.cases.failed == 0
    for scores in scores_of(run).values():
        assert set(scores) == set(EXPECTED[name].scores)
        assert all(np.isfinite(column).all() for column in scores.values())


def test_live_answers_have_the_scores_of_the_run(assessed):
    _, file, run = assessed
    data = plan_assessment(Assessment.read(file)).data["test"]
    answers = Supervised(run.folder).batch(data.inputs[:5], ids=data.ids[:5])
    for label, column in scores_of(run)[""].items():
        assert [a.scores[label] for a in answers] == pytest.approx(column[:5].tolist(), abs=1e-6)
    assert all(a.error is None and a.prediction is not None for a in answers)


def test_scores_rise_where_the_circumstance_is_hard(assessed):
    name, _, run = assessed
    scores = scores_of(run)
    for label in EXPECTED[name].scores:
        assert scores[EXPECTED[name].strong][label].mean() > scores[""][label].mean() + 0.1
        about = [
            f
            for f in run.record.findings
            if f.about.supervisor == label and f.quantity == "auc_shift"
        ]
        assert about


def test_no_ratio_knows_that_nothing_was_found_every_time(assessed):
    """The exception of Wang et al. 2022, section 4.3: empty tracklets agree with each other."""
    name, _, run = assessed
    if EXPECTED[name].same:
        lost = scores_of(run)[EXPECTED[name].same]
        assert all((column == 0).all() for column in lost.values())


def test_a_module_that_draws_nothing_says_what_to_do(tmp_path):
    plan = plan_assessment(
        Assessment.read(
            subject_data.place("box_tracker", tmp_path, assessment="box_tracker_passes")
        )
    )
    (refused,) = [s for s in plan.supervisions if not s.applicable]
    assert refused.module == "tracker"
    assert "give it an argument rng" in refused.because


def test_scores_equal_plain_loops_over_the_functions(assessed):
    name, file, run = assessed
    wavering, found = EXPECTED[name], scores_of(run)
    checked = 0
    for condition, row, expected in by_hand(name, file, wavering.n):
        for label, (values, place) in wavering.scores.items():
            assert found[condition][label][row] == pytest.approx(
                expected[values][place], rel=1e-4, abs=1e-6
            )
            checked += 1
    assert checked >= 12 * len(wavering.scores)


def by_hand(
    name: str, file: Path, n: int
) -> Iterator[tuple[str, int, dict[str, tuple[float, float]]]]:
    """Condition, row and ratios of some cases of every condition, by asking the functions again and again."""
    plan = plan_assessment(Assessment.read(file))
    draws = [(), *(("pass", k) for k in range(n))]
    for condition in plan.conditions:
        data, at = plan.data[condition.role], plan.at(condition)
        label = f"{condition.circumstance}@{condition.level:g}" if condition.circumstance else ""
        for row in range(0, len(data.ids), max(len(data.ids) // 5, 1)):
            case = condition.case_id(data.ids[row])
            yield label, row, BY_HAND[name](data.inputs[row], case, at, draws)


def ratios(distance: Callable[[Any, Any], float], answers: list[Any]) -> tuple[float, float]:
    """Equations 5 and 6: the first answer is the original, the others are its passes."""
    original, *passes = answers
    count = len(passes)
    pairs = [distance(passes[i], passes[j]) for i in range(count) for j in range(count) if i != j]
    return float(np.mean(pairs)), float(np.mean([distance(p, original) for p in passes]))


def worst(steps: list[tuple[float, float]]) -> tuple[float, float]:
    return max(s[0] for s in steps), max(s[1] for s in steps)


def classes(image, case, at, draws):
    image = at["input"](image, case, 0) if at else image
    rows = [
        nearest_mean.predict_dropping([image], [generator(SEED, case, "model", 0, *d)])[0]
        for d in draws
    ]
    kept = np.array(rows, dtype=np.float32)
    spread = float(np.sqrt(kept[1:].astype(np.float64).var(axis=0, ddof=1).sum()))
    apart = ratios(lambda a, b: float(a.argmax() != b.argmax()), rows)
    return {"class": apart, "scores": (spread, 0.0)}


def scene(image, case, at, draws):
    image = at["input"](image, case, 0) if at else image
    found = [
        box_finder.boxes_of_wavering(image, generator(SEED, case, "finder", 0, *d)) for d in draws
    ]
    return {"boxes": ratios(iou, found)}


def sequence(frames, case, at, draws):
    frames = [at["detector.frame"](f, case, t) if at else f for t, f in enumerate(frames)]
    seen = [
        [
            box_tracker.detect_wavering(f, generator(SEED, case, "detector", t, *d))
            for t, f in enumerate(frames)
        ]
        for d in draws
    ]

    def followed(boxes):
        state, steps = None, []
        for one in boxes:
            tracks, state = box_tracker.follow(one, state)
            steps.append(tracks)
        return TRACKS.join(steps)

    by_step = [ratios(iou, list(step)) for step in zip(*seen, strict=True)]
    return {"detector": worst(by_step), "system": ratios(mota, [followed(boxes) for boxes in seen])}


def clip(audio, case, at, draws):
    audio = at["input"](audio, case, 0) if at else audio
    said = [
        tone_words.transcribe_wavering(audio, generator(SEED, case, "model", 0, *d)) for d in draws
    ]
    return {"text": ratios(bleu, said)}


def dialogue(goal, case, at, draws):
    def played(drawn):
        turns, heard, answer, state = [], [], None, None
        for step in range(3):
            utterance = booking.user(goal, answer, generator(SEED, case, "user", step))
            heard.append(at["nlu.utterance"](utterance, case, step) if at else utterance)
            slots = booking.understand_wavering(
                heard[-1], generator(SEED, case, "nlu", step, *drawn)
            )
            decided, state = booking.decide(slots, state)
            turns.append(decided["turn"])
            answer = decided["answer"]
            if decided["done"]:
                break
        return EPISODE.join(turns), heard

    episodes = [played(d) for d in draws]
    understood = [
        [booking.understand_wavering(heard, generator(SEED, case, "nlu", step, *d)) for d in draws]
        for step, heard in enumerate(episodes[0][1])
    ]
    return {
        "nlu": worst([ratios(jaccard, slots) for slots in understood]),
        "system": ratios(episode_bleu, [episode for episode, _ in episodes]),
    }


BY_HAND = {
    "nearest_mean": classes,
    "box_finder": scene,
    "box_tracker": sequence,
    "tone_words": clip,
    "booking": dialogue,
}
