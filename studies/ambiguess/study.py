"""The tables of Weiss et al. 2023 (AmbiGuess): how classifiers answer truly ambiguous pictures, and which
supervisors see ambiguous, adversarial, corrupted and invalid ones.

    python studies/ambiguess/study.py --quick        half an hour on two cores, Fashion-MNIST
    python studies/ambiguess/study.py --full         both data sets, on a GPU; resumes where it stopped

Data: `roadworthy data get mnist --into studies/ambiguess/cache/data`, likewise fashion-mnist.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tables
import torch
from classifiers import ARCHITECTURES, Network, trained

from roadworthy.cases.adversarial.bim import bim
from roadworthy.cases.adversarial.deepfool import deepfool
from roadworthy.cases.adversarial.fgsm import fgsm
from roadworthy.cases.adversarial.pgd import pgd
from roadworthy.cases.ambiguous.between_classes import FittedPairs, fit_pairs, keep_arrays
from roadworthy.cases.transform import at_level
from roadworthy.data.loaders.idx import read_idx
from roadworthy.data.png import encode_png
from roadworthy.data.values import CLASS_SCORES
from roadworthy.generative.raae import CONVOLUTIONAL, Form
from roadworthy.generative.vae import VAE
from roadworthy.statistics.ranking import auc
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_query import TorchQuery
from roadworthy.subject.needs import EARLY, MIDDLE, PENULTIMATE, Input, Layer
from roadworthy.subject.passes import Summary, entropies
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors import passes, softmax, surprise
from roadworthy.supervisors.dissector import Dissector

HERE = Path(__file__).parent
SETS = {"mnist": "fashion-mnist", "fashion-mnist": "mnist"}
"""Each data set, and the one whose pictures are invalid for it."""
LICENCES = {"mnist": "CC BY-SA 3.0, as MNIST", "fashion-mnist": "MIT, as Fashion-MNIST"}
CLASSES = {
    "mnist": [str(k) for k in range(10)],
    "fashion-mnist": ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker",
                      "bag", "ankle boot"],
}  # fmt: skip
EPSILONS = (0.0002, 0.0005, 0.0008, 0.001, 0.0015, 0.002, 0.003, 0.01, 0.1, 0.3, 0.5, 1.0)
"""Of attacks in L-infinity, as the authors' code has them: the least one that succeeds is taken."""
ATTACKS = (fgsm, partial(pgd, step=1 / 30, steps=40), partial(bim, step=0.2, steps=10))
"""With the steps of the authors' library; the fourth, DeepFool, needs no epsilon."""
CORRUPTIONS = ("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur",
               "zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform",
               "pixelate", "jpeg_compression")  # fmt: skip
"""Our own transforms, one a picture at a level from 1 to 5; the paper takes MNIST-C and FMNIST-C."""
VARIANT_PAIRS = [(0, 1), (0, 9), (1, 2), (2, 3), (3, 4)]
"""For which convolutional autoencoders are shown beside dense ones."""
OURS = "Autoencoder, 16 latents"
"""The supervisor of this package, beside the authors'."""
SMALLEST = -np.log(np.nextafter(0, 1))
"""Of smaller densities the authors' code takes the logarithm of 0."""
SOFTMAX = {"Max. Softmax": softmax.max_softmax, "PCS": softmax.prediction_confidence,
           "DeepGini": softmax.deep_gini, "Softmax Entropy": softmax.softmax_entropy}  # fmt: skip
PASSES = {"VR": passes.variation_ratio, "MS": passes.mean_softmax,
          "MI": passes.mutual_information, "PE": passes.predictive_entropy}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How much is computed."""

    images: int
    ambiguous: tuple[int, int]
    """Ambiguous pictures to train and to test on."""
    tested: int
    autoencoders: int
    training: Mapping[str, tuple[int, int]]
    """Epochs and batch by architecture."""
    pool: Mapping[str, int]
    """Networks trained by architecture; the first `runs` are assessed, ensembles are drawn from all."""
    runs: int
    ensemble: int
    passes: int
    device: str = "cpu"
    attacked: int = 500
    """Pictures attacked at once."""
    looks: int = 160_000
    """Pictures that an autoencoder of two latents is shown: the 800 steps of ours are too few for it."""
    dissected: int = 3_000
    """Pictures that Dissector's perceptrons learn from: their fit takes hundreds of steps over all of them."""


