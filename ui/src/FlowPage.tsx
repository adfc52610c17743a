import { useState, type ReactNode } from "react";

import { address, Refused } from "./api";
import { Chart, MARKS } from "./Chart";
import { Failure } from "./Failure";
import { fetchFlow, fetchOfAirflow, WINDOWS, type Batch, type FlowView, type OfAirflow, type Window } from "./flow";
import { FlowGraph, runAddress } from "./FlowGraph";
import { SIGNS, stateOf } from "./flows";
import { HISTORY } from "./historyTheme";
import { bytes, number, span, useAddress } from "./page";
import { Refresh, useRefresh } from "./refresh";
import { THEME } from "./theme";
import { exact, time, zone } from "./times";

const STAGES = ["plan", "read", "transform", "check", "dispatch", "commit", "record"];

/** One flow: what is wrong, key figures, its graph, charts, batches, settings. */
export function FlowPage({ dagId, views }: { dagId: string; views: ReactNode }) {
  const [flow, setFlow] = useState<FlowView>();
  const [airflow, setAirflow] = useState<OfAirflow>();
  const [error, setError] = useState<Error>();
  const [tries, setTries] = useState(0);
  const [details, setDetails] = useState(false);
  const [chosen, setWindow] = useAddress("window");
  const window_ = WINDOWS.find((known) => known === chosen) ?? "1h";
  const [every, setEvery] = useRefresh(async (signal) => {
    try {
      const [found, of] = await Promise.all([fetchFlow(dagId, window_, details, signal), fetchOfAirflow(dagId, signal)]);
      setFlow(found); setAirflow(of); setError(undefined);
    } catch (reason) {
      if (!signal.aborted) setError(reason as Error);
    }
  }, `${window_} ${tries} ${details}`);
  const again = () => setTries(tries + 1);

  if (!flow || !airflow) {
    const none = error instanceof Refused && error.detail.code === "flow_not_recorded";
    return (
      <section className="databus" data-testid="databus-flow">
        <style>{THEME}</style>
        {none ? <div className="card" role="status" data-testid="no-flow"><p><b>No batch is recorded of a flow that this DAG runs.</b></p>
          <p className="note">A flow is shown here from its first batch on. DAGs that are no Databus flow have nothing here.</p></div>
          : error ? <Failure what="The flow could not be read:" error={error} again={again} />
            : <p role="status" className="loading">Loading …</p>}
      </section>
    );
  }
  const facts = { ...flow, last_batch: { gap_passed: flow.last_batch.lost } };
  const failed = new Set(airflow.run?.state === "failed" ? [dagId] : []);
  const { state, cause } = stateOf({ dagId, dag: airflow.dag, recorded: facts }, failed);
  const { sign, tone } = SIGNS[state];
  const about = state === "Stopped" && airflow.run
    ? address(`dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(airflow.run.dag_run_id)}`)
    : runAddress(dagId, flow.last_batch.run_id);
  return (
    <section className="databus" data-testid="databus-flow">
      <style>{THEME + HISTORY}</style>
      {views}
      {error ? <p role="alert" className="banner" data-tone="warn"><span>! <b>As of {time(flow.as_of)}.</b> Not refreshed since: {error.message}</span>
        <button type="button" className="end" onClick={again}>Try again</button></p> : null}
      <div className="bar">
        <h2>{flow.flow}</h2>
        <span className="pill" data-tone={tone} data-testid="state" aria-live="polite"><span aria-hidden="true">{sign} </span>{state}</span>
        <span className="note">{[flow.mode === "replay" ? "replay" : "", airflow.dag.timetable_summary].filter(Boolean).join(" · ")}</span>
        <span className="end">as of {time(flow.as_of)} {zone()} <Refresh every={every} onChange={setEvery} /></span>
      </div>
      {cause ? <p className="banner" data-tone={tone} data-testid="cause"><span><span aria-hidden="true">{sign} </span><b>{cause}</b></span>
        {flow.last_batch.run_id ? <a className="end" href={about}>{state === "Stopped" ? "Open the failed run" : "Open run"} →</a> : null}</p> : null}
      <Facts flow={flow} />
      <FlowGraph flow={flow} />
      <div className="bar">
        <h3>Last {window_ === "1h" ? "hour" : window_ === "24h" ? "day" : "7 days"}</h3>
        <span role="group" aria-label="Window" className="bar">
          {WINDOWS.map((known: Window) => <button key={known} type="button" aria-pressed={known === window_} onClick={() => setWindow(known)}>{known}</button>)}
        </span>
      </div>
      <div className="charts">
        <Chart title="Delay" unit="seconds" from={flow.chart.from} width={flow.chart.width_seconds} values={flow.chart.delay_seconds} marks={flow.marks} />
        <Chart title="Rows/s" unit="rows/s" from={flow.chart.from} width={flow.chart.width_seconds} values={flow.chart.rows_per_second} marks={flow.marks} filled />
      </div>
      {flow.marks.length ? <ul className="marks" data-testid="marks">
        {[...flow.marks].reverse().slice(0, 12).map((mark, index) => {
          const { sign: of, word, tone: how } = MARKS[mark.kind] ?? { sign: "•", word: mark.kind, tone: "calm" };
          return <li key={index} data-tone={how}><time dateTime={mark.at} title={exact(mark.at)}>{time(mark.at)}</time>{" "}
            <b className="state"><span aria-hidden="true">{of} </span>{word}</b> {mark.text}</li>;
        })}
      </ul> : null}
      {flow.snapshot ? <p className="card" data-testid="snapshot"><b>Snapshot: {flow.snapshot.state}</b>{" "}
        <progress value={flow.snapshot.rows} max={Math.max(flow.snapshot.estimate, flow.snapshot.rows, 1)} aria-label="rows of the snapshot" />{" "}
        {flow.snapshot.text} · {time(flow.snapshot.at)}</p> : null}
      <Batches flow={flow} />
      <Definition flow={flow} open={() => setDetails(true)} />
    </section>
  );
}

