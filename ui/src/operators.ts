import { address } from "./api";
import { time as shown } from "./times";

/** A refusal as RFC 9457 has it; what changed stands with a stale version. */
export type ProblemFacts = {
  status: number; title: string; detail: string; instance?: string; code?: string; hint?: string; retryable?: boolean;
  version?: string; changes?: Entry[];
};

export class Problem extends Error {
  constructor(readonly facts: ProblemFacts) {
    super(facts.detail);
  }
}

export type Entry = {
  number: number; action: string; who: string; why: string; at: string; from: string | null; to: string; batch: number;
  epoch: number; rows: number;
};
export type Gap = { number: number; cause: string; decision: string; who: string; why: string };
export type Checkpoint = {
  flow: string; dag_id: string; version: string; place: string | null; batch?: number; epoch?: number; run?: string;
  watermark?: string | null; updated_at?: string; plan_in_flight?: string | null; paused?: string | null;
  snapshot?: string; open_gaps?: string[]; sinks_behind?: Record<string, string>; gaps: Gap[]; note?: string;
};
export type Move = {
  flow: string; action: string; direction?: "back" | "forward"; from: string; to: string; bytes?: number | null;
  batches?: number | null; rows?: Record<string, number> | null; rows_complete?: boolean | null;
  plan_closed?: string | null; next_batch?: number; snapshot?: string; outputs_accepted?: string[];
  sinks?: { sink: string; effect: string; refused: string }[]; effect?: string; then?: string; needed?: boolean;
  repeated?: string[] | null; paused?: string | null;
};
export type Previewed = { action: string; version: string; preview: Move };
export type Done = { result: Move & { was?: string }; version: string; way_back?: { action: "restore"; entry: number } | null };
export type Page<T> = { items: T[]; next: string | null };

export type Cause = { stage: string; table: string; cause: string; rows: number; batch: number; first_held_at: string; last_held_at: string };
export type Causes = Page<Cause> & { flow: string; tally: Record<string, Record<string, number>> };
export type HeldRow = {
  event_id: string; stage: string; batch: number; table: string; key: string | null; cause: string; position: string;
  state: string; who: string | null; why: string | null; held_at: string; payload: unknown; payload_chars: number;
};
export type Judged = { action: string; rows: number; upto: number; judged: boolean; refused: { batch: number; rows: number; why: string; hint: string }[] };
export type Replayed = { number: number; batch: number; replayed: number; held: number; discarded: number };

export function pathOf(dagId: string, below: string): string {
  return `databus/api/v1/dags/${encodeURIComponent(dagId)}${below}`;
}

export function get<T>(dagId: string, below: string, signal?: AbortSignal): Promise<T> {
  return asked<T>(pathOf(dagId, below), { signal });
}

/** Ask for something to be done or previewed. The key names the request: sent again, it is done once. */
export function post<T>(dagId: string, below: string, body: object, key = "", version = ""): Promise<T> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (key) headers["Idempotency-Key"] = key;
  if (version) headers["If-Match"] = `"${version}"`;
  return asked<T>(pathOf(dagId, below), { method: "POST", headers, body: JSON.stringify(body) });
}

async function asked<T>(path: string, init: RequestInit): Promise<T> {
  const answer = await fetch(address(path), { credentials: "same-origin", ...init });
  const body = (await answer.json().catch(() => ({}))) as Partial<ProblemFacts>;
  if (answer.ok) return body as T;
  const said = typeof body.detail === "string" ? body.detail : answer.statusText;
  throw new Problem({ title: answer.statusText, ...body, status: answer.status, detail: said });
}

/** A name for a request; pages are not always served by HTTPS, where randomUUID is. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function told(error: unknown): ProblemFacts {
  if (error instanceof Problem) return error.facts;
  return { status: 0, title: "No answer", detail: `No answer: ${(error as Error).message}`, retryable: true };
}

/** A time in the zone that was chosen in the host. */
export function when(time: string | null | undefined): string {
  return time ? shown(time) : "–";
}
