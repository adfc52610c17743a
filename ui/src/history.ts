import type { Gap as NumberedGap } from "./operators";

/** What a run found of a check; null where it was not judged. */
export type RunOfCheck = { evaluated: number; violations: number; violating_percent: number | null; met: boolean; error: string } | null;
export type Check = {
  name: string; table: string; action: string; met: boolean; evaluated: number; violations: number; violating_percent: number | null;
  observed: unknown; judged_by: string; error: string; runs: RunOfCheck[];
};
export type QualityRun = { run_id: string; evaluated_at: string; success: boolean; worst: string | null; evaluated: number; violations: number; data_docs: string };
/** What GET /databus/api/v1/dags/{dag_id}/quality/checks answers. */
export type Quality = { flow: string; runs: QualityRun[]; checks: Check[] };

export type Rows = Record<"read" | "filtered" | "quarantined" | "dispatched", number> & { superseded?: number };
export type Column = {
  kind: "read" | "gap" | "unknown"; from: string; to: string; batches: [number, number] | null; bytes: number | null; cause: string;
  gaps: number[]; partial: boolean; at: string | null; rows: Rows;
};
export type LedgerGap = NumberedGap & { from: string; to: string; decided: boolean; taken_back: boolean; at: string; run_url: string };
/** What GET /databus/api/v1/dags/{dag_id}/ledger/band answers. */
export type LedgerView = {
  flow: string; from: string | null; to: string | null; batch: number; entries: number; bytes: number; bytes_by_state: Record<string, number>;
  rows: Rows; rows_replayed: number; sinks: Record<string, { dispatched: number; rejected: number }>; tables: Record<string, Rows>;
  pending: unknown[]; plan_in_flight: string | null; problems: { subject: string; problem: string }[]; gaps: LedgerGap[]; band: Column[];
};