function Facts({ flow }: { flow: FlowView }) {
  const { last_batch: last } = flow;
  const gaps = flow.marks.filter((mark) => mark.kind === "gap").length;
  const facts: [string, string, string, string?][] = [
    ["Watermark", flow.watermark ? time(flow.watermark) : "unknown", "commit time at the source"],
    ["Last batch", last.batch.toLocaleString("en"), `${span(flow.age_seconds)} ago · took ${span(total(last) / 1000)}`],
    ["Delay", flow.delay_seconds === null ? "unknown" : span(flow.delay_seconds), "commit → batch committed"],
    ["Rows/s", number(flow.rows_per_second), "over five minutes"],
    ["Held", flow.held_rows.toLocaleString("en"), "rows, by checks", flow.held_rows ? "warn" : undefined],
    ["Gaps", String(gaps), `passed in ${flow.window}`, gaps ? "bad" : undefined],
    ["Epoch", flow.epoch.toLocaleString("en"), "claims of the lease"],
  ];
  return (
    <dl className="facts" data-testid="facts">
      {facts.map(([name, value, about, tone]) => (
        <div key={name} data-tone={tone}><dt>{name}</dt><dd className="state">{value}</dd><dd className="note">{about}</dd></div>
      ))}
    </dl>
  );
}

function Batches({ flow }: { flow: FlowView }) {
  const longest = Math.max(1, ...flow.batches.map(total));
  return (
    <>
      <div className="bar"><h3>Newest batches</h3>
        <span className="end legend">{STAGES.map((stage) => <span key={stage}><i className={`stage ${stage}`} aria-hidden="true" /> {stage}</span>)}</span></div>
      <div className="room" role="region" aria-label="Newest batches" tabIndex={0}>
        <table className="dense">
          <thead><tr>
            <th scope="col" className="n">Batch</th><th scope="col" className="n">Committed</th><th scope="col">Range</th><th scope="col" className="n">Log</th>
            <th scope="col" className="n">Read</th><th scope="col" className="n">Filtered</th><th scope="col" className="n">Held</th>
            <th scope="col" className="n">Dispatched</th><th scope="col">Audit</th><th scope="col" className="n">Took</th><th scope="col">Stages</th><th scope="col">Run</th>
          </tr></thead>
          <tbody>{flow.batches.map((batch) => <BatchRow key={`${batch.batch} ${batch.committed_at}`} batch={batch} dagId={flow.dag_id} longest={longest} />)}</tbody>
        </table>
      </div>
    </>
  );
}

