import { fetchJson } from "./api";
import { count, type Dag } from "./flows";
import { get, told, type Page, type ProblemFacts } from "./operators";
import { span } from "./page";

/** A mirror as its DAG file defines it; `from` and `to` are connections of clusters. */
export type Mirror = {
  flow: string; from: string; to: string; topics: string[]; exclude_topics: string[]; groups: string[]; partner: string | null;
  heartbeat_seconds: number | null;
};
export type MirrorItem = { dag_id: string; mirror: Mirror | null; error: { code: string; message: string; hint: string } | null };
export type PartitionLag = { topic: string; partition: number; records: number; seconds: number | null; held_back: number; target: string };
/** What GET …/dags/{dag_id}/mirror answers; what could not be asked is null and stands in `problems`. */
export type MirrorNow = {
  flow: string; as_of: string; batch: number | null; updated_at: string | null; paused: string | null;
  alerts: { alert: string; since: string | null }[];
  lag: { partitions: number; behind: number; records: number; held_back: number; seconds: number | null; worst: PartitionLag[] } | null;
  heartbeat: { written_at: string | null; age_seconds: number | null } | null;
  groups: { followed: number; on_target: number; missing: string[] } | null;
  problems: { of: string; code: string; message: string; hint: string }[];
};
export type Looked = { now?: MirrorNow; problem?: ProblemFacts };

export type MirrorState = "Stopped" | "No answer" | "Alert" | "Behind" | "Paused" | "Not run yet" | "Looking" | "OK";

/** States, the worst first, each with the sign that stands beside its word. */
export const MIRROR_SIGNS: Record<MirrorState, { sign: string; tone: "bad" | "warn" | "calm" | "good" }> = {
  Stopped: { sign: "✕", tone: "bad" }, "No answer": { sign: "✕", tone: "bad" }, Alert: { sign: "!", tone: "warn" },
  Behind: { sign: "!", tone: "warn" }, Paused: { sign: "‖", tone: "calm" }, "Not run yet": { sign: "–", tone: "calm" },
  Looking: { sign: "…", tone: "calm" }, OK: { sign: "✓", tone: "good" },
};
const ORDER = Object.keys(MIRROR_SIGNS) as MirrorState[];
/** Seconds that a record may wait, and that a heartbeat may be late. */
const LIMIT_S = 60;

export type Shown = { dagId: string; mirror: Mirror; state: MirrorState; cause: string; now?: MirrorNow };

export async function fetchMirrors(signal: AbortSignal): Promise<MirrorItem[]> {
  const found: MirrorItem[] = [];
  for (let cursor: string | null = ""; cursor !== null;) {
    const page: Page<MirrorItem> = await fetchJson(`databus/api/v1/mirrors?limit=500&cursor=${encodeURIComponent(cursor)}`, signal);
    found.push(...page.items);
    cursor = page.next;
  }
  return found;
}

/** How a mirror stands, or why that is not known. */
export async function lookAt(dagId: string, signal: AbortSignal): Promise<Looked> {
  try {
    return { now: await get<MirrorNow>(dagId, "/mirror", signal) };
  } catch (error) {
    return { problem: told(error) };
  }
}

/** Mirrors with their states, the worst first. */
export function shownOf(items: MirrorItem[], looked: Record<string, Looked>, dags: Dag[], failed: Set<string>): Shown[] {
  const byDag = new Map(dags.map((dag) => [dag.dag_id, dag]));
  const shown = items.flatMap(({ dag_id, mirror }) => {
    if (!mirror) return [];
    const found = looked[dag_id];
    return [{ dagId: dag_id, mirror, now: found?.now, ...stateOf(mirror, found, !!byDag.get(dag_id)?.is_paused, failed.has(dag_id)) }];
  });
  return shown.sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.dagId.localeCompare(b.dagId));
}

function stateOf(mirror: Mirror, found: Looked | undefined, paused: boolean, failed: boolean): { state: MirrorState; cause: string } {
  if (failed) return { state: "Stopped", cause: "its newest run failed" };
  if (found?.problem) return { state: "No answer", cause: found.problem.detail };
  const now = found?.now;
  if (!now) return { state: "Looking", cause: "" };
  const [away] = now.problems;
  if (away) return { state: "No answer", cause: `${away.of}: ${away.message}` };
  if (now.alerts.length) return { state: "Alert", cause: now.alerts.map((one) => one.alert).join(", ") };
  if (now.paused || paused) return { state: "Paused", cause: now.paused ?? "its DAG is paused" };
  if (now.batch === null) return { state: "Not run yet", cause: "nothing was mirrored" };
  const waits = now.lag?.seconds ?? 0;
  if (waits > LIMIT_S) return { state: "Behind", cause: `${count(now.lag?.records ?? 0, "record")}, the oldest waits ${span(waits)}` };
  const age = now.heartbeat?.age_seconds ?? 0;
  if (age > LIMIT_S + (mirror.heartbeat_seconds ?? 0)) return { state: "Behind", cause: `its newest heartbeat is ${span(age)} old` };
  return { state: "OK", cause: "" };
}
