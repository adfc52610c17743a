import { useEffect, useRef, useState } from "react";

import { address, Refused } from "./api";
import { Failure } from "./Failure";
import { count } from "./flows";
import { JourneySteps } from "./JourneySteps";
import { span, useAddress } from "./page";
import { Tabs } from "./Tabs";
import { THEME } from "./theme";
import { fetchTrace, KINDS, type Journey, type Traced } from "./trace";
import { WhatChanged } from "./WhatChanged";

/** One change, from the log to all places where it stands. */
export function TracePage() {
  const [asked, setAsked] = useAddress("q");
  const [kind, setKind] = useAddress("as");
  const [text, setText] = useState(asked);
  const [tries, setTries] = useState(0);
  const [found, setFound] = useState<Traced>();
  const [error, setError] = useState<Error>();
  const [looks, setLooks] = useState(false);
  const [at, setAt] = useState(0);
  const box = useRef<HTMLInputElement>(null);

  useEffect(() => {
    setFound(undefined); setError(undefined); setAt(0);
    if (!asked) return;
    const leave = new AbortController();
    setLooks(true);
    fetchTrace(asked, kind, leave.signal).then(setFound).catch((reason: Error) => { if (!leave.signal.aborted) setError(reason); })
      .finally(() => { if (!leave.signal.aborted) setLooks(false); });
    return () => leave.abort();
  }, [asked, kind, tries]);

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key === "/" && !(event.target instanceof HTMLInputElement)) { event.preventDefault(); box.current?.focus(); }
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);

  const journey = found?.journeys[at];
  return (
    <section className="databus" data-testid="databus-trace">
      <style>{THEME}</style>
      <Tabs here="Trace" />
      <h1 className="hidden">Trace a change</h1>
      <form role="search" className="ask" onSubmit={(event) => { event.preventDefault(); setAsked(text.trim()); setTries(tries + 1); }}>
        <input ref={box} type="search" value={text} aria-label="Change to trace" spellCheck={false} placeholder="A key, GTID, position, record, document or event id  ( / )" onChange={(e) => setText(e.target.value)} />
        <select aria-label="Kind" value={kind} onChange={(e) => setKind(e.target.value)}>
          <option value="">by its form</option>
          {Object.entries(KINDS).map(([name, told]) => <option key={name} value={name}>{told}</option>)}
        </select>
        <button type="submit" className="primary">Trace</button>
      </form>
      <p className="bar understands"><span>Understands</span>
        {Object.entries(KINDS).map(([name, told]) => <span key={name} className="chip" data-on={found?.kind === name || undefined}>{found?.kind === name ? "✓ " : ""}{told}</span>)}
        <span className="end" role="status">{looks ? "Looking …" : found ? `${count(found.journeys.length + found.more, "change")} · answered in ${span(found.seconds)}` : ""}</span></p>
      {error ? <Nothing error={error} again={() => setTries(tries + 1)} /> : null}
      {found && journey ? (
        <div className="trace">
          <div className="card" data-testid="journey">
            <Head journey={journey} at={at} of={found.journeys.length} move={setAt} />
            <JourneySteps steps={journey.steps} />
            {journey.notes.length ? <ul className="notes">{journey.notes.map((note) => <li key={note}>{note}</li>)}</ul> : null}
            <Foot journey={journey} />
          </div>
          <WhatChanged key={`${at} ${found.what}`} journey={journey} />
        </div>
      ) : null}
      {!asked ? <p className="card note">Paste what you have: from a log, an alert, a topic, an index or the quarantine. Only flows that you may see are looked through.</p> : null}
    </section>
  );
}

function Nothing({ error, again }: { error: Error; again: () => void }) {
  const unknown = error instanceof Refused && error.detail.code === "trace_query_unknown";
  if (!(error instanceof Refused) || !(unknown || error.status === 404)) return <Failure what="It could not be traced:" error={error} again={again} />;
  const looked = error.detail.looked_through;
  return (
    <div className="card" role="status" data-testid="nothing">
      <p><b><span aria-hidden="true">– </span>{unknown ? "That cannot be traced." : "Not found."}</b> {error.message}</p>
      {error.detail.hint ? <p className="note">{error.detail.hint}</p> : null}
      {looked ? <p className="note" data-testid="looked">Looked through {count(looked.flows.length, "flow")}{looked.flows.length ? `: ${looked.flows.slice(0, 20).join(", ")}` : ""}
        {looked.flows.length > 20 ? " and others" : ""}{looked.not_readable.length ? `. Not readable here: ${looked.not_readable.join(", ")}` : ""}.</p> : null}
      <p><code>{error.detail.code}</code></p>
    </div>
  );
}

const OPS: Record<string, string> = { c: "insert", u: "update", d: "delete", r: "read by a snapshot", t: "truncate", m: "statement" };

function Head({ journey, at, of, move }: { journey: Journey; at: number; of: number; move: (at: number) => void }) {
  const { change } = journey;
  return (
    <div className="bar head">
      <h2>{[change.table, change.key].filter(Boolean).join(" ") || "Change"}{change.op ? `, ${OPS[change.op] ?? change.op}` : ""}</h2>
      {journey.flow ? <span className="note">in {journey.dag_id ? <a href={address(`dags/${encodeURIComponent(journey.dag_id)}/plugin/databus-flow`)}>{journey.flow}</a> : journey.flow}</span> : null}
      {of > 1 ? <span className="end bar" role="group" aria-label="Changes">
        <button type="button" aria-label="Change before" disabled={at === 0} onClick={() => move(at - 1)}>‹</button>
        <span>change {at + 1} of {of}</span>
        <button type="button" aria-label="Change behind" disabled={at === of - 1} onClick={() => move(at + 1)}>›</button>
      </span> : null}
    </div>
  );
}

function Foot({ journey }: { journey: Journey }) {
  const [copied, setCopied] = useState(false);
  const begun = journey.steps[0]?.at;
  const after = (at: string | null | undefined) => (begun && at ? Math.max(0, (Date.parse(at) - Date.parse(begun)) / 1000) : undefined);
  const record = after(journey.steps.find((step) => step.stage === "record")?.at);
  const last = Math.max(...journey.steps.map((step) => after(step.at) ?? 0));
  return (
    <p className="bar foot">
      <span>{record === undefined ? "When it was readable is not known." : <>Readable after <b>{span(record)}</b> in Kafka{last > record ? <>; everywhere after <b>{span(last)}</b></> : null}.</>}</span>
      <button type="button" className="end" onClick={() => void navigator.clipboard?.writeText(JSON.stringify(journey, null, 2)).then(() => setCopied(true))}>{copied ? "Copied" : "Copy as JSON"}</button>
    </p>
  );
}
