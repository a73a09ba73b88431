"""For every rule there is a component that breaks it: supervisors, adapters, loaders, executors, reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roadworthy import conformance, registry
from roadworthy.assessment.section import Section
from roadworthy.data.samples import DataError
from roadworthy.data.values import BOXES, CLASS_SCORES
from roadworthy.execution.work import Done, work
from roadworthy.subject.needs import Gradient, Input, Layer, Output, Passes, Score
from roadworthy.subject.passes import Summary

GIVES = {"inputs": ("image",), "targets": ("label",)}


class Supervising:
    """Reads the highest class score."""

    needs: Any = (Output(),)
    fitted = False

    def applies_to(self, kind):
        return (
            None
            if kind is CLASS_SCORES
            else f"it reads class scores, and the module gives {kind.name}"
        )

    def fit(self, trace, truth):
        pass

    def score(self, trace):
        return 1.0 - np.asarray(trace.output, dtype=np.float64).max(axis=1)

    def save(self, folder):
        pass

    def load(self, folder):
        pass


def test_a_sound_supervisor_breaks_nothing(broken):
    assert broken("supervisors", Supervising) == set()


def test_a_class_without_a_docstring_of_its_own(broken):
    class Silent(Supervising):
        pass

    assert "has_a_docstring" in broken("supervisors", Silent)


def variant(**methods: Any) -> type:
    return type("Variant", (Supervising,), {"__doc__": "Reads class scores.", **methods})


def test_a_contract_that_is_not_met(broken):
    class Bare:
        """Scores only."""

        def score(self, trace):
            return np.zeros(len(trace))

    assert "follows_the_contract" in broken("supervisors", Bare)


def test_needs_that_nobody_knows(broken):
    assert "follows_the_contract" in broken("supervisors", variant(needs=("output",)))


def test_a_reason_that_is_a_sentence_of_its_own(broken):
    def applies_to(self, kind):
        return None if kind is CLASS_SCORES else "Not for this kind."

    assert broken("supervisors", variant(applies_to=applies_to)) == {"follows_the_contract"}


def test_scores_of_another_type(broken):
    def score(self, trace):
        return Supervising.score(self, trace).astype(np.float32)

    assert broken("supervisors", variant(score=score)) == {"gives_one_float64_a_row"}


def test_a_number_for_a_row_that_failed(broken):
    def score(self, trace):
        return np.nan_to_num(Supervising.score(self, trace))

    assert broken("supervisors", variant(score=score)) == {"gives_one_float64_a_row"}


def test_scores_that_depend_on_the_order(broken):
    def score(self, trace):
        return Supervising.score(self, trace) + np.arange(len(trace))

    assert "scores_a_row_by_itself" in broken("supervisors", variant(score=score))


def test_scores_that_depend_on_the_chunk(broken):
    def score(self, trace):
        scores = Supervising.score(self, trace)
        return scores - np.nanmean(scores)

    assert broken("supervisors", variant(score=score)) == {"scores_a_row_by_itself"}


def test_a_trace_that_is_changed(broken):
    def score(self, trace):
        scores = Supervising.score(self, trace)
        trace.output[:] = 0.5
        return scores

    assert "scores_a_row_by_itself" in broken("supervisors", variant(score=score))


def test_a_score_that_is_confidence(broken):
    def score(self, trace):
        return -Supervising.score(self, trace)

    assert broken("supervisors", variant(score=score)) == {"higher_is_riskier"}


class Learning(Supervising):
    """Distance of the highest score from its mean on reference rows."""

    fitted = True
    mean = 0.0

    def fit(self, trace, truth):
        self.mean = float(np.asarray(trace.output)[trace.ok].max(axis=1).mean())

    def score(self, trace):
        return self.mean - np.asarray(trace.output, dtype=np.float64).max(axis=1)

    def save(self, folder):
        (folder / "mean.json").write_text(json.dumps(self.mean))

    def load(self, folder):
        self.mean = json.loads((folder / "mean.json").read_text())


def test_a_sound_supervisor_that_learns_breaks_nothing(broken):
    assert broken("supervisors", Learning) == set()


def test_what_was_learned_is_lost(broken):
    lost = type("Lost", (Learning,), {"__doc__": "Forgets.", "load": lambda self, folder: None})
    assert broken("supervisors", lost) == {"comes_back_from_disk"}


def test_what_was_learned_from_rows_that_failed(broken):
    def fit(self, trace, truth):
        self.mean = float(np.asarray(trace.output).max(axis=1).mean())

    careless = type("Careless", (Learning,), {"__doc__": "Learns from anything.", "fit": fit})
    assert "gives_one_float64_a_row" in broken("supervisors", careless)


def of_column(request: Any, read: Any) -> type:
    def score(self, trace):
        return np.where(
            trace.ok, read(np.asarray(trace.columns[request.column], dtype=np.float64)), np.nan
        )

    return variant(needs=(request,), score=score, applies_to=lambda self, kind: None)


READERS = {
    "passes": (Passes("dropout", 10), lambda c: Summary.unpack(c).mean_entropy),
    "apart": (Passes("own", 10, distance="cosine"), lambda c: c[:, 0]),
    "score": (Score("knn"), lambda c: c),
}


@pytest.mark.parametrize("name", READERS)
def test_passes_and_scores_are_made_up_and_their_direction_is_checked(broken, name):
    request, read = READERS[name]
    assert broken("supervisors", of_column(request, read)) == set()
    assert broken("supervisors", of_column(request, lambda c: -read(c)), "turned") == {
        "higher_is_riskier"
    }


@pytest.mark.parametrize(
    ("request_", "read"),
    [
        (Input(), lambda c: c.std(axis=(1, 2))),
        (Gradient("ones_input"), lambda c: c),
        (Layer("early", "max"), lambda c: np.linalg.norm(c, axis=1)),
    ],
)
def test_inputs_gradients_and_layers_are_made_up(broken, request_, read):
    assert broken("supervisors", of_column(request_, read)) == set()
    noisy = of_column(request_, lambda c: read(c) + np.arange(len(c)))
    assert broken("supervisors", noisy, "noisy") == {"scores_a_row_by_itself"}


@pytest.mark.parametrize("name", ["mahalanobis", "knn", "kde", "dsa", "dlpra_knn", "vim"])
def test_a_turned_or_constant_supervisor_of_a_layer(broken, name):
    right = registry.get("supervisors", name).build
    for word, by in (("turned", -1.0), ("constant", 0.0)):
        score = lambda self, trace, by=by: by * right.score(self, trace)  # noqa: E731
        wrong = type("Wrong", (right,), {"__doc__": "Turned.", "score": score})
        assert broken("supervisors", wrong, word) == {"far_rows_are_riskier"}


def test_a_turned_distance_from_one_centre_is_caught(broken):
    """Rows between the classes are near the centre, so that they alone do not show it."""
    centre = of_column(Layer("early", "mean"), lambda c: np.linalg.norm(c, axis=1))
    turned = of_column(Layer("early", "mean"), lambda c: -np.linalg.norm(c, axis=1))
    assert broken("supervisors", centre) == set()
    assert broken("supervisors", turned, "turned") == {"far_rows_are_riskier"}


def test_a_supervisor_of_boxes_is_tried_on_boxes(broken):
    def score(self, trace):
        return np.array(
            [np.nan if b is None else float(len(b.labels)) for b in trace.output], dtype=np.float32
        )

    def applies_to(self, kind):
        return None if kind is BOXES else f"it counts boxes, and the module gives {kind.name}"

    assert broken("supervisors", variant(score=score, applies_to=applies_to)) == {
        "gives_one_float64_a_row"
    }


def test_what_was_learned_is_pickled(broken):
    def save(self, folder):
        Learning.save(self, folder)
        np.save(folder / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)

    assert broken(
        "supervisors", type("Kept", (Learning,), {"__doc__": "Pickles.", "save": save})
    ) == {"comes_back_from_disk"}


def test_an_adapter_without_the_task(broken):
    def adapter(*, path: str, base: Path):
        """A way in."""

    assert broken("adapters", adapter) == {"takes_path_base_and_task"}


def test_an_adapter_that_makes_up_its_folder(broken):
    def adapter(*, path: str, task: str, base: Path = Path()):
        """A way in."""

    assert broken("adapters", adapter) == {"takes_path_base_and_task"}


def refuse(path: str) -> None:
    raise DataError(f"{path} does not exist; name another")


def test_a_sound_loader_breaks_nothing(broken):
    def loader(
        *,
        path: str,
        base: Path = Path(),
        name: str = "",
        group: str = "",
        classes: list[str] | None = None,
    ):
        """A form of data."""
        refuse(path)

    assert broken("loaders", loader, gives=GIVES) == set()


def test_a_loader_without_a_group(broken):
    def loader(*, path: str, base: Path = Path(), name: str = "", classes: list[str] | None = None):
        """A form of data."""
        refuse(path)

    assert broken("loaders", loader, gives=GIVES) == {"takes_what_every_data_set_may_say"}


def test_a_loader_of_it_does_not_say_what(broken):
    def loader(
        *,
        path: str,
        base: Path = Path(),
        name: str = "",
        group: str = "",
        classes: list[str] | None = None,
    ):
        """A form of data."""
        refuse(path)

    assert broken("loaders", loader) == {"says_which_kinds_it_gives"}


def test_a_loader_that_does_not_name_the_file(broken):
    def loader(
        *,
        path: str,
        base: Path = Path(),
        name: str = "",
        group: str = "",
        classes: list[str] | None = None,
    ):
        """A form of data."""
        raise FileNotFoundError("nothing there")

    assert broken("loaders", loader, gives=GIVES) == {"a_missing_file_is_named"}


def test_an_executor_without_workers(broken):
    def executor(plan, cache, indices):
        """One after the other."""
        return (work(plan, cache, i) for i in indices)

    assert "takes_workers" in broken("executors", executor)


def test_an_executor_that_leaves_a_chunk_out(broken):
    def executor(plan, cache, indices, *, workers: int = 1):
        """All but the last."""
        return (work(plan, cache, i) for i in indices[:-1])

    assert broken("executors", executor) == {"computes_what_is_asked_and_nothing_else"}


def test_an_executor_that_only_says_so(broken):
    def executor(plan, cache, indices, *, workers: int = 1):
        """Boasts."""
        return (Done(i, 4, 0, 0.0) for i in indices)

    assert broken("executors", executor) == {"computes_what_is_asked_and_nothing_else"}


def test_a_report_that_writes_into_the_run(broken):
    def report(run):
        """Leaves a note."""
        notes = len(list(run.folder.glob("note*")))
        (run.folder / f"note{notes}.txt").write_text("was here")
        return "done"

    assert broken("reports", report) == {"renders_a_run_and_changes_nothing"}


def test_a_report_that_gives_no_text(broken):
    def report(run):
        """Says nothing."""

    assert broken("reports", report) == {"renders_a_run_and_changes_nothing"}


def test_a_section_that_waits_for_one_that_is_not_there(broken):
    class Waiting(Section):
        """Counts nothing."""

        after = ("nobody",)

    assert "declares_what_others_do_not" in broken("sections", Waiting)


def test_a_section_whose_record_is_no_model(broken):
    class Loose(Section):
        """Counts nothing."""

        Record = dict

    assert "its_record_is_written_read_and_shown" in broken("sections", Loose)


def test_every_rule_is_broken_by_some_component_of_these_tests():
    rules = {rule.__name__ for room in registry.ROOMS for rule in conformance.rules_of(room)}
    text = "".join(
        path.read_text() for path in Path(__file__).parent.glob("test_checks_catch_*.py")
    )
    assert [rule for rule in sorted(rules) if f'"{rule}"' not in text] == []
