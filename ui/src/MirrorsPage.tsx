import { useRef, useState } from "react";

import { address } from "./api";
import { Failure } from "./Failure";
import { count, fetchDags, type Dag } from "./flows";
import { fetchMirrors, lookAt, MIRROR_SIGNS, shownOf, type Looked, type MirrorItem, type Shown } from "./mirrors";
import { MIRRORS } from "./mirrorTheme";
import { span, useAddress } from "./page";
import { Refresh, useRefresh } from "./refresh";
import { Tabs } from "./Tabs";
import { THEME } from "./theme";
import { exact, time, zone } from "./times";
import { TranslateBox } from "./TranslateBox";

/** A look asks both clusters of each mirror: it is not made more often, whatever the page's refresh is. */
const AT_LEAST_MS = 15_000;

const FIRST_MIRROR = `from datetime import timedelta

from databus import Mirror
from databus.airflow import mirror_dag

mirror = Mirror(name="east_to_west", source_conn_id="kafka_east", target_conn_id="kafka_west", topics=("cdc.*",))
dag = mirror_dag(mirror, every=timedelta(minutes=1))`;

type Known = { items: MirrorItem[]; dags: Dag[]; failed: Set<string> };

/** All mirrors that a person may see, as a matrix of clusters: rows copy to columns. */
export function MirrorsPage() {
  const [known, setKnown] = useState<Known>();
  const [looked, setLooked] = useState<Record<string, Looked>>({});
  const [asOf, setAsOf] = useState("");
  const [error, setError] = useState<Error>();
  const [tries, setTries] = useState(0);
  const [chosen, setChosen] = useAddress("mirror");
  const last = useRef<{ at: number; signal?: AbortSignal }>({ at: 0 });
  const [every, setEvery] = useRefresh(async (signal) => {
    if (Date.now() - last.current.at < AT_LEAST_MS && !last.current.signal?.aborted) return;
    last.current = { at: Date.now(), signal };
    try {
      const [items, dags] = await Promise.all([fetchMirrors(signal), fetchDags(signal)]);
      if (signal.aborted) return;
      setKnown({ items, ...dags });
      await Promise.all(items.filter((item) => item.mirror).map(async ({ dag_id }) => {
        const found = await lookAt(dag_id, signal);
        if (!signal.aborted) setLooked((before) => ({ ...before, [dag_id]: found }));
      }));
      if (signal.aborted) return;
      setAsOf(new Date().toISOString());
      setError(undefined);
    } catch (reason) {
      if (!signal.aborted) setError(reason as Error);
    }
  }, tries);
  const again = () => { last.current = { at: 0 }; setTries(tries + 1); };

  const shown = known ? shownOf(known.items, looked, known.dags, known.failed) : [];
  const one = shown.find((each) => each.dagId === chosen) ?? shown[0];
  const unread = known?.items.filter((item) => item.error) ?? [];
  return (
    <section className="databus" data-testid="databus-mirrors">
      <style>{THEME + MIRRORS}</style>
      <Tabs here="Mirrors" />
      {error ? <Failure what="The mirrors could not be read:" error={error} again={again} /> : null}
      <div className="bar">
        <h1>Mirrors</h1>
        {shown[0] ? <Worst shown={shown} /> : null}
        <span className="end">{asOf ? `as of ${time(asOf)} ${zone()} ` : ""}<Refresh every={every} onChange={setEvery} /></span>
      </div>
      {unread.map((item) => <p key={item.dag_id} role="alert">DAG {item.dag_id} could not be read, and may be a mirror: {item.error?.message}</p>)}
      {!known ? (error ? null : <p role="status" className="loading">Loading …</p>) : shown.length === 0 ? <Empty /> : (
        <>
          <Matrix shown={shown} chosen={one?.dagId} choose={setChosen} />
          {one ? <Chosen key={one.dagId} of={one} /> : null}
        </>
      )}
    </section>
  );
}

function Worst({ shown }: { shown: Shown[] }) {
  const wrong = shown.filter((each) => ["bad", "warn"].includes(MIRROR_SIGNS[each.state].tone));
  const [worst] = wrong;
  const looking = shown.some((each) => each.state === "Looking");
  const tone = worst ? MIRROR_SIGNS[worst.state].tone : looking ? "calm" : "good";
  return (
    <>
      <span className="pill" data-tone={tone} data-testid="verdict">
        <span aria-hidden="true">{worst ? MIRROR_SIGNS[worst.state].sign : looking ? "…" : "✓"} </span>
        {worst ? `${wrong.length} of ${count(shown.length, "mirror")} not well` : looking ? "Looking" : `nothing wrong with ${count(shown.length, "mirror")}`}
      </span>
      {worst ? <span>{worst.mirror.from} → {worst.mirror.to}: <b>{worst.cause}</b></span> : null}
    </>
  );
}

