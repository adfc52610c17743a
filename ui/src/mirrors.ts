import { fetchJson } from "./api";
import type { Dag } from "./flows";
import { get, told, type Page, type ProblemFacts } from "./operators";

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
  lag: {
    partitions: number; behind: number; records: number; held_back: number; seconds: number | null; known_seconds: number;
    age_unknown: { partitions: number; first: string } | null; worst: PartitionLag[];
  } | null;
  heartbeat: { written_at: string | null; age_seconds: number | null } | null;
  groups: { followed: number; on_target: number; missing: string[] } | null;
  problems: { of: string; code: string; message: string; hint: string }[];
  state: keyof typeof WORDS; cause: string;
};
export type Looked = { now?: MirrorNow; problem?: ProblemFacts };

export type MirrorState = "Stopped" | "No answer" | "Alert" | "Behind" | "Unknown" | "Paused" | "Not run yet" | "Looking" | "OK";

/** States, the worst first, each with the sign that stands beside its word. */
export const MIRROR_SIGNS: Record<MirrorState, { sign: string; tone: "bad" | "warn" | "calm" | "good" }> = {
  Stopped: { sign: "✕", tone: "bad" }, "No answer": { sign: "✕", tone: "bad" }, Alert: { sign: "!", tone: "warn" },
  Behind: { sign: "!", tone: "warn" }, Unknown: { sign: "?", tone: "warn" }, Paused: { sign: "‖", tone: "calm" }, "Not run yet": { sign: "–", tone: "calm" },
  Looking: { sign: "…", tone: "calm" }, OK: { sign: "✓", tone: "good" },
};
const ORDER = Object.keys(MIRROR_SIGNS) as MirrorState[];
/** States of the API by the page's words. */
const WORDS = {
  no_answer: "No answer", alert: "Alert", paused: "Paused", not_run: "Not run yet", behind: "Behind", unknown: "Unknown", ok: "OK",
} as const;

/** Looks of a page at once: a process of the API server has 16 places for all that wait for clusters. */
const AT_ONCE = 6;
/** Where all places are taken, a look is tried so many times, with a pause before the next. */
const TRIES = 5;
const PAUSE_MS = 2_000;

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

/** Looks at all mirrors, at few at once, and tells how each stands or why that is not known; nothing where no place became free. */
export async function lookAtAll(dagIds: string[], signal: AbortSignal, tell: (dagId: string, found: Looked) => void): Promise<void> {
  const left = dagIds.map((dagId) => ({ dagId, tries: 1 }));
  const lookOn = async () => {
    for (let next = left.shift(); next && !signal.aborted; next = left.shift()) {
      const found = await lookAt(next.dagId, signal);
      if (signal.aborted) return;
      if (!isBusy(found)) tell(next.dagId, found);
      else if (next.tries === TRIES) tell(next.dagId, {});
      else {
        await new Promise((done) => window.setTimeout(done, PAUSE_MS));
        left.push({ ...next, tries: next.tries + 1 });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lookOn));
}

async function lookAt(dagId: string, signal: AbortSignal): Promise<Looked> {
  try {
    return { now: await get<MirrorNow>(dagId, "/mirror", signal) };
  } catch (error) {
    return { problem: told(error) };
  }
}

/** Whether the API itself had no place for a look; a cluster or ZooKeeper that is away has a code of its own. */
function isBusy({ problem }: Looked): boolean {
  return problem?.status === 503 && problem.code === "request_refused";
}

/** Mirrors with their states, the worst first. */
export function shownOf(items: MirrorItem[], looked: Record<string, Looked>, dags: Dag[], failed: Set<string>): Shown[] {
  const byDag = new Map(dags.map((dag) => [dag.dag_id, dag]));
  const shown = items.flatMap(({ dag_id, mirror }) => {
    if (!mirror) return [];
    const found = looked[dag_id];
    return [{ dagId: dag_id, mirror, now: found?.now, ...stateOf(found, !!byDag.get(dag_id)?.is_paused, failed.has(dag_id)) }];
  });
  return shown.sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.dagId.localeCompare(b.dagId));
}

function stateOf(found: Looked | undefined, paused: boolean, failed: boolean): { state: MirrorState; cause: string } {
  if (failed) return { state: "Stopped", cause: "its newest run failed" };
  if (found?.problem) return { state: "No answer", cause: found.problem.detail };
  const now = found?.now;
  if (!now) return { state: "Looking", cause: "" };
  const state = WORDS[now.state];
  if (paused && !["No answer", "Alert", "Paused"].includes(state)) return { state: "Paused", cause: "its DAG is paused" };
  return { state, cause: now.cause };
}
