import { useEffect, useState } from "react";

import { get, told, type ProblemFacts } from "./operators";
import type { Mirror } from "./mirrors";
import { ProblemBox } from "./ProblemBox";

type Place = { topic: string; partition: number; offset: number };
type GroupPlace = Place & { other_topic: string | null; other_partition: number | null; other_offset: number | null; committed: number | null };
type Answer = { asked: string; place?: Place; group?: { group: string; places: GroupPlace[] } };

/** Translates what a consumer would read next, or all that a group has committed, from one side of a mirror to the other. */
export function TranslateBox({ dagId, mirror }: { dagId: string; mirror: Mirror }) {
  const [text, setText] = useState("");
  const [back, setBack] = useState(false);
  const [asked, setAsked] = useState<{ text: string; back: boolean }>();
  const [answer, setAnswer] = useState<Answer>();
  const [problem, setProblem] = useState<ProblemFacts>();
  const [here, there] = back ? [mirror.to, mirror.from] : [mirror.from, mirror.to];
  useEffect(() => {
    setAnswer(undefined);
    setProblem(undefined);
    if (!asked) return undefined;
    const leave = new AbortController();
    ask(dagId, asked.text, asked.back, leave.signal).then(
      (found) => { if (!leave.signal.aborted) setAnswer(found); },
      (error: unknown) => { if (!leave.signal.aborted) setProblem(told(error)); },
    );
    return () => leave.abort();
  }, [dagId, asked]);
  return (
    <section className="card" aria-label="Translate an offset" data-testid="translate">
      <h3>Translate an offset</h3>
      <form className="ask" onSubmit={(event) => { event.preventDefault(); if (text.trim()) setAsked({ text: text.trim(), back }); }}>
        <input value={text} aria-label="Offset or consumer group" placeholder="TOPIC:PARTITION:OFFSET, or a consumer group" onChange={(e) => setText(e.target.value)} data-testid="offset" />
        <select aria-label="Direction" value={back ? "back" : ""} onChange={(e) => { setBack(e.target.value === "back"); setAsked(undefined); }} data-testid="direction">
          <option value="">{mirror.from} → {mirror.to}</option><option value="back">{mirror.to} → {mirror.from}</option>
        </select>
        <button type="submit">Translate</button>
      </form>
      {problem ? <ProblemBox of={problem} /> : null}
      <div className="told" role="status" data-testid="translated">
        {answer?.place ? <>{answer.asked} of {here} goes on at <output>{placeText(answer.place)}</output> of {there}.</> : null}
        {answer?.group?.places.length === 0 ? `Group ${answer.group.group} has committed nothing on ${here}.` : null}
        {!answer && !problem ? (asked ? "Looking …" : "An offset is what a consumer would read next. A group stays as it is: this sets nothing.") : null}
      </div>
      {answer?.group?.places.length ? (
        <div className="room" role="region" aria-label="Offsets of the group" tabIndex={0}>
          <table className="dense" data-testid="group">
            <thead><tr><th scope="col">On {here}</th><th scope="col">Goes on on {there}</th><th scope="col" className="n">Committed there</th></tr></thead>
            <tbody>{answer.group.places.map((one) => (
              <tr key={`${one.topic}:${one.partition}`}>
                <td className="place">{placeText(one)}</td>
                <td className="place">{one.other_topic === null ? "nothing was mirrored" : `${one.other_topic}:${one.other_partition}:${one.other_offset}`}</td>
                <td className="n">{one.committed === null ? "—" : one.committed.toLocaleString("en")}</td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      ) : null}
    </section>
  );
}

async function ask(dagId: string, text: string, back: boolean, signal: AbortSignal): Promise<Answer> {
  const place = /^(.+):(\d+):(\d+)$/.exec(text);
  const side: Record<string, string> = back ? { back: "true" } : {};
  if (place) {
    const [, topic = "", partition = "", offset = ""] = place;
    return { asked: text, place: await get<Place>(dagId, `/mirror/translate?${new URLSearchParams({ topic, partition, offset, ...side })}`, signal) };
  }
  return { asked: text, group: await get(dagId, `/mirror/group?${new URLSearchParams({ name: text, ...side })}`, signal) };
}

function placeText({ topic, partition, offset }: Place): string {
  return `${topic}:${partition}:${offset}`;
}