function Matrix({ shown, chosen, choose }: { shown: Shown[]; chosen?: string; choose: (dagId: string) => void }) {
  const clusters = [...new Set(shown.flatMap(({ mirror }) => [mirror.from, mirror.to]))].sort();
  return (
    <div className="room" role="region" aria-label="Matrix of mirrors" tabIndex={0}>
      <table className="matrix" data-testid="matrix">
        <thead><tr><td>from ↓ to →</td>{clusters.map((to) => <th key={to} scope="col">{to}</th>)}</tr></thead>
        <tbody>{clusters.map((from) => (
          <tr key={from}>
            <th scope="row">{from}</th>
            {clusters.map((to) => {
              const here = shown.filter(({ mirror }) => mirror.from === from && mirror.to === to);
              if (here.length) return <td key={to}>{here.map((each) => <Cell key={each.dagId} of={each} chosen={each.dagId === chosen} choose={choose} />)}</td>;
              return <td key={to} className={from === to ? "own" : "none"}>{from === to ? "the same cluster" : "no mirror"}</td>;
            })}
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

function Cell({ of, chosen, choose }: { of: Shown; chosen: boolean; choose: (dagId: string) => void }) {
  const { sign, tone } = MIRROR_SIGNS[of.state];
  const { now, mirror } = of;
  const dag = `dags/${encodeURIComponent(of.dagId)}`;
  const waits = now?.lag ? (now.lag.seconds === null ? "age unknown" : now.lag.records ? span(now.lag.seconds) : "up to date") : "—";
  return (
    <div className="copy" data-tone={tone} data-chosen={chosen || undefined} data-testid={`mirror ${mirror.flow}`}>
      <div className="first">
        <a href={address(`${dag}/plugin/databus-flow`)}>{mirror.flow}</a>
        <span className="state"><span className="sign" aria-hidden="true">{sign}</span>{of.state}</span>
      </div>
      <div><span className="late">{waits}</span>{of.cause ? <span className="note">{of.cause}</span> : null}</div>
      <dl className="figures">
        <div><dt>records behind</dt><dd>{now?.lag ? now.lag.records.toLocaleString("en") : "—"}</dd></div>
        {now?.lag?.held_back ? <div><dt>behind an open transaction</dt><dd>{now.lag.held_back.toLocaleString("en")}</dd></div> : null}
        <div><dt>heartbeat</dt><dd title={now?.heartbeat?.written_at ? exact(now.heartbeat.written_at) : ""}>{heartbeatOf(of)}</dd></div>
        <div><dt>groups on the target</dt><dd>{mirror.groups.length === 0 ? "none followed" : now?.groups ? `${now.groups.on_target} of ${now.groups.followed}` : "—"}</dd></div>
      </dl>
      <div className="ways">
        <a href={address(dag)}>DAG</a>
        <button type="button" aria-pressed={chosen} aria-label={`Show ${mirror.flow}`} onClick={() => choose(of.dagId)}>Show</button>
      </div>
    </div>
  );
}

function heartbeatOf({ mirror, now }: Shown): string {
  if (mirror.heartbeat_seconds === null) return "none written";
  if (!now?.heartbeat) return "—";
  return now.heartbeat.age_seconds === null ? "none has arrived" : `${span(now.heartbeat.age_seconds)} old`;
}

/** One mirror: its partitions that are behind most, groups that the target lacks, and the translation of offsets. */
function Chosen({ of }: { of: Shown }) {
  const { mirror, now } = of;
  return (
    <>
      <div className="bar">
        <h2>{mirror.from} → {mirror.to}</h2><span>{mirror.flow}</span>
        <span className="note">topics <code>{mirror.topics.join(", ")}</code>{mirror.exclude_topics.length ? <> without <code>{mirror.exclude_topics.join(", ")}</code></> : null}
          {mirror.partner ? <> · both ways with {mirror.partner}</> : null}{now?.updated_at ? <> · batch {now.batch?.toLocaleString("en")} at <span title={exact(now.updated_at)}>{time(now.updated_at)}</span></> : null}</span>
      </div>
      {now?.problems.map((problem) => (
        <div key={problem.of} role="alert" data-testid="away"><p>✕ <b>{problem.of}</b>: {problem.message}</p><p className="note">{problem.hint} <code>{problem.code}</code></p></div>
      ))}
      <div className="both">
        <section className="card" aria-label="Partitions" data-testid="partitions">
          <h3>Partitions</h3>
          {!now?.lag ? <p className="note">{now ? "Not known." : "Looking …"}</p> : now.lag.behind === 0 ? <p>All of {count(now.lag.partitions, "partition")} are up to date.</p> : (
            <>
              <p className="note">{now.lag.behind.toLocaleString("en")} of {count(now.lag.partitions, "partition")} behind, those furthest behind first.</p>
              <div className="room" role="region" aria-label="Partitions that are behind" tabIndex={0}>
                <table className="dense">
                  <thead><tr><th scope="col">Partition</th><th scope="col">On the target</th><th scope="col" className="n">Records</th><th scope="col" className="n">Oldest waits</th><th scope="col" className="n">Open transaction</th></tr></thead>
                  <tbody>{now.lag.worst.map((one) => (
                    <tr key={`${one.topic}:${one.partition}`}>
                      <td className="place">{one.topic}[{one.partition}]</td><td className="place">{one.target}</td><td className="n">{one.records.toLocaleString("en")}</td>
                      <td className="n">{one.seconds === null ? "unknown" : span(one.seconds)}</td><td className="n">{one.held_back ? one.held_back.toLocaleString("en") : "—"}</td>
                    </tr>
                  ))}</tbody>
                </table>
              </div>
            </>
          )}
          {now?.groups?.missing.length ? <p data-testid="missing">Groups that the target does not have: {now.groups.missing.join(", ")}{now.groups.followed - now.groups.on_target > now.groups.missing.length ? ", …" : ""}.
            <span className="note">A group that has committed nothing of the mirrored topics is not carried.</span></p> : null}
        </section>
        <TranslateBox dagId={of.dagId} mirror={mirror} />
      </div>
    </>
  );
}

function Empty() {
  return (
    <div data-testid="empty">
      <p>No mirror, or none that you may see. A mirror is a DAG file; put this one into the DAG folder, and it is here within a minute:</p>
      <pre>{FIRST_MIRROR}</pre>
    </div>
  );
}
