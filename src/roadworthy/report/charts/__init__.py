"""Charts: pure functions from numbers to SVG text, on one palette; each has a title, a description and tooltips.

>>> from roadworthy.report.charts import forest, ForestRow
>>> forest([ForestRow("fog", 0.7, 0.65, 0.75)], title="Accuracy").startswith("<svg")
True
"""

from __future__ import annotations

from .cell_map import MapPanel, map_chart
from .claims import ClaimRow, claims_chart
from .curves import CurveLine, curves_chart
from .event_tree import event_tree
from .forest import ForestRow, forest
from .heat import ALARMED, MISSED, RANKING, HeatCell, Ramp, heat
from .levels import LevelPanel, LevelPoint, levels_chart
from .palette import standalone
from .priority import PriorityPoint, priority_chart
from .relation import LossPoint, relation_chart
from .system_graph import GraphCell, GraphPanel, ModuleBox, system_graph

__all__ = [
    "ALARMED",
    "MISSED",
    "RANKING",
    "ClaimRow",
    "CurveLine",
    "ForestRow",
    "GraphCell",
    "GraphPanel",
    "HeatCell",
    "LevelPanel",
    "LevelPoint",
    "LossPoint",
    "MapPanel",
    "ModuleBox",
    "Ramp",
    "PriorityPoint",
    "claims_chart",
    "curves_chart",
    "event_tree",
    "forest",
    "heat",
    "levels_chart",
    "map_chart",
    "priority_chart",
    "relation_chart",
    "standalone",
    "system_graph",
]