QUICK = Settings(10_000, (3_300, 2_000), 2_000, 2, {"cnn": (3, 32)}, {"cnn": 6}, 2, 5, 20)
FULL = Settings(
    60_000, (20_000, 10_000), 10_000, 20,
    {"cnn": (15, 128), "fc": (30, 128), "resnet": (10, 128), "densenet": (15, 256), "linear": (30, 128)},
    {"cnn": 25, "fc": 25, "resnet": 6, "densenet": 6, "linear": 6}, 3, 5, 100, "cuda", 2500, 2_400_000, 20_000,
)  # fmt: skip


def main() -> None:
    """Compute what is missing, then write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--quick", action="store_true", help="two cores, half an hour")
    how.add_argument("--full", action="store_true", help="a GPU")
    parser.add_argument("--sets", nargs="*", choices=list(SETS))
    parser.add_argument("--cache", type=Path, default=HERE / "cache")
    parser.add_argument("--tables", type=Path, default=HERE / "tables")
    parser.add_argument(
        "--stages", nargs="+", choices=["pictures", *ARCHITECTURES, "convolutional"],
        help="these alone, so that several processes share the work; pictures come first",
    )  # fmt: skip
    given = parser.parse_args()
    settings, kind = (QUICK, "quick") if given.quick else (FULL, "full")
    names = given.sets or (["fashion-mnist"] if given.quick else list(SETS))
    for name in names:
        study = Study(name, settings, given.cache, kind)
        more = [] if given.quick else ["convolutional"]
        for found in study.run(given.stages or [*settings.pool, *more]):
            print(found, flush=True)
    tables.write(given.cache / kind, given.tables / kind, names)


class Study:
    """One data set: its ambiguous pictures, networks, and what each network and supervisor makes of them."""

    def __init__(self, name: str, settings: Settings, cache: Path, kind: str) -> None:
        self.name, self.how = name, settings
        self.data, self.cache = cache / "data", cache / kind / name
        self.cache.mkdir(parents=True, exist_ok=True)
        self.device = torch.device(settings.device)
        images, labels = read_set(self.data, name, "train")
        self.x, self.y = images[: settings.images], labels[: settings.images]
        images, labels = read_set(self.data, name, "t10k")
        self.tested, self.truth = images[: settings.tested], labels[: settings.tested]
        other, _ = read_set(self.data, SETS[name], "t10k")
        self.invalid = other[: settings.tested]

    def run(self, stages: Sequence[str]) -> Iterator[str]:
        """Stages; what is kept of an earlier run is not computed again."""
        self.sets = self._ambiguous()
        yield f"{self.name}: ambiguous pictures"
        self.corrupted = corrupted(self.tested)
        if "pictures" in stages:
            self._autoencoders()  # else each process fits its own
        for mode in ("mixed", "nominal"):
            for architecture, count in self.how.pool.items():
                if architecture not in stages:
                    continue
                for number in range(count if mode == "mixed" else 1):
                    self._network(mode, architecture, number)
                yield f"{self.name}: {architecture}, {mode}, trained"
                for number in range(min(self.how.runs, count) if mode == "mixed" else 1):
                    file = self.cache / f"{mode}-{architecture}-{number}.json"
                    if file.exists():
                        continue
                    started = time.monotonic()
                    found = self._assessed(mode, architecture, number, self._autoencoders())
                    file.write_text(json.dumps(found))
                    yield f"{file.stem}: {time.monotonic() - started:.0f} s"
        if "convolutional" in stages:
            self._variant()
            yield f"{self.name}: convolutional"

    def _variant(self) -> None:
        """The paper's dense autoencoders beside convolutional ones, as the networks at hand see their pictures."""
        if (self.cache / "variants.json").exists():
            return
        fitted = self._fitted_pairs(1, CONVOLUTIONAL, pairs=VARIANT_PAIRS)
        n = self.how.ambiguous[1] // 10
        made = self._drawn(fitted, "convolutional", n, 0.25, seed=3)
        dense = self.sets["disjoint"]
        same = np.isin(dense["pair"] @ [10, 1], made["pair"] @ [10, 1])  # pairs that both have
        dense = {k: v[same][:n] for k, v in dense.items() if k != "nothing"}
        rows = []
        for variant, own in (("dense, 2 latents", dense), ("convolutional, 8 latents", made)):
            row = {"set": self.name, "pictures": variant, **diversity(own["images"])}
            for mode in ("mixed", "nominal"):
                networks = [self._network(mode, a, 0) for a in self.how.pool if a != tables.LINEAR]
                answers = [_softmax(self._seen(n, own["images"]).output) for n in networks]
                each = [ambiguous_row(p, own["labels"], own["probabilities"]) for p in answers]
                row |= {f"{k}, {mode}": round(float(np.mean([e[k] for e in each])), 4) for k in each[0]}
            rows.append(row)
        rows.append({"set": self.name, "pictures": "nominal", **diversity(self.tested)})
        write_side_by_side(self.cache / "side-by-side.png", dense, made)
        (self.cache / "variants.json").write_text(json.dumps(rows))

    def _fitted_pairs(self, count: int, form: Form, **more: Any) -> FittedPairs:
        return fit_pairs(
            self.x, self.y, 10, autoencoders=count, form=form, device=self.how.device,
            keep=self.cache / "autoencoders", **more,
        )  # fmt: skip

    def _ambiguous(self) -> dict[str, dict[str, np.ndarray]]:
        """Pictures to train on and to test on, from the same autoencoders (shared) and from others (disjoint)."""
        fitted: FittedPairs | None = None
        found = {}
        train, test = self.how.ambiguous
        asked = {"train": (train, 0.4, 0), "shared": (test, 0.25, 0), "disjoint": (test, 0.25, 1)}
        for seed, (which, (n, delta, odd)) in enumerate(asked.items()):
            file = self.cache / f"ambiguous-{which}.npz"
            if file.exists():
                with np.load(file) as kept:
                    found[which] = dict(kept)
            else:
                fitted = fitted or self._fitted_pairs(self.how.autoencoders, Form())
                use = {"use": lambda number, odd=odd: number % 2 == odd}
                found[which] = self._drawn(fitted, which, n, delta, seed=seed, **use)
        return found

    def _drawn(self, fitted: FittedPairs, which: str, n: int, delta: float, *, seed: int, **how: Any) -> dict[str, np.ndarray]:
        """A set that others can use: arrays, a card, and a sheet to look at."""
        made, names = fitted.draw(n, np.random.default_rng(seed), delta_max=delta, **how), CLASSES[self.name]
        arrays = {
            "images": made.images, "probabilities": made.probabilities.astype(np.float32),
            "labels": made.drawn_labels(np.random.default_rng(100 + seed)), "pair": made.pair,
            "autoencoder": made.autoencoder,
            "nothing": np.array([f"{names[a]} and {names[b]}: {why}" for (a, b), why in made.nothing.items()], dtype=str),
        }  # fmt: skip
        file = self.cache / f"ambiguous-{which}.npz"
        np.savez_compressed(file, **arrays)
        write_card(file, self.name, arrays, delta)
        return arrays

    def _network(self, mode: str, architecture: str, number: int) -> Network:
        """A trained network, kept as arrays."""
        file = self.cache / f"{mode}-{architecture}-{number}.npz"
        build = ARCHITECTURES[architecture]
        if not file.exists():
            x, y = self._training(mode)
            seed = 1000 * list(ARCHITECTURES).index(architecture) + number
            epochs, batch = self.how.training[architecture]
            made = trained(build, self._pixels(x), torch.as_tensor(y, device=self.device),
                           epochs=epochs, seed=seed, batch=batch)  # fmt: skip
            keep_arrays(file, {k: v.cpu().numpy() for k, v in made.state_dict().items()})
        network = build()
        with np.load(file) as kept:
            network.load_state_dict({k: torch.as_tensor(v) for k, v in kept.items()})
        return network.to(self.device).eval()

    def _training(self, mode: str) -> tuple[np.ndarray, np.ndarray]:
        if mode == "nominal":
            return self.x, self.y
        more = self.sets["train"]
        return np.concatenate([self.x, more["images"]]), np.concatenate([self.y, more["labels"]])

    def _pixels(self, images: np.ndarray) -> torch.Tensor:
        scale = 255.0 if images.dtype == np.uint8 else 1.0
        return torch.as_tensor(images, dtype=torch.float32, device=self.device) / scale

    def _autoencoders(self) -> dict[str, VAE]:
        """The paper's, with two latents, and our supervisor's; kept."""
        found = {}
        images, _ = self._training("mixed")
        long = max(2, self.how.looks // len(images))
        for name, latent, hidden, epochs in (("Autoencoder", 2, 32, long), (OURS, 16, 16, None)):
            file = self.cache / f"vae-{latent}.npz"
            if not file.exists():
                made = VAE.fit(images, latent=latent, hidden=hidden, epochs=epochs, device=self.how.device)
                keep_arrays(file, made.arrays())
            with np.load(file) as kept:
                found[name] = VAE.from_arrays(dict(kept), device=self.how.device)
        return found

    def _assessed(self, mode: str, architecture: str, number: int, vaes: dict[str, VAE]) -> dict[str, Any]:
        """Table I on all sets; for mixed training also table II."""
        network = self._network(mode, architecture, number)
        seen = {"nominal": self._seen(network, self.tested)}
        table = {"nominal": one_class_row(_softmax(seen["nominal"].output), self.truth)}
        for which in ("shared", "disjoint"):
            own = self.sets[which]
            seen[which] = self._seen(network, own["images"])
            p = _softmax(seen[which].output)
            table[which] = ambiguous_row(p, own["labels"], own["probabilities"])
        if mode == "nominal":
            return {"table1": table, "table2": {}}
        seen["corrupted"] = self._seen(network, self.corrupted)
        seen["invalid"] = self._seen(network, self.invalid)
        seen["adversarial"] = self._seen(network, self._attacked(network))
        scores = {k: self._scores(network, architecture, number, vaes, seen[k], k) for k in seen}
        found = {}
        for supervisor, clean in scores["nominal"].items():
            for which in ("shared", "disjoint", "adversarial", "corrupted", "invalid"):
                other = scores[which].get(supervisor)
                if other is not None:
                    marks = np.repeat([0, 1], [len(clean), len(other)])
                    found[f"{supervisor}|{which}"] = auc(np.r_[clean, other], marks)
        return {"table1": table, "table2": found}

    @torch.no_grad()
    def _seen(self, network: Network, images: np.ndarray) -> ModuleTrace:
        """Logits, and what supervisors read of the layers: spatial ones as their mean."""
        logits, columns = [], {EARLY: [], MIDDLE: [], PENULTIMATE: []}  # type: ignore[var-annotated]
        for start in range(0, len(images), 2000):
            layers = network.layers(self._pixels(images[start : start + 2000])[:, None])
            logits.append(network.head(layers[-1]).cpu().numpy())
            three = (layers[0], layers[len(layers) // 2], layers[-1])
            for parts, layer in zip(columns.values(), three, strict=True):
                parts.append((layer.mean((2, 3)) if layer.ndim == 4 else layer).cpu().numpy())
        named = {Layer(name).column: np.concatenate(parts) for name, parts in columns.items()}
        return _trace(np.concatenate(logits), {**named, Input().column: images})

    def _scores(
        self, network: Network, architecture: str, number: int, vaes: dict[str, VAE],
        here: ModuleTrace, which: str,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """All supervisors on one set; higher is riskier."""
        found = {name: risk(_softmax(here.output)) for name, risk in SOFTMAX.items()}
        dropped = self._passes(network, here.columns[Input().column])
        found |= {f"MC-Dropout ({k})": risk(dropped) for k, risk in PASSES.items()}
        if self.how.pool[architecture] > self.how.ensemble and which != "adversarial":  # made for this network alone
            members = self._members(architecture, number, here.columns[Input().column])
            found |= {f"Deep Ensemble ({k})": PASSES[k](members) for k in ("MS", "MI", "PE")}
        for name, supervisor in self._fitted(network, architecture, number).items():
            found[name] = supervisor.score(here)
        failed = np.isin(here.output.argmax(axis=1), self._no_density) | (found["LSA"] > SMALLEST)
        found["LSA, as coded"] = np.where(failed, np.finfo(float).max, found["LSA"])
        for name, vae in vaes.items():
            found[name] = reconstruction_risk(vae, here.columns[Input().column], squared=name == OURS)
        return found

    @torch.no_grad()
    def _passes(self, network: Network, images: np.ndarray) -> Summary:
        """What comes before the first dropout is asked once."""
        torch.manual_seed(0)
        parts = np.array_split(images, -(-len(images) // 2000))
        shared = torch.cat([network.before(self._pixels(part)[:, None]) for part in parts])
        after = network.after()
        for module in after.modules():
            module.train(isinstance(module, torch.nn.Dropout))
        found = Summary.of(_softmax(after(shared).cpu().numpy()) for _ in range(self.how.passes))
        network.eval()
        return found

    def _members(self, architecture: str, number: int, images: np.ndarray) -> Summary:
        """Other networks of the pool, drawn for each run."""
        pool = [k for k in range(self.how.pool[architecture]) if k != number]
        chosen = np.random.default_rng(number).choice(pool, self.how.ensemble, replace=False)
        networks = (self._network("mixed", architecture, int(k)) for k in chosen)
        return Summary.of(_softmax(self._seen(n, images).output) for n in networks)

    def _fitted(self, network: Network, architecture: str, number: int) -> dict[str, Any]:
        """Surprise and Dissector, fitted on the training pictures of the network."""
        key = (architecture, number)
        if getattr(self, "_fitted_for", None) != key:
            x, y = self._training("mixed")
            reference, device = self._seen(network, x), self.how.device
            some = np.random.default_rng(0).permutation(len(x))[: self.how.dissected]
            memory = 512 if device == "cpu" else 8_192
            self._fitted_now = {
                "Dissector": Dissector(layers=(EARLY, MIDDLE, PENULTIMATE), device=device, memory_mb=memory),
                "DSA": surprise.DistanceSurprise(share=0.3, device=device, memory_mb=memory),
                "LSA": surprise.LikelihoodSurprise(device=device, memory_mb=memory),
                "MDSA": surprise.MahalanobisSurprise(device=device, memory_mb=memory),
            }
            for name, supervisor in self._fitted_now.items():
                if name == "Dissector":
                    supervisor.fit(self._seen(network, x[some]), y[some])
                else:
                    supervisor.fit(reference, y)
            own, predicted = reference.columns[Layer(PENULTIMATE).column], reference.output.argmax(axis=1)
            self._no_density = [k for k in np.unique(predicted) if _fails(own[predicted == k])]
            self._fitted_for = key
        return self._fitted_now

    def _attacked(self, network: Network) -> np.ndarray:
        """A quarter each of FGSM, PGD, BIM and DeepFool, as floats from 0 to 1."""
        query = TorchQuery(network, InputPreparation(), self.how.device, torch.get_num_threads())

        def answers(x: torch.Tensor) -> np.ndarray:
            return query.scores(x).argmax(dim=1).cpu().numpy()

        made = []
        for number, rows in enumerate(np.array_split(np.arange(len(self.tested)), 4)):
            for part in np.array_split(rows, -(-len(rows) // self.how.attacked)):
                images, labels = self._pixels(self.tested[part]), self.truth[part]
                rngs = [np.random.default_rng(int(k)) for k in part]
                found = images.clone()
                left = np.flatnonzero(answers(images) == labels)
                tries = [partial(ATTACKS[number], epsilon=e) for e in EPSILONS] if number < 3 else [deepfool]
                for attack in tries:
                    if not len(left):
                        break
                    true = torch.as_tensor(labels[left], device=self.device)
                    moved = attack(images[left], true, query, [rngs[k] for k in left]).detach()
                    fooled = answers(moved) != labels[left]
                    found[left[fooled]] = moved[fooled]
                    left = left[~fooled]
                made.append(found.cpu().numpy())
        return np.concatenate(made).astype(np.float32)


def read_set(folder: Path, name: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and labels of a data set, gzipped or not."""
    found = []
    for what in ("images-idx3", "labels-idx1"):
        files = sorted((folder / name).glob(f"{part}-{what}-ubyte*"))
        if not files:
            raise SystemExit(
                f"{folder / name} has no {part}-{what}-ubyte: roadworthy data get {name} --into {folder}"
            )
        found.append(read_idx(files[0]))
    return found[0], found[1].astype(np.int64)


def corrupted(images: np.ndarray) -> np.ndarray:
    """Each picture under one of the corruptions at one level."""
    made = np.empty_like(images)
    for row, image in enumerate(images):
        rng = np.random.default_rng(row)
        how = at_level(CORRUPTIONS[row % len(CORRUPTIONS)], int(rng.integers(1, 6)))
        made[row] = how.value(image, rng)
    return made


def reconstruction_risk(vae: VAE, images: np.ndarray, *, squared: bool) -> np.ndarray:
    """How unlike its reconstruction a picture is: squared error, or the cross-entropy of the authors' code."""
    if squared:
        return vae.reconstruction_error(images)
    x = images.astype(np.float64).reshape(len(images), -1) / (255 if images.dtype == np.uint8 else 1)
    again = np.clip(vae.reconstruct(images).reshape(len(x), -1), 1e-7, 1 - 1e-7)
    return -(x * np.log(again) + (1 - x) * np.log1p(-again)).sum(axis=1)


def _fails(rows: np.ndarray) -> bool:
    """Whether the authors' code has no density of a class: what it adds to a singular covariance replaces the
    variances, so that it stays singular, and all its pictures are infinitely surprising."""
    rows = rows[:, np.argsort(rows.var(axis=0))[-300:]].astype(float)
    narrow = len(rows) ** (-2 / (rows.shape[1] + 4))
    return bool(np.linalg.eigvalsh(np.cov(rows.T) * narrow).min() <= 0)


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def _trace(logits: np.ndarray, columns: dict[str, np.ndarray]) -> ModuleTrace:
    n = np.arange(len(logits))
    return ModuleTrace(n, n, np.full(len(n), None), np.zeros(len(n)), CLASS_SCORES, logits, columns)


def one_class_row(p: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Table I of pictures with one right answer; entropy in bits."""
    best = np.argsort(-p, axis=1)[:, :2]
    top1, top2 = (best[:, 0] == labels).mean(), (best == labels[:, None]).any(axis=1).mean()
    return {"top1": float(top1), "top2": float(top2), "entropy": float(entropies(p).mean() / np.log(2))}


def ambiguous_row(p: np.ndarray, labels: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """With the pair: the two classes answered are the two between which the picture lies."""
    best, pair = (np.sort(np.argsort(-q, axis=1)[:, :2], axis=1) for q in (p, truth))
    return {**one_class_row(p, labels), "top_pair": float((best == pair).all(axis=1).mean())}


def diversity(images: np.ndarray) -> dict[str, float]:
    """How much pictures differ, and how sharp they are; distances are of the first 2,000, white being 1."""
    flat = images[:2000].reshape(len(images[:2000]), -1).astype(np.float32) / 255
    apart = np.sqrt(np.maximum((flat**2).sum(1)[:, None] + (flat**2).sum(1) - 2 * flat @ flat.T, 0))
    mean = apart.sum() / (len(flat) * (len(flat) - 1))
    np.fill_diagonal(apart, np.inf)
    least = apart.min(axis=1)
    steps = [np.abs(np.diff(images[:2000].astype(np.float32) / 255, axis=k)).mean() for k in (1, 2)]
    found = {
        "mean distance": mean, "median distance to the nearest other": np.median(least),
        "near-duplicates (nearest within 1.0)": (least < 1.0).mean(), "sharpness (mean step between pixels)": sum(steps),
    }  # fmt: skip
    return {name: round(float(value), 4) for name, value in found.items()}


def write_card(file: Path, name: str, made: Mapping[str, np.ndarray], delta: float) -> None:
    """What the set is, beside it; and a sheet of pictures to look at."""
    card = {
        "name": f"{name}, {file.stem}", "pictures": len(made["images"]), "delta_max": delta,
        "made by": "roadworthy, studies/ambiguess; the method is AmbiGuess (Weiss et al. 2023)",
        "licence": LICENCES[name], "arrays": "images, probabilities, labels (drawn), pair, autoencoder, nothing",
        "classes": CLASSES[name], "pairs without a picture": made["nothing"].tolist(),
        "diversity": diversity(made["images"]),
    }  # fmt: skip
    file.with_suffix(".json").write_text(json.dumps(card, indent=1))
    write_sheet(file.with_suffix(".png"), made["images"][:96])


def write_side_by_side(file: Path, left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> None:
    """A row a pair that both have: eight pictures of the one, eight of the other."""
    tiles = []
    for pair in VARIANT_PAIRS:
        parts = [own["images"][(own["pair"] == pair).all(axis=1)][:8] for own in (left, right)]
        tiles += parts if len(parts[0]) == len(parts[1]) == 8 else []
    if tiles:
        write_sheet(file, np.concatenate(tiles))


def write_sheet(file: Path, images: np.ndarray, across: int = 16) -> None:
    """Pictures side by side, twice as large."""
    missing = -len(images) % across
    tiles = np.pad(images, ((0, missing), (1, 1), (1, 1)), constant_values=96)
    rows = [np.concatenate(tiles[s : s + across], axis=1) for s in range(0, len(tiles), across)]
    sheet = np.concatenate(rows, axis=0)
    file.write_bytes(encode_png(np.kron(sheet, np.ones((2, 2), np.uint8))))


if __name__ == "__main__":
    main()
