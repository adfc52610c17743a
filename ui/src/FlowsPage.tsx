import { useEffect, useRef, useState } from "react";

import { address, Refused } from "./api";
import {
  count, fetchDags, fetchDelays, fetchFlows, flowsOf, SIGNS, type Dag, type Delays, type Flow, type Recorded, type State,
} from "./flows";
import { number, span, useAddress } from "./page";
import { Refresh, useRefresh } from "./refresh";
import { Spark } from "./Spark";
import { Tabs } from "./Tabs";
import { THEME } from "./theme";
import { exact, time, zone } from "./times";

const DAGS_MS = 30_000;

const FIRST_FLOW = `from datetime import timedelta

from databus import Flow, Kafka, MysqlBinlog
from databus.airflow import flow_dag

orders = Flow(
    name="orders_to_kafka",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders",)),
    sinks=(Kafka(conn_id="kafka_east", topic="cdc.orders"),),
)
dag = flow_dag(orders, every=timedelta(minutes=1))`;

type Seen = { asOf: string; recorded: Recorded[] };
type Dags = { dags: Dag[]; failed: Set<string>; at: number; delays: Delays };

/** All flows that a person may see: what is wrong stands first. */
export function FlowsPage() {
  const [seen, setSeen] = useState<Seen>();
  const [dags, setDags] = useState<Dags>();
  const [error, setError] = useState<Error>();
  const [sought, setSought] = useAddress("q");
  const [only, setOnly] = useAddress("state");
  const box = useRef<HTMLInputElement>(null);
  const looked = useRef(0);

  const [every, setEvery] = useRefresh(async (signal) => {
    try {
      if (Date.now() - looked.current > DAGS_MS) {
        const [found, delays] = await Promise.all([fetchDags(signal), fetchDelays(signal)]);
        looked.current = Date.now();
        setDags({ ...found, delays, at: looked.current });
      }
      const { as_of, flows } = await fetchFlows(signal);
      setSeen({ asOf: as_of, recorded: flows });
      setError(undefined);
    } catch (reason) {
      if (!signal.aborted) setError(reason as Error);
    }
  });

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
      if (event.key === "/" && !typing) { event.preventDefault(); box.current?.focus(); }
      if (event.key === "Escape" && event.target === box.current) { setSought(""); box.current?.blur(); }
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);

  if (!seen || !dags) return <section className="databus" role="status"><style>{THEME}</style>{error ? told(error) : "Loading …"}</section>;
  const all = flowsOf(seen.recorded, dags.dags, dags.failed);
  const found = all.filter((flow) => matches(flow, sought));
  const shown = found.filter((flow) => !only || flow.state === only);
  const held = found.reduce((sum, flow) => sum + (flow.recorded?.held_rows ?? 0), 0);
  const rate = found.reduce((sum, flow) => sum + (flow.recorded?.rows_per_second ?? 0), 0);
  return (
    <section className="databus" data-testid="databus-flows">
      <style>{THEME}</style>
      <Tabs here="Flows" />
      {error ? <p role="alert">Not refreshed since {time(seen.asOf)}: {told(error)}</p> : null}
      <div className="bar">
        <h1>Flows</h1>
        <input ref={box} type="search" value={sought} aria-label="Search flows" placeholder="Flow, source or sink  ( / )" onChange={(e) => setSought(e.target.value)} />
        <span role="group" aria-label="States" className="bar">
          <button type="button" aria-pressed={!only} onClick={() => setOnly("")}>All {found.length}</button>
          {(Object.keys(SIGNS) as State[]).map((state) => {
            const many = found.filter((flow) => flow.state === state).length;
            return many || only === state ? (
              <button key={state} type="button" aria-pressed={only === state} onClick={() => setOnly(only === state ? "" : state)}>
                <span aria-hidden="true">{SIGNS[state].sign}</span> {state} {many}
              </button>
            ) : null;
          })}
        </span>
        <span className="end">
          as of {time(seen.asOf)} {zone()} <Refresh every={every} onChange={setEvery} />
        </span>
      </div>
      {all.length === 0 ? <Empty /> : (
        <>
          <p data-testid="sum">{found.length < all.length ? `${found.length} of ` : ""}{count(all.length, "flow")} · {number(rate)} rows/s · {count(held, "row")} held back</p>
          <div className="room" role="region" aria-label="Table of flows" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col">State</th><th scope="col">Flow</th><th scope="col" className="wide">Source → sinks</th>
                  <th scope="col" className="n" title="From a row's commit at its source to the batch's own, of the newest batch">Delay</th>
                  <th scope="col" className="wide" title="Delay, by 90 seconds; the arrow compares the last six minutes with the six before">Last hour</th>
                  <th scope="col" className="n wide">Watermark</th><th scope="col" className="n" title="Over five minutes">Rows/s</th>
                  <th scope="col" className="n">Last batch</th><th scope="col" className="n">Age</th>
                  <th scope="col" className="n wide">Took</th><th scope="col" className="n">Held</th>
                </tr>
              </thead>
              <tbody>{shown.map((flow) => <Row key={flow.name} flow={flow} delays={dags.delays[flow.name]} />)}</tbody>
            </table>
          </div>
          {shown.length === 0 ? <p>No flow is like this. <button type="button" onClick={() => { setSought(""); setOnly(""); }}>Show all</button></p> : null}
        </>
      )}
    </section>
  );
}

