CREATE TABLE databus_quality_results (
	id INTEGER NOT NULL,
	flow VARCHAR(100) NOT NULL,
	run_id VARCHAR(250) NOT NULL,
	success BOOLEAN NOT NULL,
	worst VARCHAR(20),
	evaluated BIGINT NOT NULL,
	violations BIGINT NOT NULL,
	result JSON NOT NULL,
	evaluated_at DATETIME NOT NULL,
	CONSTRAINT pk_databus_quality_results PRIMARY KEY (id),
	CONSTRAINT uq_databus_quality_results_flow_run_id UNIQUE (flow, run_id)
);
CREATE TABLE databus_quarantine (
	id INTEGER NOT NULL,
	flow VARCHAR(100) NOT NULL,
	event_id VARCHAR(500) NOT NULL,
	stage VARCHAR(250) NOT NULL,
	batch BIGINT NOT NULL,
	table_name TEXT NOT NULL,
	"key" TEXT,
	cause TEXT NOT NULL,
	position TEXT NOT NULL,
	payload TEXT NOT NULL,
	first_held_at DATETIME NOT NULL,
	last_held_at DATETIME NOT NULL,
	CONSTRAINT pk_databus_quarantine PRIMARY KEY (id),
	CONSTRAINT uq_databus_quarantine_flow_event_id_stage UNIQUE (flow, event_id, stage)
);
CREATE TABLE databus_runs (
	id INTEGER NOT NULL,
	flow VARCHAR(100) NOT NULL,
	run_id VARCHAR(250) NOT NULL,
	run_url TEXT NOT NULL,
	CONSTRAINT pk_databus_runs PRIMARY KEY (id),
	CONSTRAINT uq_databus_runs_flow_run_id UNIQUE (flow, run_id)
);
CREATE TABLE databus_schema (
	version INTEGER NOT NULL,
	CONSTRAINT pk_databus_schema PRIMARY KEY (version)
);
CREATE TABLE databus_batches (
	id INTEGER NOT NULL,
	run INTEGER NOT NULL,
	flow VARCHAR(100) NOT NULL,
	batch BIGINT NOT NULL,
	plan_hash VARCHAR(64) NOT NULL,
	spec_hash VARCHAR(64) NOT NULL,
	mode VARCHAR(20) NOT NULL,
	epoch BIGINT NOT NULL,
	attempt INTEGER NOT NULL,
	range_start JSON NOT NULL,
	range_end JSON NOT NULL,
	rows BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	durations_ms JSON NOT NULL,
	watermark DATETIME,
	committed_at DATETIME NOT NULL,
	CONSTRAINT pk_databus_batches PRIMARY KEY (id),
	CONSTRAINT uq_databus_batches_flow_batch_plan_hash UNIQUE (flow, batch, plan_hash),
	CONSTRAINT fk_databus_batches_run FOREIGN KEY(run) REFERENCES databus_runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_databus_batches_run ON databus_batches (run);
CREATE TABLE databus_check_results (
	id INTEGER NOT NULL,
	batch INTEGER NOT NULL,
	check_name TEXT NOT NULL,
	kind VARCHAR(100) NOT NULL,
	column_name TEXT,
	table_name TEXT NOT NULL,
	severity VARCHAR(20) NOT NULL,
	evaluated BIGINT NOT NULL,
	violations BIGINT NOT NULL,
	observed TEXT NOT NULL,
	CONSTRAINT pk_databus_check_results PRIMARY KEY (id),
	CONSTRAINT fk_databus_check_results_batch FOREIGN KEY(batch) REFERENCES databus_batches (id) ON DELETE CASCADE
);
CREATE INDEX ix_databus_check_results_batch ON databus_check_results (batch);
CREATE TABLE databus_receipts (
	id INTEGER NOT NULL,
	batch INTEGER NOT NULL,
	sink TEXT NOT NULL,
	slot INTEGER NOT NULL,
	written BIGINT NOT NULL,
	rejected BIGINT NOT NULL,
	duplicate BOOLEAN NOT NULL,
	rows JSON NOT NULL,
	outputs JSON NOT NULL,
	CONSTRAINT pk_databus_receipts PRIMARY KEY (id),
	CONSTRAINT fk_databus_receipts_batch FOREIGN KEY(batch) REFERENCES databus_batches (id) ON DELETE CASCADE
);
CREATE INDEX ix_databus_receipts_batch ON databus_receipts (batch);
CREATE TABLE databus_table_counts (
	id INTEGER NOT NULL,
	batch INTEGER NOT NULL,
	table_name TEXT NOT NULL,
	read BIGINT NOT NULL,
	filtered BIGINT NOT NULL,
	quarantined BIGINT NOT NULL,
	dispatched BIGINT NOT NULL,
	CONSTRAINT pk_databus_table_counts PRIMARY KEY (id),
	CONSTRAINT fk_databus_table_counts_batch FOREIGN KEY(batch) REFERENCES databus_batches (id) ON DELETE CASCADE
);
CREATE INDEX ix_databus_table_counts_batch ON databus_table_counts (batch);
INSERT INTO databus_schema (version) VALUES (1);
