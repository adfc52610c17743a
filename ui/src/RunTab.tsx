import { Fragment, useEffect, useState, type ReactNode } from "react";

import { address, Refused } from "./api";
import { LineageGraph } from "./LineageGraph";
import { addressOf, fetchRun, type Check, type Expectation, type Run, type Snapshot } from "./run";
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
        <Table head={["table", "read", "filtered", "quarantined", "dispatched", ...(run.counts.snapshot ? ["superseded", "snapshot"] : [])]}
          rows={run.inputs.map((i) => [i.table, i.read, i.filtered, i.quarantined, i.dispatched, ...(run.counts.snapshot ? [i.superseded ?? 0, i.snapshot ?? 0] : [])])} />
      </Part>
      <Part title="Sinks">
        <Table head={["", "sink", "dispatched", "statements", "rejected"]}
          rows={run.sinks.map((s) => [s.rejected ? "✗ refused rows" : "✓ took all", s.sink, s.dispatched, s.statements ?? 0, s.rejected])} />
      </Part>
      <Part title="Outputs">
        <Table head={["sink", "output", "written"]}
          rows={run.outputs.filter((o) => o.output).map(({ sink, output, ...facts }) => [sink, traced(output, facts), facts_of(facts)])} />
      </Part>
      <Part title="Quality">
        {run.expectations.length + run.checks.length === 0 ? <p>No checks and no expectations.</p> : (
          <Table long={["check or expectation", "observed"]}
            head={["", "check or expectation", "table", "severity", "evaluated", "violations", "observed", "judged by"]}
            rows={[...run.expectations.map(expected), ...run.checks.map(checked)]} />
        )}
      </Part>
      <Part title={`Batches (${run.batch_count})`}>
        <Table head={["batch", "mode", "attempt", "from", "to", "rows", "ms", "committed"]}
          rows={[...run.batches].reverse().map((b) => [b.batch, b.mode, b.attempt, b.from, b.to, b.rows, Math.round(b.duration_ms), at(b.committed_at)])} />
      </Part>
    </section>
  );
}

function Header({ run, dagId, runId }: { run: Run; dagId: string; runId: string }) {
  const { read, filtered, quarantined, dispatched, superseded, reconciled } = run.counts;
  const [n, f, q, d] = [read, filtered, quarantined, dispatched].map((count) => count.toLocaleString("en"));
  return (
    <header>
      <h2 style={{ fontSize: "1.2em", fontWeight: 600 }}>{run.flow}</h2>
      <p>({run.from ?? "–"}, {run.to ?? "–"}] · {run.bytes.toLocaleString("en")} bytes · watermark {run.watermark ? at(run.watermark) : "unknown"}</p>
      <p data-testid="counts">
        {reconciled ? "✓ adds up" : "✗ does not add up"}: read {n} = {f} filtered + {q} quarantined + {d} dispatched{superseded ? ` + ${superseded.toLocaleString("en")} superseded` : ""}
      </p>
      {run.snapshot ? <Progress of={run.snapshot} /> : null}
      {run.gaps_passed.length ? (
        <p role="alert" data-testid="lost">
          ✗ not well: a gap was passed over: {run.gaps_passed.join("; ")}; `databus gaps {run.flow}` names what is lost
        </p>
      ) : null}
      {run.sinks.some((s) => s.rejected) ? (
        <p role="alert" data-testid="rejected">
          ✗ not well: {run.sinks.filter((s) => s.rejected).map((s) => `sink ${s.sink} refused ${s.rejected.toLocaleString("en")} rows`).join(", ")}; they are in quarantine
        </p>
      ) : null}
      <p>{Object.entries(run.durations_ms).map(([stage, ms]) => `${stage} ${Math.round(ms).toLocaleString("en")} ms`).join(" · ")}</p>
      <p>
        Quality: {run.quality === null ? "not evaluated yet" : run.quality.success ? "✓ passed" : `✗ violated, worst: ${run.quality.worst ?? "unknown"}`}
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

function Progress({ of }: { of: Snapshot }) {
  const reads = of.table ? `; ${of.state === "paused" ? "next is" : "reads"} ${of.table}` : "";
  return (
    <p>
      <progress value={of.rows} max={Math.max(of.estimate, of.rows, 1)} aria-label="rows of the snapshot" />{" "}
      <span data-testid="snapshot">{of.text} ({of.cause}{reads}) · {at(of.at)}</span>
    </p>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return <div><h3 style={{ fontWeight: 600, marginBottom: 8 }}>{title}</h3>{children}</div>;
}

function checked(c: Check): ReactNode[] {
  const judgedBy = c.table === "*" ? "batches" : "every row";
  return [c.violations ? "✗ violated" : "✓ met", name(c.check, c.table), c.table, c.severity, c.evaluated, c.violations, c.observed, judgedBy];
}

function expected(e: Expectation): ReactNode[] {
  const state = e.error ? "? not judged" : e.met === null ? "… not judged yet" : e.met ? "✓ met" : "✗ violated";
  return [state, name(e.name, e.table), e.table, e.action, e.evaluated, e.violations, e.error || shown(e.observed), e.judged_by];
}

/** A long name breaks after its underscores; the table stands beside it. */
function name(full: string, table: string): ReactNode {
  const words = (full.endsWith(`@${table}`) ? full.slice(0, -table.length - 1) : full).split(/(?<=_)/);
  return words.map((word, at) => <Fragment key={at}>{word}<wbr /></Fragment>);
}

function shown(observed: unknown): string | number {
  if (observed === null || observed === undefined) return "";
  return typeof observed === "number" || typeof observed === "string" ? observed : JSON.stringify(observed);
}

/** All times are UTC, in ISO format: shown to the millisecond. */
function at(time: string): string {
  return time.replace("T", " ").replace(/(\.\d{3})\d+/, "$1").replace("+00:00", " UTC");
}

/** An output's name; of a topic's partition a link to the journey of the last record that the run wrote there. */
function traced(output: string, facts: Record<string, string | number>): ReactNode {
  const place = /^(.+)\[(\d+)\]$/.exec(output);
  if (!place || typeof facts.last_offset !== "number" || facts.last_offset < 0) return output;
  const q = encodeURIComponent(`${place[1]}:${place[2]}:${facts.last_offset}`);
  return <a href={address(`plugin/databus-trace?q=${q}`)} title="Trace the last record" style={{ textDecoration: "underline" }}>{output}</a>;
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
