import { Refused } from "./api";

/** What failed, with its code, what to do, and a way to try again. */
export function Failure({ what, error, again }: { what: string; error: Error; again: () => void }) {
  const detail = error instanceof Refused ? error.detail : {};
  const right = error instanceof Refused && [401, 403].includes(error.status);
  return (
    <div role="alert" className="card failure" data-testid="failure">
      <p><span aria-hidden="true">✕ </span><b>{what}</b> {right ? "You have no right to see this DAG." : error.message}</p>
      {detail.hint ? <p className="note">{detail.hint}</p> : null}
      <p><button type="button" onClick={again}>Try again</button>{" "}
        <code>{detail.code ?? (error instanceof Refused ? `HTTP ${error.status}` : "no answer")}</code></p>
    </div>
  );
}
