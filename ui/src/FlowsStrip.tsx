import { useRef, useState } from "react";

import { address, Refused } from "./api";
import { count, fetchDags, fetchFlows, flowsOf, SIGNS, type Flow, type State } from "./flows";
import { number } from "./page";
import { useRefresh } from "./refresh";
import { THEME } from "./theme";
import { time } from "./times";

const EVERY_MS = 30_000;
const WORST = 5;

/** Flows on Airflow's dashboard: how many are in which state, and the worst by name. */
export function FlowsStrip() {
  const [seen, setSeen] = useState<{ asOf: string; flows: Flow[] }>();
  const [error, setError] = useState<Error>();
  const looked = useRef(0);
  useRefresh(async (signal) => {
    if (Date.now() - looked.current < EVERY_MS) return;
    looked.current = Date.now();
    try {
      const [{ as_of, flows }, dags] = await Promise.all([fetchFlows(signal), fetchDags(signal)]);
      setSeen({ asOf: as_of, flows: flowsOf(flows, dags.dags, dags.failed) });
      setError(undefined);
    } catch (reason) {
      if (!signal.aborted) setError(reason as Error);
    }
  });
  // Who may not see DAGs has no flows here, and is told so on the page.
  if (error instanceof Refused && [401, 403].includes(error.status)) return null;
  if (seen ? seen.flows.length === 0 : !error) return null;
  const wrong = (seen?.flows ?? []).filter((flow) => ["bad", "warn"].includes(SIGNS[flow.state].tone)).slice(0, WORST);
  const rate = (seen?.flows ?? []).reduce((sum, flow) => sum + (flow.recorded?.rows_per_second ?? 0), 0);
  return (
    // The place behind the numbers of runs and tasks, which the host orders by.
    <section className="databus" data-testid="databus-strip" aria-label="Databus flows" style={{ order: 4, padding: 0 }}>
      <style>{THEME}</style>
      <div className="bar">
        <h2><a href={address("plugin/databus")}>Databus flows</a></h2>
        {!seen ? <span role="alert">could not be read: {error?.message}</span> : (Object.keys(SIGNS) as State[]).map((state) => {
          const many = seen.flows.filter((flow) => flow.state === state).length;
          return many ? (
            <a key={state} className="pill" data-tone={SIGNS[state].tone} href={address(`plugin/databus?state=${encodeURIComponent(state)}`)}>
              <span aria-hidden="true">{SIGNS[state].sign}</span> {state} {many}
            </a>
          ) : null;
        })}
        {seen ? <span className="end">{error ? `not refreshed since ${time(seen.asOf)}` : `${count(seen.flows.length, "flow")} · ${number(rate)} rows/s`}</span> : null}
      </div>
      {wrong.length ? (
        <ul className="marks" data-testid="worst">{wrong.map((flow) => (
          <li key={flow.name} className="bar" data-tone={SIGNS[flow.state].tone}>
            <b className="state"><span aria-hidden="true">{SIGNS[flow.state].sign} </span>{flow.state}</b>
            <a href={address(`dags/${encodeURIComponent(flow.dagId)}${flow.recorded ? "/plugin/databus-flow" : ""}`)}>{flow.name}</a><span>{flow.cause}</span>
          </li>
        ))}</ul>
      ) : null}
    </section>
  );
}
