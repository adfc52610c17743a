"""The folder of Airflow's plugins: imports Databus's plugin, which the installed package registers by its entry point.

Where the package is on the path and not installed, there is no entry point: then Airflow finds the plugin here.
Airflow imports every file of this folder by its bare name: this is the only one, and its name is unique.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from databus.airflow import plugin

if not entry_points(group="airflow.plugins", name="databus"):
    DatabusPlugin = plugin.DatabusPlugin
