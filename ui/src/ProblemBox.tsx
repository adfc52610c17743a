import type { ProblemFacts } from "./operators";
import { when } from "./operators";

/** What was refused, what to do, and with a stale version what changed; the id is the server log's. */
export function ProblemBox({ of, again }: { of: ProblemFacts; again?: () => void }) {
  return (
    <div role="alert" data-testid="problem">
      <p><strong>✕ {titleOf(of)}</strong></p>
      <p>{of.detail}</p>
      {of.changes?.length ? (
        <ul>{of.changes.map((e) => <li key={e.number}>{when(e.at)}: {e.action} by {e.who}{e.why ? `: ${e.why}` : ""}</li>)}</ul>
      ) : null}
      {of.hint ? <p>{of.hint}</p> : null}
      <p className="note">{of.code ? `${of.code} · ` : ""}{of.instance ?? ""}</p>
      {again ? <button type="button" onClick={again}>{of.status === 412 ? "Preview again" : "Try again"}</button> : null}
    </div>
  );
}

function titleOf(of: ProblemFacts): string {
  if (of.status === 401 || of.status === 403) return "You do not have Airflow's right for this on this DAG";
  if (of.status === 412) return "The checkpoint has moved";
  return of.status === 0 ? "No answer" : of.title;
}
