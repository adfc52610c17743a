import { address } from "./api";
import type { FlowView, Sink } from "./flow";
import { count } from "./flows";
import { number } from "./page";

/** Source → transforms → checks and quarantine → sinks. A line is as thick as its rate; words say what colours do. */
export function FlowGraph({ flow }: { flow: FlowView }) {
  const { source, transforms, checks, counts, seconds, sinks } = flow.graph;
  const rate = (rows: number) => rows / seconds;
  const largest = Math.max(rate(counts.read), ...sinks.map((sink) => sink.rows_per_second), 0);
  const dropped = counts.read ? (counts.filtered / counts.read) * 100 : 0;
  const violated = checks.filter((check) => check.violations);
  return (
    <div className="room" role="region" aria-label="Flow graph" tabIndex={0}>
      <div className="graph" data-testid="graph">
        <Node kind={source.kind || "source"} name={source.conn_id || flow.flow} lines={[source.datasets.join(", "), flow.place]} testid="source" />
        <Edge rows={rate(counts.read)} largest={largest} />
        <Node kind={transforms.length === 1 ? "1 transform" : `${transforms.length} transforms`} testid="transforms"
          name={counts.filtered ? `drops ${number(rate(counts.filtered))} rows/s (${number(dropped)} %)` : transforms.length ? "drops no row" : "rows as they are"}
          lines={transforms.map((step) => step.label)} />
        <Edge rows={rate(counts.read - counts.filtered - counts.superseded)} largest={largest} />
        <div className="stack">
          <Node kind={checks.length === 1 ? "1 check" : `${checks.length} checks`} testid="checks" tone={violated.length ? "warn" : undefined}
            state={violated.length ? `! ${violated.length} violated` : checks.length ? "✓ met" : undefined} name={checks.length ? "" : "no check"}
            lines={checks.map((check) => `${check.name}${check.severity ? ` (${check.severity})` : ""}`)}
            counts={checks.map((check) => (check.violations ? `${check.violations.toLocaleString("en")} of ${check.evaluated.toLocaleString("en")}` : "0"))} />
          <div className="drop" aria-hidden="true" />
          <Node kind="quarantine" testid="quarantine" tone={flow.held_rows ? "warn" : undefined} state={flow.held_rows ? "! held" : undefined}
            name={flow.held_rows ? `${count(flow.held_rows, "row")} held back` : "no row held back"} lines={[]} />
        </div>
        <ul className="sinks">
          {sinks.map((sink) => (
            <li key={sink.name}>
              <Edge rows={sink.rows_per_second} largest={largest} blocked={sink.held > 0 || sink.rejected > 0} />
              <SinkNode sink={sink} />
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}

function SinkNode({ sink }: { sink: Sink }) {
  const refused = sink.held || sink.rejected;
  const last = sink.last_batch === null ? "no batch in five minutes" : `batch ${sink.last_batch.toLocaleString("en")}`;
  return (
    <Node kind={[sink.kind, sink.conn_id].filter(Boolean).join(" · ")} name={sink.datasets[0] ?? sink.name} testid={`sink ${sink.name}`}
      tone={refused ? "bad" : undefined} state={refused ? `✕ refused ${count(refused, "row")}` : sink.last_batch === null ? "– idle" : "✓ takes all"}
      lines={[`${sink.name} · ${last}`]} />
  );
}

type NodeProps = { kind: string; name: string; lines: string[]; testid: string; tone?: "bad" | "warn"; state?: string; counts?: string[] };

function Node({ kind, name, lines, testid, tone, state, counts }: NodeProps) {
  return (
    <div className="node" data-tone={tone} data-testid={`node ${testid}`}>
      <p className="kind"><span>{kind}</span>{state ? <b className="state">{state}</b> : null}</p>
      {name ? <p className="name" title={name}>{name}</p> : null}
      {lines.slice(0, 4).map((line, index) => <p key={index} className="line counted" title={counts ? `${line}: ${counts[index]}` : line}><span>{line}</span>{counts ? <b>{counts[index]}</b> : null}</p>)}
      {lines.length > 4 ? <p className="line" title={lines.slice(4).join("\n")}>and {lines.length - 4} more</p> : null}
    </div>
  );
}

function Edge({ rows, largest, blocked }: { rows: number; largest: number; blocked?: boolean }) {
  const height = rows > 0 ? 1 + 7.5 * (rows / largest) ** 0.7 : 0;
  const how = blocked ? "blocked" : rows > 0 ? "" : "idle";
  return (
    <div className={`edge ${how}`}>
      <span>{number(Math.max(rows, 0))} rows/s</span>
      <i aria-hidden="true" style={how === "idle" ? undefined : { height: Math.max(height, 2) }} />
      {blocked ? <span className="state">rows refused</span> : null}
    </div>
  );
}

export function runAddress(dagId: string, runId: string): string {
  return address(`dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}/plugin/databus-run`);
}
