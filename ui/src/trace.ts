import { fetchJson } from "./api";

export type Step = {
  stage: "source" | "batch" | "record" | "document" | "mirror" | "held"; title: string; place: string; details: string[];
  at: string | null; until: string | null; behind: number | null; seconds: number | null; flow: string; sink: string;
  run: { dag_id: string; run_id: string } | null; warns: boolean;
};
export type Journey = {
  flow: string; dag_id: string; notes: string[]; steps: Step[];
  change: { event_id: string; gtid: string; file: string; position: number | null; ordinal: number | null; op: string; table: string; key: string | null; ts_ms: number | null };
};
/** What GET /databus/api/v1/trace answers. */
export type Traced = {
  kind: string; what: string; seconds: number; more: number; journeys: Journey[];
  looked_through: { flows: string[]; not_readable: string[] };
};
/** What GET /databus/api/v1/dags/{dag_id}/images answers. */
export type Images = {
  before: Record<string, string | null> | null; after: Record<string, string | null> | null; masked: Record<string, string>; note: string;
};

export const KINDS: Record<string, string> = {
  key: "a key, {\"id\": 1}", gtid: "a GTID", position: "FILE:POS", record: "TOPIC:PARTITION:OFFSET", document: "INDEX/ID", event: "an event id",
};

export function fetchTrace(q: string, kind: string, signal: AbortSignal): Promise<Traced> {
  const asked = new URLSearchParams({ q, ...(kind ? { kind } : {}) });
  return fetchJson(`databus/api/v1/trace?${asked}`, signal);
}

export function fetchImages(dagId: string, sink: string, place: string, signal: AbortSignal): Promise<Images> {
  return fetchJson(`databus/api/v1/dags/${encodeURIComponent(dagId)}/images?${new URLSearchParams({ sink, place })}`, signal);
}
