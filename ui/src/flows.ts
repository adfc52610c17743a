import { fetchJson } from "./api";

/** What GET /databus/api/v1/flows answers: flows that have moved a batch, from the records. */
export type Recorded = {
  flow: string; dag_id: string; mode: string; watermark: string | null; delay_seconds: number | null;
  rows_per_second: number;
  last_batch: {
    number: number; rows: number; committed_at: string; age_seconds: number; seconds: number; run_id: string;
    gap_passed: string;
  };
  held_rows: number; refused_rows: Record<string, number>; gaps_passed: number;
  snapshot: { state: string; rows: number; estimate: number; text: string } | null;
};

/** What of it decides a flow's state. */
export type Facts = Pick<Recorded, "refused_rows" | "gaps_passed" | "held_rows" | "snapshot"> & { last_batch: { gap_passed: string } };

/** What Airflow says of the DAG of a flow. */
export type Dag = {
  dag_id: string; is_paused: boolean; description: string | null; timetable_summary: string | null;
  tags: { name: string }[];
};

export type State = "Stopped" | "Refused rows" | "Gap" | "Rows held" | "Paused" | "Snapshot" | "Not run yet" | "OK";
export type Flow = { name: string; dagId: string; state: State; cause: string; dag?: Dag; recorded?: Recorded };

/** States, the worst first, each with the sign that stands beside its word. */
export const SIGNS: Record<State, { sign: string; tone: "bad" | "warn" | "calm" | "work" | "good" }> = {
  Stopped: { sign: "✕", tone: "bad" },
  "Refused rows": { sign: "✕", tone: "bad" },
  Gap: { sign: "✕", tone: "bad" },
  "Rows held": { sign: "!", tone: "warn" },
  Paused: { sign: "‖", tone: "calm" },
  Snapshot: { sign: "◔", tone: "work" },
  "Not run yet": { sign: "–", tone: "calm" },
  OK: { sign: "✓", tone: "good" },
};
const ORDER = Object.keys(SIGNS) as State[];
const BESIDE = new Set(["backfill", "snapshot", "validate"]);
const PAGE = 100;

export function fetchFlows(signal: AbortSignal): Promise<{ as_of: string; flows: Recorded[] }> {
  return fetchJson("databus/api/v1/flows", signal);
}

/** Delays of the last hour by flow, in spans, oldest first; null where there was no batch. */
export type Delays = Record<string, (number | null)[]>;

export async function fetchDelays(signal: AbortSignal): Promise<Delays> {
  return (await fetchJson<{ delays: Delays }>("databus/api/v1/delays", signal)).delays;
}

/** The DAGs of flows, and of those the ones whose newest run failed. */
export async function fetchDags(signal: AbortSignal): Promise<{ dags: Dag[]; failed: Set<string> }> {
  const [dags, failed] = await Promise.all([pages("", signal), pages("&last_dag_run_state=failed", signal)]);
  const flows = dags.filter((dag) => !dag.tags.some((tag) => BESIDE.has(tag.name)));
  return { dags: flows, failed: new Set(failed.map((dag) => dag.dag_id)) };
}

async function pages(filter: string, signal: AbortSignal): Promise<Dag[]> {
  const found: Dag[] = [];
  for (;;) {
    const path = `api/v2/dags?tags=databus&order_by=dag_id&limit=${PAGE}&offset=${found.length}${filter}`;
    const page = await fetchJson<{ dags: Dag[]; total_entries: number }>(path, signal);
    found.push(...page.dags);
    if (page.dags.length === 0 || found.length >= page.total_entries) return found;
  }
}

/** Records and DAGs by flow, the worst first. */
export function flowsOf(recorded: Recorded[], dags: Dag[], failed: Set<string>): Flow[] {
  const byDag = new Map(dags.map((dag) => [dag.dag_id, dag]));
  const moved = new Set(recorded.map((one) => one.dag_id));
  const flows = recorded.map((one) => ({ name: one.flow, dagId: one.dag_id, dag: byDag.get(one.dag_id), recorded: one }));
  const others = dags.filter((dag) => !moved.has(dag.dag_id)).map((dag) => ({ name: dag.dag_id, dagId: dag.dag_id, dag }));
  const all: Flow[] = [...flows, ...others].map((flow) => ({ ...flow, ...stateOf(flow, failed) }));
  return all.sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.name.localeCompare(b.name));
}

export function stateOf(flow: { dagId: string; dag?: Dag; recorded?: Facts }, failed: Set<string>): { state: State; cause: string } {
  const { dag, recorded: r } = flow;
  if (failed.has(flow.dagId)) return { state: "Stopped", cause: "its newest run failed" };
  const refused = Object.entries(r?.refused_rows ?? {});
  if (refused.length) {
    return { state: "Refused rows", cause: refused.map(([sink, rows]) => `${sink} refused ${count(rows, "row")}`).join(", ") };
  }
  if (r?.gaps_passed || r?.last_batch.gap_passed) return { state: "Gap", cause: r.last_batch.gap_passed || "a batch of the last five minutes passed over a gap" };
  if (r?.held_rows) return { state: "Rows held", cause: `checks hold back ${count(r.held_rows, "row")}` };
  if (dag?.is_paused) return { state: "Paused", cause: "its DAG is paused" };
  if (r?.snapshot && ["reading", "paused"].includes(r.snapshot.state)) return { state: "Snapshot", cause: r.snapshot.text };
  if (!r) return { state: "Not run yet", cause: "no batch is recorded" };
  return { state: "OK", cause: "" };
}

export function count(rows: number, of: string): string {
  return `${rows.toLocaleString("en")} ${of}${rows === 1 ? "" : "s"}`;
}
