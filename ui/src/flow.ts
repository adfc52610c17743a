import { fetchJson } from "./api";
import type { Mark } from "./Chart";
import type { Dag } from "./flows";

export type Window = "1h" | "24h" | "7d";
export const WINDOWS: Window[] = ["1h", "24h", "7d"];
export type Batch = {
  batch: number; first_batch: number | null; mode: string; attempt: number; run_id: string; dag_id: string; from: string; to: string;
  bytes: number; read: number; filtered: number; quarantined: number; dispatched: number; superseded: number; adds_up: boolean;
  lost: string; durations_ms: Record<string, number>; committed_at: string; refilled: boolean; code_version: string;
};
export type Sink = {
  name: string; kind: string; conn_id: string; datasets: string[]; rows_per_second: number; rejected: number; held: number; last_batch: number | null;
};
export type Graph = {
  source: { kind: string; conn_id: string; datasets: string[] };
  transforms: { kind: string; label: string }[];
  checks: { name: string; severity: string; evaluated: number; violations: number }[];
  counts: Record<"read" | "filtered" | "quarantined" | "dispatched" | "superseded", number>;
  seconds: number;
  sinks: Sink[];
};
/** What GET /databus/api/v1/dags/{dag_id}/flow answers. */
export type FlowView = {
  as_of: string; flow: string; dag_id: string; window: Window; mode: string; epoch: number; watermark: string | null;
  delay_seconds: number | null; rows_per_second: number; place: string; last_batch: Batch; age_seconds: number;
  held_rows: number; refused_rows: Record<string, number>; gaps_passed: number;
  snapshot: { state: string; rows: number; estimate: number; text: string; table: string; at: string } | null;
  graph: Graph;
  chart: { from: string; width_seconds: number; rows_per_second: number[]; delay_seconds: (number | null)[] };
  marks: Mark[];
  batches: Batch[];
  definition: { since: string; batch: number } | null;
  /** Where details were asked for; so are tables. */
  settings: Record<string, unknown> | null;
  tables: { table: string; sink: string; output: string; fields: { field: string; column: string; steps: string[] }[]; unknown: string }[];
};
/** What Airflow says of the flow's DAG: the DAG itself and its newest run. */
export type OfAirflow = { dag: Dag; run?: { dag_run_id: string; state: string } };

export function fetchFlow(dagId: string, window: Window, details: boolean, signal: AbortSignal): Promise<FlowView> {
  return fetchJson(`databus/api/v1/dags/${encodeURIComponent(dagId)}/flow?window=${window}&details=${details}`, signal);
}

export async function fetchOfAirflow(dagId: string, signal: AbortSignal): Promise<OfAirflow> {
  const dag = `api/v2/dags/${encodeURIComponent(dagId)}`;
  const [found, runs] = await Promise.all([
    fetchJson<Dag>(dag, signal),
    fetchJson<{ dag_runs: { dag_run_id: string; state: string }[] }>(`${dag}/dagRuns?order_by=-run_after&limit=1`, signal),
  ]);
  return { dag: found, run: runs.dag_runs[0] };
}
