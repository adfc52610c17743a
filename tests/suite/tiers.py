"""Tiers of the suite: `make test` takes every path once, `make test-full` all; nothing is in neither.

Listed are the further members of matrices (servers × engines × kinds), long forms of faults, and long checks of tools.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import pytest


class Full(NamedTuple):
    """Tests of the full tier only.

    Attributes:
        file: below tests/.
        test: beginning of the function's name; "" for the whole file.
        case: beginning of the parameters; "" for all.
        stays: what of it `make test` runs.
    """

    file: str
    test: str
    case: str
    stays: str

    def has(self, nodeid: str) -> bool:
        """Tell whether a test is one of them."""
        file, _, rest = nodeid.removeprefix("tests/").partition("::")
        name, _, case = rest.rpartition("::")[2].partition("[")
        return file == self.file and name.startswith(self.test) and case.startswith(self.case)


FULL = (
    Full("e2e/test_two_schedulers.py", "", "", "one scheduler: test_airflow.py"),
    Full(
        "e2e/test_backfill.py",
        "test_the_runbooks_commands",
        "",
        "the same commands without Airflow: integration/test_runbooks.py",
    ),
    Full(
        "e2e/test_backfill.py",
        "test_in_order_intervals",
        "",
        "order without Airflow: integration/test_backfill.py; in Airflow: a native backfill",
    ),
    Full("e2e/test_backfill.py", "test_where_nothing_is_missing", "", "missing: integration/test_backfill.py"),
    Full(
        "e2e/test_airflow.py",
        "test_a_cancel_drains_and_releases",
        "e2e_cancel_submit",
        "[e2e_cancel-failed]; submit: test_both_engines",
    ),
    Full("e2e/test_airflow.py", "test_a_cancel_drains_and_releases", "e2e_marked", "[e2e_cancel-failed]"),
    Full(
        "e2e/test_live_windows.py",
        "",
        "",
        "runs hand over: e2e/test_airflow.py; in the live lane: integration/test_live_lane.py",
    ),
    Full("integration/test_bad_input.py", "test_a_hidden_column_whose_table_gets_another_name", "*", "[orders]"),
    Full(
        "integration/test_bad_input.py",
        "test_a_key_that_makes_other_ids",
        "",
        "ids of another key: integration/test_sink_search_key.py; same file: another column under the key's name",
    ),
    Full(
        "integration/test_rejected_first_batch.py",
        "test_a_record_that_is_too_large",
        "at_least_once",
        "[exactly_once]",
    ),
    Full(
        "faults/test_model.py",
        "test_every_interleaving_keeps_the_invariants",
        "one that comes back to who has lost the flow",
        "[a definition that comes back]; a lost claim: integration/test_sink_kafka_faults.py",
    ),
    Full(
        "faults/test_model.py",
        "test_a_planted_bug_is_found",
        "opened by any claim",
        "a lost claim: integration/test_sink_kafka_faults.py",
    ),
    Full("integration/test_zookeeper_loss.py", "test_a_killed_holder_is_caught_up_with", "target3", "three of nine"),
    Full("integration/test_zookeeper_loss.py", "test_a_killed_holder_is_caught_up_with", "target4", "three of nine"),
    Full("integration/test_zookeeper_loss.py", "test_a_killed_holder_is_caught_up_with", "target5", "three of nine"),
    Full("integration/test_zookeeper_loss.py", "test_a_killed_holder_is_caught_up_with", "target6", "three of nine"),
    Full("integration/test_zookeeper_loss.py", "test_a_killed_holder_is_caught_up_with", "target7", "three of nine"),
    Full("integration/test_zookeeper_loss.py", "test_a_killed_holder_is_caught_up_with", "target8", "three of nine"),
    Full("integration/test_zookeeper_loss.py", "test_it_goes_on_within_bounds_only", "bound1", "[bound0]"),
    Full(
        "integration/test_zookeeper_loss.py",
        "test_the_batch_waits_at_its_write_and_the_run_goes_on",
        "checkpoint-Fault.AFTER-spark",
        "the other three, without Spark",
    ),
    Full("integration/test_zookeeper_restored.py", "test_markers_ahead_are_named_and_adopted", "continue", "[stop]"),
    Full("integration/test_trace_mirror.py", "test_records_that_go_round_for_ever", "", "two-way mirrors, same file"),
    Full(
        "integration/test_dead_sink.py",
        "test_a_dead_sink_stops_only_itself",
        "kafka-",
        "[opensearch-elasticsearch-kafka]",
    ),
    Full(
        "integration/test_mirror_link.py",
        "test_over_a_slow_link_that_is_cut_and_resets_each_record_com",
        "source",
        "[target]",
    ),
    Full(
        "integration/test_faults.py",
        "test_nothing_is_lost_repeated_or_disordered",
        "live",
        "[standard]; kills of the live lane: test_live_lane.py",
    ),
    Full("integration/test_mediation.py", "test_a_rewind_repeats_rows_with_the_same_ids_and_the_markers", "2", "[1]"),
    Full(
        "integration/test_mediation.py",
        "test_a_plan_in_flight_is_closed_first",
        "rewind-commit",
        "[rewind-dispatch], [skip-commit]",
    ),
    Full(
        "integration/test_mediation.py",
        "test_a_plan_in_flight_is_closed_first",
        "skip-dispatch",
        "[rewind-dispatch], [skip-commit]",
    ),
    Full(
        "integration/test_ledger_behind.py",
        "test_harm_to_what_a_sink_did_alone",
        "",
        "the ledger behind and after; harm: test_ledger.py",
    ),
    Full(
        "integration/test_failover_path.py",
        "test_consumers_see_each_change_once_across_a_failover",
        "mariadb",
        "[mysql]; MariaDB's failover: test_failover.py",
    ),
    Full(
        "integration/test_failover.py", "test_another_server_behind_the_same_address_is_noticed", "mariadb", "[mysql]"
    ),
    Full(
        "integration/test_backfill_failover.py",
        "test_older_rows_are_not_put_over_newer_documents",
        "mariadb",
        "[mysql]; places of MariaDB: the file's other tests",
    ),
    Full("integration/test_backfill_failover.py", "test_refused_before_anything_moves", "mariadb", "[mysql]"),
    Full("integration/test_backfill_failover.py", "test_ranges_before_across_and_behind", "mariadb", "[mysql]"),
    Full("integration/test_backfill_failover.py", "test_a_failover_in_the_middle", "mariadb", "[mysql]"),
    Full(
        "integration/test_records.py",
        "test_a_year_of_a_live_flow_fits_into_a_gigabyte",
        "10000",
        "[12-4-100]; both on SQLite: unit/records/test_ledger_pages.py",
    ),
    Full("integration/test_bench.py", "test_every_figure_with_a_bar", "", "a tool's check; the other benches"),
    Full("integration/test_bench_mirror.py", "", "", "a tool's check; test_bench_mirror_link.py"),
    Full(
        "integration/test_kafka_spark.py",
        "test_what_a_registry_describes_is_transformed_checked_and_in",
        "json_schema",
        "[avro]",
    ),
    Full(
        "integration/test_kafka_spark.py",
        "test_what_a_registry_describes_is_transformed_checked_and_in",
        "protobuf",
        "[avro]",
    ),
    Full("integration/test_quarantine.py", "test_a_kill_in_the_middle", "", "test_quarantine_kills.py"),
    Full("integration/test_mirror_heartbeats.py", "test_mirror_maker_s_own", "", "our own heartbeats"),
    Full("integration/test_sandbox.py", "test_servers_that_other_tests_share", "", "the tests that share them"),
    Full(
        "e2e/test_airflow.py",
        "test_an_outage_is_retried",
        "",
        "a killed task is retried; outages: integration/test_bad_input.py",
    ),
    Full("e2e/test_watch_airflow.py", "", "", "integration/test_watch.py, with Airflow's health as it answers"),
    Full(
        "integration/test_bad_input.py",
        "test_a_hidden_column_whose_name_another_one_takes",
        "DropColumns-replaced",
        "[DropColumns-exchanged], [Mask-replaced]",
    ),
    Full(
        "integration/test_bad_input.py",
        "test_a_hidden_column_whose_name_another_one_takes",
        "Mask-exchanged",
        "[DropColumns-exchanged], [Mask-replaced]",
    ),
    Full(
        "integration/test_bad_input.py",
        "test_a_hidden_column_that_an_online_change",
        "gone",
        "[another of its name]; unit/rows/test_hidden.py",
    ),
    Full("integration/test_folded_names.py", "", "mysql", "[mariadb]"),
    Full("integration/test_trace.py", "", "debezium", "[row]"),
    Full("integration/test_trace_mirror.py", "", "debezium", "[row]"),
    Full("integration/test_sink_search_evidence.py", "", "elasticsearch", "[opensearch]; both: test_sink_search.py"),
    Full("integration/test_sink_search_faults.py", "", "elasticsearch", "[opensearch]; both: test_sink_search.py"),
    Full("integration/test_search_conflicts.py", "", "elasticsearch", "[opensearch]; both: test_sink_search.py"),
    Full("integration/test_sink_search_partial.py", "", "elasticsearch", "[opensearch]; both: test_sink_search.py"),
    Full("integration/test_sink_search_truncate.py", "", "elasticsearch", "[opensearch]; both: test_sink_search.py"),
    Full("integration/test_sandbox.py", "test_servers_on_demand", "", "the tests that use them"),
    Full("integration/test_sandbox.py", "test_kafka_keeps_its_messages", "", "kills of brokers in tests of sinks"),
    Full("integration/test_bench_catchup.py", "", "", "a tool's check; test_bench_mirror_link.py"),
    Full("integration/test_bench_trace.py", "", "", "a tool's check; test_bench_mirror_link.py"),
    Full("integration/test_bench_metadata.py", "", "", "a tool's check; Airflow on its database: e2e/test_airflow.py"),
    Full(
        "e2e/test_wake.py", "", "", "a DAG woken by rows: test_control_plane.py; takeover: integration/test_takeover.py"
    ),
    Full("e2e/test_lineage_after_kill.py", "", "", "lineage of runs: test_airflow.py; a killed task: the same"),
    Full("integration/test_sink_kafka_spark.py", "", "", "test_path.py, through the same workers"),
    Full(
        "integration/test_kafka_planned_gaps.py",
        "test_a_plan_in_flight_goes_on_over",
        "latest",
        "[earliest]; both: unit/sources/test_kafka_planned.py",
    ),
    Full(
        "integration/test_kafka_registry.py", "test_an_outage", "", "what does not decode; outages: test_bad_input.py"
    ),
    Full(
        "e2e/test_backfill.py",
        "test_cancelled_and_started_twice",
        "",
        "twice at a time and cut off: integration/test_backfill.py; a cancel: e2e/test_airflow.py",
    ),
    Full("integration/test_spark_cluster.py", "", "", "a killed Spark server, a killed run: integration/test_kill.py"),
    Full(
        "integration/test_mirror_faults.py",
        "test_the_target_holds_what_was_committed",
        "",
        "a mirror's kills: integration/test_mirror.py",
    ),
    Full(
        "integration/test_mirror_map.py",
        "test_the_map_is_exact_while_others_write",
        "",
        "the map over aborted transactions and gaps, same file",
    ),
    Full("integration/test_mirror_lag.py", "test_a_sensor_waits", "", "sensors of a mirror: e2e/test_mirror.py"),
    Full("integration/test_deleted_topics.py", "test_while_a_plan_is_in_flight", "first batch", "[later batch]"),
    Full("integration/test_deleted_topics.py", "test_the_writer_does_not", "at_least_once", "[exactly_once]"),
    Full(
        "integration/test_zookeeper_loss.py",
        "test_a_holder_that_was_only_cut_off_is_fenced",
        "target1",
        "[target0-before-StaleEpochError], [target2-before-StaleEpochError]",
    ),
    Full(
        "integration/checkpoints/test_run_audit.py",
        "test_the_oldest_batch_may_not_lack",
        "",
        "without ZooKeeper: unit/ops/test_run_history.py",
    ),
    Full(
        "integration/checkpoints/test_run_audit.py",
        "test_a_run_of_which_every_report",
        "",
        "without ZooKeeper: unit/ops/test_run_history.py",
    ),
    Full(
        "integration/checkpoints/test_run_audit.py",
        "test_a_run_that_moved_nothing",
        "",
        "without ZooKeeper: unit/ops/test_run_history.py",
    ),
    Full(
        "integration/test_log_replaced.py",
        "test_a_log_that_was_replaced_is_named_by_every_verb",
        "mysql-a longer log",
        "[mysql-a shorter log]",
    ),
    Full(
        "integration/test_log_replaced.py",
        "test_a_log_that_was_replaced_is_named_by_every_verb",
        "mariadb-a shorter log",
        "[mariadb-a longer log]",
    ),
    Full("integration/test_log_replaced.py", "test_a_log_that_is_replaced_again_and_again", "mariadb", "[mysql]"),
    Full(
        "integration/test_log_replaced.py",
        "test_a_way_onto_the_new_log_that_is_cut_off",
        "a run ends the batch first",
        "[the batch is closed-mysql]",
    ),
    Full(
        "integration/test_log_replaced.py",
        "test_a_replaced_log_that_has_deleted_the_flows_file",
        "mariadb-nothing tells",
        "[mysql-nothing tells]",
    ),
    Full("integration/test_older_ranges.py", "test_rows_before", "mysql-a piece", "[mysql-a look]"),
    Full("integration/test_older_ranges.py", "test_rows_before", "mariadb-a look", "[mariadb-a piece of a backfill]"),
    Full(
        "integration/test_quarantine_expired.py",
        "",
        "",
        "markers that expired: test_backfill_expired.py; of replays: unit/runtime/test_forgotten.py",
    ),
    Full(
        "integration/test_mirror_groups.py",
        "",
        "",
        "groups that are carried: integration/test_mirror.py, test_kafka_groups.py",
    ),
    Full(
        "integration/test_backfill_expired.py",
        "test_one_that_was_drained",
        "stuck with an older",
        "test_one_that_was_drained_until_its_markers_expired_goes_on[]",
    ),
    Full("integration/test_mirror_sites.py", "", "", "two sites, both ways: integration/test_mirror.py"),
    Full("integration/test_rejected_first_batch.py", "test_the_first_batch_of_a_new_index", "spark", "[auto]"),
    Full(
        "integration/test_kafka_planned_gaps.py",
        "test_a_mirror_in_flight",
        "",
        "a flow, same file; mirrors: integration/test_kafka_shrunk.py",
    ),
    Full(
        "integration/test_sandbox.py",
        "test_status_tells",
        "",
        "where servers are, by the command: integration/test_cli.py",
    ),
    Full(
        "integration/test_live_lane.py", "test_kill_of_the_task", "", "test_kill_of_the_run; of a task: test_faults.py"
    ),
    Full(
        "spark/test_direct_lane.py",
        "test_both_lanes",
        "",
        "the same on servers: integration/test_direct_lane.py; encoders of both, same file",
    ),
    Full("integration/test_source_xa.py", "test_random_interleaving", "mariadb", "[mysql]"),
    Full("integration/test_failover.py", "test_source_dies_amid_writes", "mariadb", "[mysql]"),
    Full("integration/test_schema_changes.py", "test_alter_storm", "FULL-", "[least-mysql], [least-mariadb]"),
    Full("integration/test_schema_changes.py", "test_histories_begun_while", "FULL-", "[least-mysql], [least-mariadb]"),
    Full(
        "integration/test_zookeeper_loss.py",
        "test_a_killed_holder_is_caught_up_with",
        "target1",
        "[target0-before-2-99], [target2-after-2-99]",
    ),
    Full(
        "integration/test_zookeeper_loss.py",
        "test_the_holder_goes_on_and_is_reconciled",
        "plan-Fault.AFTER",
        "[plan-Fault.BEFORE], [checkpoint-Fault.AFTER]",
    ),
    Full(
        "integration/test_zookeeper_loss.py",
        "test_the_holder_goes_on_and_is_reconciled",
        "checkpoint-Fault.BEFORE",
        "[plan-Fault.BEFORE], [checkpoint-Fault.AFTER]",
    ),
    Full(
        "integration/test_zookeeper_loss.py",
        "test_the_batch_waits_at_its_write_and_the_run_goes_on",
        "plan-Fault.BEFORE-process",
        "[plan-Fault.AFTER-process], [checkpoint-Fault.BEFORE-process]",
    ),
    Full("integration/test_kafka_backfill.py", "test_intervals_of_a_mirror", "", "intervals of a flow, same file"),
    Full("integration/test_path.py", "test_engines_continue_each_other", "", "both engines: e2e/test_airflow.py"),
    Full("integration/test_zookeeper_ensemble.py", "test_one_member_less", "leader-pause", "[leader-kill]"),
    Full(
        "integration/test_partition_ddl.py",
        "test_a_sink_that_fell_behind",
        "",
        "partitions' statements, same file; sinks behind: integration/test_dead_sink.py",
    ),
    Full(
        "integration/checkpoints/test_run_audit.py",
        "test_every_batch_of_a_long_run",
        "",
        "without ZooKeeper: unit/ops/test_run_history.py",
    ),
    Full(
        "integration/test_kill.py",
        "test_kill_of_the_run",
        "",
        "test_kill_of_the_spark_server; kills of runs: integration/test_faults.py, test_direct_lane.py",
    ),
    Full(
        "integration/test_path.py",
        "test_many_small_batches_over_rotations",
        "",
        "in the direct lane: integration/test_direct_lane.py",
    ),
    Full(
        "integration/test_kafka_flows.py",
        "test_each_record_once_through_kills",
        "",
        "a mirror's kills: integration/test_mirror.py; a flow's: test_direct_lane.py",
    ),
    Full("spark/test_replay_behind.py", "test_in_any_order", "1", "[0]"),
    Full("spark/test_replay_behind.py", "test_in_any_order", "2", "[0]"),
    Full("spark/test_replay_behind.py", "test_in_any_order", "3", "[0]"),
    Full("spark/test_replay_behind.py", "test_in_any_order", "4", "[0]"),
    Full("spark/test_replay_behind.py", "test_in_any_order", "5", "[0]"),
    Full("spark/test_replay_behind.py", "test_in_any_order", "6", "[0]"),
    Full("spark/test_replay_behind.py", "test_in_any_order", "7", "[0]"),
    Full(
        "integration/test_quarantine_lost_log.py", "", "", "its stages without servers: spark/test_replay_lost_log.py"
    ),
    Full(
        "integration/test_quarantine_behind.py",
        "",
        "",
        "schedules of it: spark/test_replay_behind.py; sinks behind on servers: test_dead_sink.py",
    ),
    Full("integration/test_bad_input.py", "test_a_hidden_column_that_gets_another_name", "Mask", "[DropColumns]"),
    Full(
        "integration/test_mirror_secured.py",
        "test_wrong_credentials_of_either_side",
        "",
        "credentials of each side, same file; wrong ones: test_security.py",
    ),
    Full(
        "integration/test_direct_lane.py",
        "test_both_lanes_judge",
        "",
        "a consumer sees the same from both, same file; judging: spark/test_checks_lanes.py",
    ),
    Full("unit/records/test_ledger_pages.py", "", "10000", "[12-4-100]"),
    Full(
        "integration/test_ledger_behind.py",
        "test_what_a_sink_gives_up",
        "taken out of it",
        "[of the flow]; without servers: unit/ops/test_giving_up.py",
    ),
    Full("integration/test_backfill_by_statement.py", "", "", "the same ways: integration/test_rows_by_statement.py"),
    Full("integration/test_tables_by_statement.py", "test_a_table_made_of_a_query", "mysql-MIXED", "[mysql-STATEMENT]"),
    Full(
        "integration/test_tables_by_statement.py",
        "test_a_table_made_of_a_query",
        "mariadb-MIXED",
        "[mariadb-STATEMENT]",
    ),
    Full("integration/test_tables_by_statement.py", "test_a_stored_function", "STATEMENT", "[MIXED-mariadb]"),
    Full("unit/records/test_retention.py", "test_thirty_days", "each_minute", "[each_quarter_hour]"),
    Full("unit/records/test_held_rows.py", "test_rows_beyond", "as_many_as_it_is", "[few_at_a_time]"),
    Full("unit/ops/test_quarantine.py", "test_more_events", "as_many_as_it_is", "[few_at_a_time]"),
    Full("unit/ops/test_lineage_runs.py", "test_windows_that_are_refused", "20-", "[4-10-1], [4-20-12]"),
    Full(
        "unit/binlog/test_json_binary_column.py",
        "test_much_damage",
        "",
        "300 documents of its 1500: test_damage_ends_as_in_the_plain_reader",
    ),
    Full("unit/runtime/test_sinks_behind.py", "test_kills_and_outages_at_random", "5", "[0], [4]: five of ten seeds"),
    Full(
        "unit/runtime/test_sinks_behind_detached.py",
        "test_kills_outages",
        "5-",
        "[0-stop], [4-continue]: five of ten seeds",
    ),
    Full("unit/runtime/test_sinks_behind.py", "test_kills_and_outages_at_random", "6", "[0], [4]: five of ten seeds"),
    Full(
        "unit/runtime/test_sinks_behind_detached.py",
        "test_kills_outages",
        "6-",
        "[0-stop], [4-continue]: five of ten seeds",
    ),
    Full("unit/runtime/test_sinks_behind.py", "test_kills_and_outages_at_random", "7", "[0], [4]: five of ten seeds"),
    Full(
        "unit/runtime/test_sinks_behind_detached.py",
        "test_kills_outages",
        "7-",
        "[0-stop], [4-continue]: five of ten seeds",
    ),
    Full("unit/runtime/test_sinks_behind.py", "test_kills_and_outages_at_random", "8", "[0], [4]: five of ten seeds"),
    Full(
        "unit/runtime/test_sinks_behind_detached.py",
        "test_kills_outages",
        "8-",
        "[0-stop], [4-continue]: five of ten seeds",
    ),
    Full("unit/runtime/test_sinks_behind.py", "test_kills_and_outages_at_random", "9", "[0], [4]: five of ten seeds"),
    Full(
        "unit/runtime/test_sinks_behind_detached.py",
        "test_kills_outages",
        "9-",
        "[0-stop], [4-continue]: five of ten seeds",
    ),
    Full("unit/ops/test_ledger_range.py", "test_what_is_missing", "sequence-1-1", "[sequence-1-0]"),
    Full("unit/ops/test_ledger_range.py", "test_what_is_missing", "binlog-1-1", "[binlog-1-0]"),
    Full("unit/ops/test_ledger_range.py", "test_what_is_missing", "partitions-3-1", "[partitions-3-0]"),
    Full("integration/test_bench_mirror_link.py", "test_what_came_while", "", "a tool's check; test_mirror_link.py"),
    Full("spark/test_expectations.py", "test_the_figures_are_great_expectations_own", "auto", "[spark]"),
    Full("spark/test_replay_lost_log.py", "test_of_a_replay_that_one_sink_has", "end", "[None]"),
    Full("integration/test_kafka_registry_secured.py", "test_what_is_refused", "password", "[no login]"),
    Full("integration/test_statement_topics.py", "test_a_batch_that_an_older", "at_least_once", "[exactly_once]"),
    Full("integration/test_large_rows.py", "test_a_value_larger_than_memory", "mariadb", "[mysql]"),
    Full(
        "integration/test_log_replaced.py",
        "test_a_replaced_log_that_has_deleted",
        "mysql-GTIDs",
        "[mariadb-GTIDs tell]",
    ),
    Full(
        "integration/test_quarantine_two_sinks.py",
        "",
        "",
        "two sinks of one replay: spark/test_replay_lost_log.py; on servers: test_quarantine.py",
    ),
    Full("airflow/test_preload.py", "test_a_scheduler_whose_executor", "triggerer", "[scheduler-LocalExecutor-8-True]"),
    Full(
        "airflow/test_preload.py",
        "test_a_scheduler_whose_executor",
        "scheduler-Celery",
        "[scheduler-LocalExecutor-8-True]",
    ),
    Full(
        "integration/test_decode_real.py", "test_every_cell", "mariadb", "[mysql]; MariaDB's cells: types/test_cells.py"
    ),
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known by which `make test` leaves them out (`-m "not full"`)."""
    config.addinivalue_line("markers", "full: only in `make test-full` (tests/suite/tiers.py)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in the full tier only."""
    listed = defaultdict(list)
    for entry in FULL:
        listed[f"tests/{entry.file}"].append(entry)
    for item in items:
        file = item.nodeid.partition("::")[0]
        if any(entry.has(item.nodeid) for entry in (*listed[file], *listed[f"tests/{file}"])):
            item.add_marker("full")
