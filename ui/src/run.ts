import { address, fetchJson } from "./api";

/** What GET /databus/api/v1/dags/{dag_id}/runs/{run_id} answers. */
export type Counts = { read: number; filtered: number; quarantined: number; dispatched: number; superseded?: number; snapshot?: number };
export type Node = { id: string; kind: string; label: string; column: number };
export type Edge = { from: string; to: string; rows: number };
export type Check = {
  check: string; table: string; severity: string; evaluated: number; violations: number; observed: string;
};
/** An expectation of the flow; `met` is null until the run is audited. */
export type Expectation = {
  name: string; table: string; action: string; met: boolean | null; evaluated: number; violations: number;
  observed: unknown; judged_by: string; error: string;
};
export type Output = { sink: string; output: string } & Record<string, string | number>;
export type Batch = {
  batch: number; mode: string; attempt: number; from: string; to: string; rows: number; duration_ms: number;
  committed_at: string; refilled: boolean;
};
/** How far a snapshot was behind the run's last batch that took chunks of it along; the rate is the run's own. */
export type Snapshot = { cause: string; state: string; table: string; rows: number; estimate: number; at: string; text: string };
export type Run = {
  flow: string; run_id: string; from: string | null; to: string | null; watermark: string | null; bytes: number;
  counts: Counts & { reconciled: boolean };
  state: "ok" | "quarantined" | "rejected" | "lost";
  gaps_passed: string[];
  snapshot: Snapshot | null;
  /** Statements (TRUNCATE, DDL) that became no document stand apart from the rows; where there are none, they are left out. */
  sinks: { sink: string; dispatched: number; statements?: number; rejected: number }[];
  inputs: (Counts & { table: string })[];
  outputs: Output[];
  expectations: Expectation[];
  checks: Check[];
  quality: { success: boolean | null; worst: string | null } | null;
  data_docs: boolean;
  durations_ms: Record<string, number>;
  batch_count: number;
  batches: Batch[];
  graph: { nodes: Node[]; edges: Edge[] };
};

/** The address of a run's data, or of something below it. */
export function addressOf(dagId: string, runId: string, below = ""): string {
  return address(pathOf(dagId, runId) + below);
}

export function fetchRun(dagId: string, runId: string, signal: AbortSignal): Promise<Run> {
  return fetchJson<Run>(pathOf(dagId, runId), signal);
}

function pathOf(dagId: string, runId: string): string {
  return `databus/api/v1/dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`;
}
