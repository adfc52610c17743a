import { useEffect, useRef, useState } from "react";

import { number, span } from "./page";
import { exact, tick, time } from "./times";

export type Mark = { kind: string; at: string; text: string };
export const MARKS: Record<string, { sign: string; word: string; tone: string }> = {
  gap: { sign: "✕", word: "gap", tone: "bad" },
  refused: { sign: "✕", word: "refused", tone: "bad" },
  rewind: { sign: "⏪", word: "rewind", tone: "warn" },
  skip: { sign: "⏩", word: "skip", tone: "warn" },
  definition: { sign: "↥", word: "deploy", tone: "calm" },
};
const HEIGHT = 190;
const INSET = { left: 58, right: 12, top: 26, bottom: 22 };

type Props = {
  title: string; unit: "seconds" | "rows/s"; from: string; width: number; values: (number | null)[]; marks: Mark[]; filled?: boolean;
};

/** One series over time: a line that breaks where nothing is known, and dotted lines with a word where something happened. */
export function Chart({ title, unit, from, width, values, marks, filled }: Props) {
  const [room, box] = useWidth();
  const [at, setAt] = useState<number>();
  const told = (value: number) => (unit === "seconds" ? span(value) : `${number(value)} rows/s`);
  const top = ceiling(Math.max(0, ...values.map((value) => value ?? 0)), unit);
  const [left, right] = [INSET.left, Math.max(room - INSET.right, INSET.left + 1)];
  const begin = new Date(from).getTime();
  const whole = values.length * width * 1000;
  const x = (ms: number) => left + ((ms - begin) / whole) * (right - left);
  const y = (value: number) => HEIGHT - INSET.bottom - (value / top) * (HEIGHT - INSET.top - INSET.bottom);
  const middle = (index: number) => begin + (index + 0.5) * width * 1000;
  const points = values.map((value, index) => (value === null ? null : ([x(middle(index)), y(value)] as const)));
  const line = pathOf(points);
  const last = [...values].reverse().find((value) => value !== null);
  const highest = Math.max(...values.map((value) => value ?? -1));
  const summary = last == null ? "nothing in this window" : `last ${told(last)}, highest ${told(highest)}`;
  const here = at === undefined ? undefined : values[at];
  let taken = -Infinity;
  return (
    <div className="card chart" ref={box}>
      <p className="bar"><b>{title}</b>
        <span className="end">{at === undefined || here === undefined ? summary : `${time(new Date(middle(at)).toISOString())} · ${here === null ? "no batch" : told(here)}`}</span></p>
      <svg role="img" aria-label={`${title}: ${summary}`} width={room} height={HEIGHT} onMouseLeave={() => setAt(undefined)}
        onMouseMove={(e) => {
          const inside = (e.clientX - e.currentTarget.getBoundingClientRect().left - left) / (right - left);
          const index = Math.floor(inside * values.length);
          setAt(index >= 0 && index < values.length ? index : undefined);
        }}>
        {[0, 0.5, 1].map((share) => (
          <g key={share}>
            <line x1={left} x2={right} y1={y(top * share)} y2={y(top * share)} stroke="var(--border)" />
            <text x={left - 6} y={y(top * share) + 4} textAnchor="end">{unit === "seconds" ? span(top * share) : number(top * share)}</text>
          </g>
        ))}
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <text key={share} x={x(begin + share * whole)} y={HEIGHT - 6} textAnchor={share === 0 ? "start" : share === 1 ? "end" : "middle"}>{tick(begin + share * whole, whole)}</text>
        ))}
        {filled && line ? <path d={areaOf(points, y(0))} fill="var(--soft)" /> : null}
        <path d={line} fill="none" stroke="var(--blue)" strokeWidth="1.5" strokeLinejoin="round" />
        {points.map((point, index) => (point && !points[index - 1] && !points[index + 1] ? <circle key={index} cx={point[0]} cy={point[1]} r="2.5" fill="var(--blue)" /> : null))}
        {marks.map((mark, index) => {
          const { sign, word, tone } = MARKS[mark.kind] ?? { sign: "•", word: mark.kind, tone: "calm" };
          const place = x(new Date(mark.at).getTime());
          if (place < left || place > right) return null;
          const labelled = place > taken + 4;
          const label = `${sign} ${word}`;
          const before = place + label.length * 7 > right;
          if (labelled) taken = before ? place : place + label.length * 7;
          return (
            <g key={index} data-tone={tone} className="mark">
              <title>{`${exact(mark.at)}: ${mark.text}`}</title>
              <line x1={place} x2={place} y1={INSET.top - 6} y2={y(0)} strokeDasharray="2 3" />
              {labelled ? <text x={before ? place - 3 : place + 3} y={INSET.top - 8} textAnchor={before ? "end" : "start"}>{label}</text> : null}
            </g>
          );
        })}
        {at !== undefined && points[at] ? <circle cx={points[at][0]} cy={points[at][1]} r="3.5" fill="var(--blue)" /> : null}
      </svg>
    </div>
  );
}

function useWidth(): [number, React.RefObject<HTMLDivElement | null>] {
  const [width, setWidth] = useState(560);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!box.current) return;
    const look = new ResizeObserver(([entry]) => { if (entry) setWidth(Math.floor(entry.contentRect.width)); });
    look.observe(box.current);
    return () => look.disconnect();
  }, []);
  return [width, box];
}

function ceiling(highest: number, unit: Props["unit"]): number {
  if (highest <= 0) return 1;
  const base = unit === "seconds" && highest > 60 ? 60 : 1;
  const power = 10 ** Math.floor(Math.log10(highest / base));
  return base * power * ([1, 2, 5, 10].find((step) => step * power >= highest / base) ?? 10);
}

type Point = readonly [number, number] | null;

function pathOf(points: Point[]): string {
  return points.map((point, index) => (point ? `${points[index - 1] ? "L" : "M"}${point[0].toFixed(1)},${point[1].toFixed(1)}` : "")).join("");
}

function areaOf(points: Point[], ground: number): string {
  const found = points.filter((point): point is readonly [number, number] => point !== null);
  const [first, last] = [found[0], found[found.length - 1]];
  return first && last ? `M${first[0]},${ground}L${found.map((point) => point.join(",")).join("L")}L${last[0]},${ground}Z` : "";
}