function Row({ flow, delays }: { flow: Flow; delays?: (number | null)[] }) {
  const { sign, tone } = SIGNS[flow.state];
  const r = flow.recorded;
  const about = [r?.mode === "replay" ? r.mode : "", flow.dag?.timetable_summary].filter(Boolean).join(" · ");
  const dag = `dags/${encodeURIComponent(flow.dagId)}`;
  const run = r ? `${dag}/runs/${encodeURIComponent(r.last_batch.run_id)}/plugin/databus-run` : dag;
  return (
    <tr data-tone={tone} data-testid={`flow ${flow.name}`}>
      <td><span className="state"><span className="sign" aria-hidden="true">{sign}</span>{flow.state}</span></td>
      <td>
        <a href={address(r ? `${dag}/plugin/databus-flow` : dag)}>{flow.name}</a>
        <span className="note why">
          {about ? `${about}${flow.cause ? " · " : ""}` : ""}
          {flow.cause ? <><b>{flow.cause}</b>{" "}<a href={address(flow.state === "Stopped" ? `${dag}/runs?state=failed` : run)}>{flow.state === "Stopped" ? "Open failed runs" : "Open run"} →</a></> : null}
        </span>
      </td>
      <td className="wide">{flow.dag?.description ?? ""}</td>
      <td className="n">{r?.delay_seconds == null ? "—" : span(r.delay_seconds)}</td>
      <td className="wide">{delays ? <Spark values={delays} /> : "—"}</td>
      <td className="n wide" title={r?.watermark ? exact(r.watermark) : ""}>{r?.watermark ? time(r.watermark) : "—"}</td>
      <td className="n">{r ? number(r.rows_per_second) : "—"}</td>
      <td className="n">{r ? <a href={address(run)}>{r.last_batch.number.toLocaleString("en")}</a> : "—"}</td>
      <td className="n" title={r ? exact(r.last_batch.committed_at) : ""}>{r ? span(r.last_batch.age_seconds) : "—"}</td>
      <td className="n wide">{r ? span(r.last_batch.seconds) : "—"}</td>
      <td className="n">{r ? r.held_rows.toLocaleString("en") : "—"}</td>
    </tr>
  );
}

function Empty() {
  return (
    <div data-testid="empty">
      <p>No flow yet. A flow is a DAG file; put this one into the DAG folder, and it is here within a minute:</p>
      <pre>{FIRST_FLOW}</pre>
    </div>
  );
}

function matches(flow: Flow, sought: string): boolean {
  const text = `${flow.name} ${flow.dagId} ${flow.dag?.description ?? ""}`.toLowerCase();
  return sought.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function told(error: Error): string {
  if (!(error instanceof Refused)) return `no answer: ${error.message}`;
  if (error.status === 401 || error.status === 403) return "you may not see the DAGs of this Airflow.";
  return `${error.status}: ${error.message}`;
}
