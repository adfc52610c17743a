import { useEffect, useState, type ReactNode } from "react";

import { LineageGraph } from "./LineageGraph";
import { addressOf, fetchRun, Refused, type Run } from "./run";
import { Table } from "./Table";

const REFRESH_MS = 10_000;

/** One run: what its batches read and wrote. A state is never told by colour alone. */
export function RunTab({ dagId, runId }: { dagId: string; runId: string }) {
  const [run, setRun] = useState<Run>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    const leave = new AbortController();
    const look = () =>
      fetchRun(dagId, runId, leave.signal)
        .then((found) => { setRun(found); setError(undefined); })
        .catch((reason: Error) => { if (!leave.signal.aborted) setError(reason); });
    void look();
    const timer = window.setInterval(() => void look(), REFRESH_MS);
    return () => { leave.abort(); window.clearInterval(timer); };
  }, [dagId, runId]);
  if (run === undefined) {
    return <section role="status" style={{ padding: 16 }}>{error ? told(error) : "Loading …"}</section>;
  }
  return (
    <section style={{ padding: 16, display: "grid", gap: 24 }} aria-live="polite" data-testid="databus-run">
      {error ? <p role="alert">Not refreshed: {told(error)}</p> : null}
      <Header run={run} dagId={dagId} runId={runId} />
      <Part title="Lineage"><LineageGraph graph={run.graph} /></Part>
      <Part title="Inputs">
        <Table head={["table", "read", "filtered", "quarantined", "dispatched"]}
          rows={run.inputs.map((i) => [i.table, i.read, i.filtered, i.quarantined, i.dispatched])} />
      </Part>
      <Part title="Outputs">
        <Table head={["sink", "output", "written"]}
          rows={run.outputs.filter((o) => o.output).map(({ sink, output, ...facts }) => [sink, output, facts_of(facts)])} />
      </Part>
      <Part title="Quality">
        {run.checks.length === 0 ? <p>No checks.</p> : (
          <Table head={["", "check", "table", "severity", "evaluated", "violations", "observed"]}
            rows={run.checks.map((c) => [c.violations ? "✗ violated" : "✓ met", c.check, c.table, c.severity, c.evaluated, c.violations, c.observed])} />
        )}
      </Part>
      <Part title={`Batches (${run.batch_count})`}>
        <Table head={["batch", "mode", "attempt", "from", "to", "rows", "ms", "committed"]}
          rows={[...run.batches].reverse().map((b) => [b.batch, b.mode, b.attempt, b.from, b.to, b.rows, Math.round(b.duration_ms), b.committed_at])} />
      </Part>
    </section>
  );
}

function Header({ run, dagId, runId }: { run: Run; dagId: string; runId: string }) {
  const { read, filtered, quarantined, dispatched, reconciled } = run.counts;
  const [n, f, q, d] = [read, filtered, quarantined, dispatched].map((count) => count.toLocaleString("en"));
  return (
    <header>
      <h2 style={{ fontSize: "1.2em", fontWeight: 600 }}>{run.flow}</h2>
      <p>({run.from ?? "–"}, {run.to ?? "–"}] · {run.bytes.toLocaleString("en")} bytes · watermark {run.watermark ?? "unknown"}</p>
      <p data-testid="counts">
        {reconciled ? "✓ adds up" : "✗ does not add up"}: read {n} = {f} filtered + {q} quarantined + {d} dispatched
      </p>
      <p>{Object.entries(run.durations_ms).map(([stage, ms]) => `${stage} ${Math.round(ms).toLocaleString("en")} ms`).join(" · ")}</p>
      <p>
        Quality: {run.quality === null ? "not evaluated yet" : run.quality.success ? "✓ passed" : "✗ failed"}
        {run.data_docs ? (
          <>
            {" · "}
            <a href={addressOf(dagId, runId, "/data-docs")} target="_blank" rel="noreferrer" data-testid="data-docs"
              style={{ textDecoration: "underline" }}>Data Docs ↗</a>
          </>
        ) : null}
      </p>
    </header>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return <div><h3 style={{ fontWeight: 600, marginBottom: 8 }}>{title}</h3>{children}</div>;
}

function facts_of(facts: Record<string, string | number>): string {
  return Object.entries(facts).map(([name, value]) => `${name.replace("_", " ")} ${value.toLocaleString("en")}`).join(", ");
}

function told(error: Error): string {
  if (!(error instanceof Refused)) return `No answer: ${error.message}`;
  if (error.status === 404) return "Nothing is recorded of this run (yet), or its DAG is no Databus flow.";
  if (error.status === 401 || error.status === 403) return "You may not see the runs of this DAG.";
  return `${error.status}: ${error.message}`;
}
