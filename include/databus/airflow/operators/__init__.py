"""The tasks of a flow's DAG: preflight, transfer on Connect or by spark-submit, audit, all in one."""