function BatchRow({ batch, dagId, longest }: { batch: Batch; dagId: string; longest: number }) {
  const link = runAddress(batch.dag_id || dagId, batch.run_id);
  const told = batch.refilled ? "– from history" : batch.adds_up ? "✓ adds up" : "✕ does not add up";
  const stages = Object.entries(batch.durations_ms).map(([stage, ms]) => `${stage} ${Math.round(ms)} ms`).join(", ");
  return (
    <tr data-tone={batch.lost || !batch.adds_up ? "bad" : undefined}>
      <td className="n">{batch.first_batch === null ? "" : `${batch.first_batch.toLocaleString("en")}–`}{batch.batch.toLocaleString("en")}</td>
      <td className="n" title={exact(batch.committed_at)}>{time(batch.committed_at)}</td>
      <td className="place" title={`(${batch.from}, ${batch.to}]`}>{short(batch.from, batch.to)}</td>
      <td className="n">{bytes(batch.bytes)}</td>
      {[batch.read, batch.filtered, batch.quarantined, batch.dispatched].map((rows, index) => (
        <td key={index} className="n" data-tone={index === 2 && rows ? "warn" : undefined}>{index === 2 && rows ? <b className="state">{rows.toLocaleString("en")}</b> : rows.toLocaleString("en")}</td>
      ))}
      <td>{batch.lost ? <b className="state">✕ gap passed</b> : told}</td>
      <td className="n">{span(total(batch) / 1000)}</td>
      <td title={stages}><span className="stages" role="img" aria-label={stages || "not known"} style={{ width: Math.max(2, (total(batch) / longest) * 120) }}>
        {Object.entries(batch.durations_ms).map(([stage, ms]) => <i key={stage} className={`stage ${stage}`} style={{ flexGrow: ms }} />)}
      </span></td>
      <td>{batch.run_id.startsWith("local:") ? batch.run_id : <a href={link}>{batch.run_id.split("__")[0]} {time(batch.committed_at)}</a>}</td>
    </tr>
  );
}

function Definition({ flow, open }: { flow: FlowView; open: () => void }) {
  const known = flow.definition;
  return (
    <>
      <details className="card" data-testid="settings" onToggle={(e) => { if (e.currentTarget.open) open(); }}>
        <summary><b>Settings</b> <span className="note">{known ? `since batch ${known.batch.toLocaleString("en")}, ${time(known.since)}` : "not recorded yet: the next batch brings them"}</span></summary>
        {flow.settings ? <pre tabIndex={0} aria-label="Settings as JSON">{JSON.stringify(flow.settings, null, 2)}</pre> : null}
      </details>
      <details className="card" data-testid="schemas" onToggle={(e) => { if (e.currentTarget.open) open(); }}>
        <summary><b>Schemas</b> <span className="note">what each table gives each output, as the newest run with rows had it</span></summary>
        {flow.tables.length ? (
          <table className="dense">
            <thead><tr><th scope="col">Table</th><th scope="col">Sink</th><th scope="col">Output</th><th scope="col">Fields</th></tr></thead>
            <tbody>{flow.tables.map((table, index) => (
              <tr key={index}><td>{table.table}</td><td>{table.sink}</td><td>{table.output}</td>
                <td className="wrap">{table.unknown || table.fields.map((field) => (field.steps.length ? `${field.field} (${field.steps.join(", ")})` : field.field)).join(", ")}</td></tr>
            ))}</tbody>
          </table>
        ) : null}
      </details>
    </>
  );
}

function total(batch: Batch): number {
  return Object.values(batch.durations_ms).reduce((sum, ms) => sum + ms, 0);
}

/** A range with a log's files by their numbers alone; whole as its title. */
function short(from: string, to: string): string {
  const cut = (place: string) => {
    const file = /^.*\.(\d{6,}):(\d+)$/.exec(place);
    if (file) return `${Number(file[1])}:${Number(file[2]).toLocaleString("en")}`;
    return place.length > 28 ? `${place.slice(0, 27)}…` : place;
  };
  return `(${cut(from)}, ${cut(to)}]`;
}
