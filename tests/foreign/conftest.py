"""The foreign package is installed for its tests alone: collected, it would register its components for all of them."""

collect_ignore = ["fogworks"]
