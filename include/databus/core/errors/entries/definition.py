"""Entries of error codes: flows, options, transforms, checks, records."""

from __future__ import annotations

from databus.core.errors.entries import ErrorEntry

ENTRIES: dict[str, ErrorEntry] = {
    "databus_error": ErrorEntry(
        "Root of all errors; never raised by itself.",
        "Read the message.",
    ),
    "config_invalid": ErrorEntry(
        "A flow, connection, option or setting is wrong; retrying cannot help.",
        "Correct what the message names; the hint lists what is known.",
        exits=(2,),
    ),
    "preflight": ErrorEntry(
        "A probe before the first batch found something wrong that has no code of its own.",
        "Correct what the message names; `databus doctor` shows all findings.",
        exits=(2,),
    ),
    "error_unknown": ErrorEntry(
        "No error of databus has the code that was to be explained.",
        "The hint names codes that are spelled alike; `databus explain` without a code lists all.",
        exits=(2,),
    ),
    "flow_unknown": ErrorEntry(
        "No flow of that name is in the DAG folder.",
        "`databus flows list` names those that are; --dags or DATABUS_DAGS points at another folder.",
        exits=(2,),
    ),
    "kind_unknown": ErrorEntry(
        "A source, transform, check or sink kind that nothing installed has.",
        "Correct the name; the hint lists those that exist. A package of your own must be installed on every worker.",
        exits=(2,),
    ),
    "connection_missing": ErrorEntry(
        "A connection that the flow names is defined nowhere.",
        "Define it in Airflow, as AIRFLOW_CONN_… or in the file of DATABUS_CONNECTIONS.",
        exits=(2,),
    ),
    "connection_type": ErrorEntry(
        "A connection is of another type than the flow needs.",
        "Name another connection in the flow, or correct the type.",
    ),
    "place_invalid": ErrorEntry(
        "A text is no place of the source's log.",
        "Write a time, GTID, FILE:POS, earliest or latest.",
        exits=(2,),
    ),
    "run_conf": ErrorEntry(
        "A run was given settings that its DAG does not know.",
        "Correct their names; the hint lists those that exist.",
        exits=(2,),
    ),
    "table_unmatched": ErrorEntry(
        "No change of a table that was asked for is in the given files.",
        "Correct the name (case matters); `databus decode --output none` lists the tables.",
        exits=(2,),
    ),
    "column_unknown": ErrorEntry(
        "A transform or check names a column that a table does not have.",
        "Correct the name, or narrow `tables` to those that have it.",
        exits=(1, 2),
    ),
    "hidden_column_computed": ErrorEntry(
        "A column is computed from one in clear that a transform behind it hides.",
        "Put the transform that hides it first, or leave the order where the computed column is to show it.",
        exits=(),
    ),
    "column_exists": ErrorEntry(
        "A transform adds a column that a table has already, perhaps since an ALTER TABLE.",
        "Give the added column another name, or put RenameColumns or DropColumns for the present one before it.",
    ),
    "column_type_unknown": ErrorEntry(
        "The type of an added column does not follow from its expression.",
        "Say it by a cast: CAST(expression AS decimal(12,2)).",
    ),
    "filter_not_boolean": ErrorEntry(
        "The condition of a Filter is a number, a date or of another type that is neither true nor false.",
        'Compare it with something: Filter("amount <> 0"), Filter("amount IS NOT NULL").',
    ),
    "column_not_text": ErrorEntry(
        "A transform cuts a column that is no CHAR, VARCHAR, TEXT, BINARY, VARBINARY or BLOB.",
        "Cast it to string before, or leave it out.",
    ),
    "key_column_type": ErrorEntry(
        "A KeyBy names a FLOAT, DOUBLE or JSON column, of which equal values may have several texts.",
        "Cast it to decimal or string before, or choose another column.",
    ),
    "lookup_key": ErrorEntry(
        "A Lookup goes by a column whose values have more than one text (decimals, floats, times, bytes), or has a key "
        "that no value of its column equals.",
        "Add a column with CAST(… AS string) or a whole number before it, and look that up; write keys as the column's "
        "values are.",
    ),
    "python_function": ErrorEntry(
        "A Python function of a flow cannot be imported, fails, or returns what is no array of its type.",
        "Put its module where Airflow's and Spark's workers import from, or correct it; the batch is read again.",
    ),
    "definition_invalid": ErrorEntry(
        "A CREATE TABLE statement that was given cannot be used.",
        "Give it as SHOW CREATE TABLE prints it, under database.table.",
        exits=(2,),
    ),
    "row_filter": ErrorEntry(
        "A row filter does not fit a table: no such column, or bounds of another type.",
        "Correct its column or bounds, or narrow its `tables`.",
        exits=(2,),
    ),
    "row_column_renamed": ErrorEntry(
        "A package uses a column of rows under a former name.",
        "Upgrade or mend the package.",
        exits=(2,),
    ),
    "expression_failed": ErrorEntry(
        "An expression of a transform fails for a row: a division by zero, an overflow, a text that is no number.",
        "Use a try_ function (try_divide, try_cast, …), or a condition that keeps such rows away from it.",
    ),
    "transform_error": ErrorEntry(
        "A transform cannot be applied to the rows of a batch.",
        "Correct the transform; the batch is taken up again.",
    ),
    "hidden_column_gone": ErrorEntry(
        "A column that the flow hides is gone from a table: its values may stand under another name.",
        "Name the new column in the transform, and the old one in former=.",
    ),
    "hidden_column_shown": ErrorEntry(
        "Rows have a column that the flow hid until now and hides no more.",
        "Keep hiding it, or add former= to the transform that hides it under its new name.",
    ),
    "key_column_hidden": ErrorEntry(
        "A transform hides a column of the primary key, which stands in every record.",
        "Hide it at the source, or leave the table out.",
    ),
    "expectation_arguments": ErrorEntry(
        "An expectation was given arguments that it does not take.",
        "Correct them; the hint lists those that it takes.",
        exits=(2,),
    ),
    "expectation_not_by_row": ErrorEntry(
        "An expectation that is not judged row by row is to hold back rows.",
        'Use action="warn" or "fail" for it.',
        exits=(2,),
    ),
    "quality_gate": ErrorEntry(
        'A check of severity "fail" was violated: the batch is not dispatched.',
        "Mend the rows at the source, or lower the severity; see docs/runbooks/quality.md.",
        exits=(5,),
    ),
    "reconciliation": ErrorEntry(
        "The count of rows does not add up: the batch fails rather than lie.",
        "Run it again; if it comes back, report it with the message.",
    ),
    "recording": ErrorEntry(
        "A report could not be stored.",
        "Check DATABUS_RECORDS_URL and its database; no batch fails by it.",
    ),
    "recording_quality": ErrorEntry(
        "Great Expectations could not evaluate a check.",
        "Run `databus doctor`: it says which version is wanted, and how it is installed.",
    ),
    "recording_schema_version": ErrorEntry(
        "The records store was migrated by a newer databus.",
        "Run that version everywhere, or give this one a database of its own.",
    ),
    "alerting": ErrorEntry(
        "A channel did not take an alert; it is tried again.",
        "`databus alerts test` shows what is wrong with the channel.",
        retried=True,
    ),
}
"""Code → its entry."""
